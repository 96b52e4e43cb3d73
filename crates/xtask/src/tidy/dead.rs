//! Nothing lies about that nobody reaches.

use super::violation::TidyViolation;
use crate::markdown::{self, MarkdownLink};
use crate::tree::SourceTree;
use std::collections::BTreeSet;

/// Complains about Rust files that no `mod` leads to.
pub(super) fn code(tree: &SourceTree) -> Vec<TidyViolation> {
    let dead = tree.rust_in(&["crates/"]).filter(|(path, _)| !tree.is_reached(path));
    dead.map(|(path, _)| TidyViolation::about(path, "no `mod` leads here: declare it or delete it")).collect()
}

/// Complains about pages under `docs/` that no other page links to.
pub(super) fn pages(tree: &SourceTree) -> Vec<TidyViolation> {
    let pages: Vec<_> = tree.texts().filter(|(path, _)| path.ends_with(".md")).collect();
    let mut linked = BTreeSet::new();
    for (path, text) in &pages {
        let targets = markdown::links(text)
            .into_iter()
            .filter_map(|MarkdownLink { target, .. }| markdown::resolve(path, &target));
        linked.extend(targets.map(|(page, _)| page).filter(|page| page != path));
    }
    let dead = pages.iter().filter(|(path, _)| path.starts_with("docs/") && !linked.contains(*path));
    dead.map(|(path, _)| TidyViolation::about(path, "no other page links here: link it or delete it"))
        .collect()
}
