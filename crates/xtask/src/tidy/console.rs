//! The built files of the console are those of its sources.

use super::violation::TidyViolation;
use crate::tree::SourceTree;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

const BUILT: &str = "crates/server/src/console/built/mod.rs";
/// The files beside those in `src/` that the build reads.
const BESIDE: [&str; 4] = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"];

/// Complains when the sources have another digest than the one that the built files name.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let Some(built) = tree.text(BUILT) else { return Vec::new() };
    if built.contains(&sources(tree)) {
        return Vec::new();
    }
    let message =
        "these files are of other sources: run `cargo xtask console`, which needs Node.js, and commit both";
    vec![TidyViolation::about(BUILT, message)]
}

/// The digest of the sources, as `console/build.mjs` computes it.
fn sources(tree: &SourceTree) -> String {
    let mut hash = Sha256::new();
    for (path, text) in tree.texts() {
        let Some(name) = path.strip_prefix("console/") else { continue };
        let is_source = name.starts_with("src/") && name != "src/api/schema.ts";
        if is_source || BESIDE.contains(&name) {
            hash.update(format!("{name}\n{}\n", text.len()));
            hash.update(text);
        }
    }
    hash.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
