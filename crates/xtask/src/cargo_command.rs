//! One cargo command of a long run: how it is shown, started and judged.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::process::{Command, ExitCode};

/// Whether cargo set a variable for one package alone.
fn is_of_package(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
}

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> std::borrow::Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

/// A command line, run from the root of the repository.
#[derive(Clone, Debug, Default)]
pub struct CargoCommand {
    /// Arguments of cargo.
    pub args: Vec<String>,
    /// What is added to its environment.
    pub env: Vec<(&'static str, String)>,
}

impl CargoCommand {
    /// A cargo command.
    #[must_use]
    pub fn cargo(args: &[&str]) -> Self {
        Self { args: args.iter().map(|arg| (*arg).to_owned()).collect(), env: Vec::new() }
    }

    /// The same with one variable more.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.env.retain(|(given, _)| *given != name);
        self.env.push((name, value.to_owned()));
        self
    }

    /// The command line, as a person would type it.
    #[must_use]
    pub fn line(&self) -> String {
        let env: String = self.env.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
        let args: Vec<_> = self.args.iter().map(|arg| quoted(arg)).collect();
        format!("{env}cargo {}", args.join(" "))
    }

    /// The command, not yet started.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(crate::paths::cargo());
        // What cargo tells us of ourselves: build scripts would take it for another world and run once more.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_package(name)) {
            command.env_remove(name);
        }
        command
            .current_dir(crate::paths::root())
            .args(&self.args)
            .env("PATH", crate::tools::path())
            .envs(crate::engines::environment())
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Shows the command line and runs it.
    ///
    /// # Errors
    /// When it cannot be started or does not end well.
    pub fn run(&self) -> Result<()> {
        println!("$ {}", self.line());
        let status = self.command().status().context("cargo cannot be started")?;
        if !status.success() {
            bail!("this failed ({status}): {}", self.line());
        }
        Ok(())
    }

    /// Runs it in our place: what it says is all that is said, and its exit code is ours.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_in_place(&self) -> Result<ExitCode> {
        let status = self.command().status().context("cargo cannot be started")?;
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
    }

    /// What it prints, for a command whose words we read.
    ///
    /// # Errors
    /// When it cannot be started or does not end well.
    pub fn output(&self) -> Result<String> {
        let out = self.command().output().context("cargo cannot be started")?;
        if !out.status.success() {
            bail!("this failed: {}\n{}", self.line(), String::from_utf8_lossy(&out.stderr).trim_end());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }
}
