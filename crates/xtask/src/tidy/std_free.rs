//! Core is `no_std`: what needs a clock, a file, a socket or a thread does not compile there.

use super::violation::TidyViolation;
use crate::rust::words;
use crate::tree::SourceTree;

/// Complains when core's root does not say `#![no_std]`, or when core asks for the standard library outside of tests.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let root = "crates/core/src/lib.rs";
    let mut said = Vec::new();
    if !tree.rust(root).is_some_and(|rust| rust.code.contains("#![no_std]")) {
        said.push(TidyViolation::about(root, "core must say `#![no_std]`, without a condition"));
    }
    for (path, rust) in tree.rust_in(&["crates/core/src/"]) {
        for (line, code) in rust.code.lines().enumerate() {
            if words(code, "std").next().is_some() && !tree.in_test(path, line) {
                said.push(TidyViolation::at(
                    path,
                    line,
                    "core may not use std: take it from `core` or `alloc`",
                ));
            }
        }
    }
    said
}
