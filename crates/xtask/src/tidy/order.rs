//! Core and sim give the same answer each time: nothing in them has an order that differs from run to run.

use super::Complaint;
use crate::tree::Tree;

/// Complains about hash maps and hash sets in core and sim.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut said = Vec::new();
    for (path, rust) in tree.rust_in(&["crates/core/", "crates/sim/"]) {
        for (word, instead) in [("HashMap", "BTreeMap"), ("HashSet", "BTreeSet")] {
            for line in rust.mentions(word) {
                said.push(Complaint::at(
                    path,
                    line,
                    format!("`{word}` has no order of its own: use {instead}"),
                ));
            }
        }
    }
    said
}
