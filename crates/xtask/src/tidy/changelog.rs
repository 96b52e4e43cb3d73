//! The changelog has a place for what is new.

use super::violation::TidyViolation;
use crate::tree::SourceTree;

/// Complains when `CHANGELOG.md` has no heading for unreleased changes.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let text = tree.text("CHANGELOG.md").unwrap_or_default();
    let headings = ["## Unreleased", "## [Unreleased]"];
    if text.lines().any(|line| headings.contains(&line.trim_end())) {
        return Vec::new();
    }
    vec![TidyViolation::about(
        "CHANGELOG.md",
        "add a heading `## Unreleased` and write there what changed for users",
    )]
}
