//! `cargo xtask console` builds the console from its sources, and `cargo xtask browser` tries it, with Node.js and npm.

use crate::arguments::only_flag;
use crate::cargo_command::CargoCommand;
use crate::paths::root;
use crate::target;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Builds the console; with `--check` it compares what is built with what is committed instead.
///
/// # Errors
/// Node.js is missing, the sources have faults, or what is committed is not of these sources.
pub fn command(args: &[String]) -> Result<ExitCode> {
    let committed = committed();
    if only_flag(args, "--check")? {
        check(&committed)?;
    } else {
        build(&committed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tries the console in a real browser, with nodes that it starts on loopback.
///
/// # Errors
/// Node.js or Chromium is missing, or a test failed.
pub fn browser(args: &[String]) -> Result<ExitCode> {
    if !args.is_empty() {
        bail!("cargo xtask browser takes no arguments");
    }
    needs_node()?;
    let program = CargoCommand::cargo(&["build", "-p", "evenkeel-server", "--locked"]);
    program.run()?;
    step("npm", &INSTALL)?;
    let program = target().join("debug/evenkeel").display().to_string();
    let mut tests = Command::new("npm");
    finished("npm run browser", tests.args(["run", "--silent", "browser"]).env("EVENKEEL_PROGRAM", program))?;
    Ok(ExitCode::SUCCESS)
}

/// The folder of the built files that are committed.
#[must_use]
pub fn committed() -> PathBuf {
    root().join("crates/server/src/console/built")
}

/// Whether the tools are there that build the console.
#[must_use]
pub fn can_build() -> bool {
    let answers = |tool: &str| {
        let output = Command::new(tool).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    answers("node") && answers("npm")
}

/// Builds the console anew and compares.
///
/// # Errors
/// As those of [`command`].
pub fn check(committed: &Path) -> Result<()> {
    let fresh = target().join("console");
    build(&fresh)?;
    let (now, then) = (files(&fresh)?, files(committed)?);
    let differs = now.keys().chain(then.keys()).find(|name| now.get(*name) != then.get(*name));
    match differs {
        None => Ok(()),
        Some(name) => {
            bail!("{name} is not what the sources give: run `cargo xtask console` and commit its files")
        }
    }
}

fn build(out: &Path) -> Result<()> {
    needs_node()?;
    let out = out.display().to_string();
    step("npm", &INSTALL)?;
    step("npm", &["run", "--silent", "types"])?;
    step("npm", &["run", "--silent", "check"])?;
    step("npm", &["test", "--silent"])?;
    step("node", &["build.mjs", &out])
}

/// Installs exactly what `package-lock.json` names.
const INSTALL: [&str; 5] = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];

fn needs_node() -> Result<()> {
    if !can_build() {
        bail!("this needs Node.js 20 and npm: install both, as with `apt-get install nodejs npm`");
    }
    Ok(())
}

fn step(tool: &str, args: &[&str]) -> Result<()> {
    finished(&format!("{tool} {}", args.join(" ")), Command::new(tool).args(args))
}

/// Runs a command in the folder of the sources.
fn finished(name: &str, command: &mut Command) -> Result<()> {
    let status = command.current_dir(root().join("console")).status();
    if !status.with_context(|| format!("cannot run {name}"))?.success() {
        bail!("{name} failed");
    }
    Ok(())
}

/// The files of a folder by their names. What is compressed is left out: another zlib compresses the same bytes otherwise.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".gz") {
            found.insert(name, std::fs::read(entry.path())?);
        }
    }
    Ok(found)
}
