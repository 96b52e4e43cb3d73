//! Core and sim give the same answer each time: nothing in them has an order that differs from run to run.

use super::violation::TidyViolation;
use crate::tree::SourceTree;

/// Complains about hash maps and hash sets in core and sim.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    for (path, rust) in tree.rust_in(&["crates/core/", "crates/sim/"]) {
        for (word, instead) in [("HashMap", "BTreeMap"), ("HashSet", "BTreeSet")] {
            for line in rust.mentions(word) {
                said.push(TidyViolation::at(
                    path,
                    line,
                    format!("`{word}` has no order of its own: use {instead}"),
                ));
            }
        }
    }
    said
}
