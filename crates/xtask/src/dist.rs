//! The binary that is given away: optimised, stripped, and the same byte by byte wherever it is built. With it come the
//! list of what it is made of, and checksums.

mod materials;

use crate::cargo_command::{CargoCommand, quoted};
use crate::parts::{minutes, timed};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The largest size that the binary may have.
const SIZE_MAX: u64 = 25_000_000;

/// Checks the dependencies, builds the binary, writes its bill of materials and checksums, and says where they are.
///
/// # Errors
/// When a dependency is refused, or the binary cannot be built or is too large.
pub fn command(args: &[String]) -> Result<ExitCode> {
    if let Some(other) = args.first() {
        bail!("`{other}` means nothing here: `cargo xtask dist` takes no arguments");
    }
    let root = crate::paths::root();
    materials::check(&root)?;
    let (took, built) = timed(|| build(&root, &crate::paths::target().join("dist-build")));
    let binary = built?;
    let size = binary.metadata()?.len();
    let megabytes = size as f64 / 1e6;
    println!("{}: {megabytes:.1} MB, built in {:.1} minutes", binary.display(), minutes(took));
    if size > SIZE_MAX {
        bail!("the binary is larger than {} MB: look for what grew", SIZE_MAX / 1_000_000);
    }
    let bill = materials::write_bill(&root, &binary)?;
    println!("{}: what it is made of, as CycloneDX", bill.display());
    let sums = materials::write_checksums(&[&binary, &bill])?;
    println!("{}: `sha256sum --check SHA256SUMS` there compares them", sums.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds the sources in `source` with all output in `target`; returns where the binary is.
///
/// # Errors
/// When it cannot be built.
pub fn build(source: &Path, target: &Path) -> Result<PathBuf> {
    let maps = remapped(source, target)?;
    let flags: Vec<_> = maps.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let c_flags: Vec<_> = maps
        .iter()
        .map(|(from, to)| quoted(&format!("-ffile-prefix-map={from}={to}")).into_owned())
        .collect();
    let step =
        CargoCommand::cargo(&["build", "--profile", "dist", "--locked", "--package", "evenkeel-server"])
            // Paths may contain spaces, which the encoded form allows.
            .with("CARGO_ENCODED_RUSTFLAGS", &flags.join("\u{1f}"))
            .with("CFLAGS", &c_flags.join(" "))
            .with("CC_SHELL_ESCAPED_FLAGS", "1")
            // What C calls the time of the build, which an allocator would print.
            .with("SOURCE_DATE_EPOCH", "0");
    let status = step
        .command()
        .current_dir(source)
        .env("CARGO_TARGET_DIR", target)
        .status()
        .context("cargo cannot be started")?;
    if !status.success() {
        bail!("the binary cannot be built ({status})");
    }
    Ok(target.join("dist").join("evenkeel"))
}

/// The folders of this machine whose names must not be in the binary, and what stands there instead. Of several that fit a
/// path the last one counts.
fn remapped(source: &Path, target: &Path) -> Result<Vec<(String, &'static str)>> {
    let cargo = match std::env::var_os("CARGO_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cargo"),
    };
    let out =
        Command::new("rustc").args(["--print", "sysroot"]).output().context("rustc cannot be started")?;
    let rust = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    let text = |path: &Path| path.display().to_string();
    Ok(vec![
        (text(&cargo), "/cargo"),
        (rust, "/rust"),
        (text(source), "/evenkeel"),
        (text(target), "/target"),
    ])
}

/// Builds the sources twice, in two folders of different names, and compares the binaries.
///
/// # Errors
/// When they differ, or hold the path of a folder of this machine.
pub fn reproducible(root: &Path) -> Result<()> {
    let space = crate::paths::target().join("reproducible");
    let mut binaries = Vec::new();
    for name in ["one", "another-folder"] {
        let source = space.join(name);
        clear(&source)?;
        copy_tracked_files(root, &source)?;
        let target = space.join(format!("{name}-target"));
        clear(&target)?;
        let binary = build(&source, &target)?;
        binaries
            .push(std::fs::read(&binary).with_context(|| format!("{} cannot be read", binary.display()))?);
        clear(&target)?;
    }
    let (first, second) = (&binaries[0], &binaries[1]);
    if first != second {
        let at = first.iter().zip(second).position(|(a, b)| a != b);
        bail!("two builds differ: {} and {} bytes, first at byte {at:?}", first.len(), second.len());
    }
    let space = space.display().to_string();
    if first.windows(space.len()).any(|window| window == space.as_bytes()) {
        bail!("the binary contains the path {space}");
    }
    println!("two builds in two folders are the same {} bytes", first.len());
    Ok(())
}

fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    Ok(())
}

fn copy_tracked_files(root: &Path, to: &Path) -> Result<()> {
    for path in crate::tree::paths(root)? {
        let target = to.join(&path);
        let folder = target.parent().context("a file has a folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::copy(root.join(&path), &target).with_context(|| format!("{path} cannot be copied"))?;
    }
    Ok(())
}
