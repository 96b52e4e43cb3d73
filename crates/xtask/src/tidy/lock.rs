//! `Cargo.lock` fits the manifests: a clean clone builds what was tested.

use super::violation::TidyViolation;
use crate::tree::SourceTree;
use std::process::Command;

/// Complains when cargo would have to write `Cargo.lock` anew.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut cargo = Command::new(crate::paths::cargo());
    cargo.current_dir(&tree.root).args(["metadata", "--locked", "--format-version", "1"]);
    // Without a platform cargo would fetch the crates of all of them.
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let complaint = match cargo.output() {
        Ok(out) if out.status.success() => return Vec::new(),
        Ok(out) => String::from_utf8_lossy(&out.stderr).lines().last().unwrap_or_default().to_owned(),
        Err(error) => error.to_string(),
    };
    let message = format!("does not fit the manifests: run `cargo check` and commit it ({complaint})");
    vec![TidyViolation::about("Cargo.lock", message)]
}
