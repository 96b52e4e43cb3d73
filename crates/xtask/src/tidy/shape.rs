//! Small files, small functions, and a first sentence in each.
//!
//! A source line is one that is neither blank nor only a comment. Files are counted whole, those of tests like others; functions of
//! tests are not: neither those of `#[cfg(test)]` parts nor those of the files of `tests/`, `benches/` and `examples/`.

use super::violation::TidyViolation;
use crate::rust::RustSource;
use crate::tree::SourceTree;

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 70;

/// Complains about a file whose first line is not a `//!` sentence.
pub(super) fn sentence(tree: &SourceTree) -> Vec<TidyViolation> {
    let files = tree.texts().filter(|(path, _)| path.starts_with("crates/") && path.ends_with(".rs"));
    let silent = files.filter(|(_, text)| !begins_with_a_sentence(text));
    let message = "begin with a `//!` sentence that says what this file is, and end it with a full stop";
    silent.map(|(path, _)| TidyViolation::at(path, 0, message)).collect()
}

fn begins_with_a_sentence(text: &str) -> bool {
    let lines =
        text.lines().map_while(|line| line.strip_prefix("//!")).take_while(|line| !line.trim().is_empty());
    let paragraph = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    paragraph.split(' ').count() >= 3 && paragraph.ends_with(['.', ':', '!', '?', ')'])
}

/// Complains about files that are too long.
pub(super) fn long_files(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    for (path, rust) in tree.rust_in(&["crates/"]) {
        let lines = rust.source_lines(0..rust.solid.len());
        if lines > FILE_LINES {
            said.push(TidyViolation::about(
                path,
                format!("{lines} source lines, and {FILE_LINES} is the limit: cut it by concern"),
            ));
        }
    }
    said
}

/// Complains about functions that are too long.
pub(super) fn long_functions(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    for (path, rust) in product(tree) {
        for function in rust.functions.iter().filter(|function| !rust.in_test(function.lines.start)) {
            let lines = rust.source_lines(function.lines.clone());
            if lines > FUNCTION_LINES {
                let name = &function.name;
                let message = format!(
                    "`{name}` has {lines} source lines, and {FUNCTION_LINES} is the limit: name its parts and call them"
                );
                said.push(TidyViolation::at(path, function.lines.start, message));
            }
        }
    }
    said
}

/// What is not reached for tests only.
fn product(tree: &SourceTree) -> impl Iterator<Item = (&str, &RustSource)> {
    tree.rust_in(&["crates/"]).filter(|(path, _)| !tree.in_test(path, usize::MAX))
}
