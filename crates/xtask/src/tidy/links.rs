//! Every link between our pages leads somewhere.

use super::violation::TidyViolation;
use crate::markdown::{self, MarkdownLink};
use crate::tree::SourceTree;

/// Complains about links to files and headings that are not there. Addresses on the web are not tried.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for MarkdownLink { line, target } in markdown::links(text) {
            let Some((file, heading)) = markdown::resolve(path, &target) else { continue };
            let message = if !tree.has(&file) {
                format!("the link to `{target}` leads nowhere: there is no {file}")
            } else if heading.as_ref().is_some_and(|heading| !has_heading(tree, &file, heading)) {
                format!("the link to `{target}` leads nowhere: {file} has no such heading")
            } else {
                continue;
            };
            said.push(TidyViolation::at(path, line, message));
        }
    }
    said
}

/// Whether the page has this heading; a file that is no page is taken at its word.
fn has_heading(tree: &SourceTree, file: &str, heading: &str) -> bool {
    let page = tree.text(file).filter(|_| file.ends_with(".md"));
    page.is_none_or(|page| markdown::anchors(page).contains(heading))
}
