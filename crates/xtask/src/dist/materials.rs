//! What the binary is made of: the check of its dependencies, its bill of materials, and the checksums.

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools;

/// The package of the binary, and the file that cargo-cyclonedx writes for it, next to its manifest.
const PACKAGE: &str = "crates/server";
const WRITTEN: &str = "evenkeel_bin.cdx.json";

/// Checks licenses, sources and bans of all dependencies by `deny.toml`. Known vulnerabilities are not checked: their list
/// is not in a package registry (`cargo deny check advisories` reads it from its own repository).
///
/// # Errors
/// A dependency is refused, or cargo-deny cannot be had.
pub(super) fn check(root: &Path) -> Result<()> {
    let status = Command::new(tools::cargo_deny()?)
        .args(["--locked", "check", "bans", "licenses", "sources"])
        .current_dir(root)
        .status()
        .context("cargo-deny cannot be started")?;
    if !status.success() {
        bail!("a dependency is refused: see above, and deny.toml");
    }
    Ok(())
}

/// Writes the bill of materials of the binary next to it, the same byte by byte in every folder.
///
/// # Errors
/// cargo-cyclonedx cannot be had, or a file cannot be written.
pub(super) fn write_bill(root: &Path, binary: &Path) -> Result<PathBuf> {
    let program = tools::cargo_cyclonedx()?;
    let status = Command::new(program)
        .args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5"])
        .args(["--describe", "binaries", "--manifest-path"])
        .arg(root.join(PACKAGE).join("Cargo.toml"))
        .env("SOURCE_DATE_EPOCH", "0")
        .current_dir(root)
        .status()
        .context("cargo-cyclonedx cannot be started")?;
    let written = take_written(root)?;
    if !status.success() {
        bail!("cargo-cyclonedx failed ({status})");
    }
    let text = written.context("cargo-cyclonedx wrote no bill of the binary")?;
    let text = without_folder(&text, &root.display().to_string());
    let bill = binary.with_file_name("evenkeel.cdx.json");
    std::fs::write(&bill, text).with_context(|| format!("{} cannot be written", bill.display()))?;
    Ok(bill)
}

/// Reads the bill of the binary, and removes those that the program wrote among the sources.
fn take_written(root: &Path) -> Result<Option<String>> {
    let mut found = None;
    for folder in std::fs::read_dir(root.join("crates"))? {
        for file in std::fs::read_dir(folder?.path())? {
            let path = file?.path();
            if path.to_string_lossy().ends_with(".cdx.json") {
                if path == root.join(PACKAGE).join(WRITTEN) {
                    found = Some(std::fs::read_to_string(&path)?);
                }
                std::fs::remove_file(&path)?;
            }
        }
    }
    Ok(found)
}

/// The bill without the folder in which it was made.
fn without_folder(bill: &str, folder: &str) -> String {
    bill.replace(&format!("path+file://{folder}/"), "path+file:///evenkeel/")
}

/// Writes the checksums of files in one folder into a file there, as `sha256sum` does.
///
/// # Errors
/// A file cannot be read, or the checksums not written.
pub(super) fn write_checksums(files: &[&Path]) -> Result<PathBuf> {
    let folder = files.first().and_then(|file| file.parent()).context("a file has a folder")?;
    let names = files.iter().filter_map(|file| file.file_name());
    let out = Command::new("sha256sum")
        .args(names)
        .current_dir(folder)
        .output()
        .context("sha256sum cannot be started")?;
    if !out.status.success() {
        bail!("sha256sum: {}", String::from_utf8_lossy(&out.stderr));
    }
    let sums = folder.join("SHA256SUMS");
    std::fs::write(&sums, out.stdout).with_context(|| format!("{} cannot be written", sums.display()))?;
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_does_not_say_in_which_folder_it_was_made() {
        let bill = r#"{"bom-ref": "path+file:///home/ann/keel/crates/core#evenkeel-core@0.1.0"}"#;
        let without = without_folder(bill, "/home/ann/keel");
        assert_eq!(without, r#"{"bom-ref": "path+file:///evenkeel/crates/core#evenkeel-core@0.1.0"}"#);
    }

    #[test]
    fn checksums_stand_next_to_the_files_and_name_them_without_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("evenkeel");
        std::fs::write(&file, "abc").unwrap();
        let sums = write_checksums(&[&file]).unwrap();
        assert_eq!(sums, folder.path().join("SHA256SUMS"));
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(std::fs::read_to_string(sums).unwrap(), format!("{sum}  evenkeel\n"));
    }

    #[test]
    fn the_bill_is_taken_and_no_file_stays_among_the_sources() {
        let root = tempfile::tempdir().unwrap();
        for (package, name) in [("server", WRITTEN), ("sim", "sim_bin.cdx.json")] {
            let folder = root.path().join("crates").join(package);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), package).unwrap();
            std::fs::write(folder.join("Cargo.toml"), "").unwrap();
        }
        assert_eq!(take_written(root.path()).unwrap().as_deref(), Some("server"));
        assert!(root.path().join("crates/sim/Cargo.toml").exists());
        assert!(!root.path().join("crates/sim/sim_bin.cdx.json").exists());
    }
}
