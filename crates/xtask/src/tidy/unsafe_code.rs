//! No unsafe code anywhere: the workspace forbids it and every crate listens to the workspace.

use super::violation::TidyViolation;
use crate::tree::SourceTree;

/// Complains about a workspace that does not forbid unsafe code and a crate that does not take over its lints.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    let workspace = read(tree, "Cargo.toml");
    let level =
        ["workspace", "lints", "rust", "unsafe_code"].iter().try_fold(&workspace, |at, key| at.get(key));
    if level.and_then(toml::Value::as_str) != Some("forbid") {
        said.push(TidyViolation::about(
            "Cargo.toml",
            "say `unsafe_code = \"forbid\"` under [workspace.lints.rust]",
        ));
    }
    for folder in tree.crates() {
        let path = format!("crates/{folder}/Cargo.toml");
        let manifest = read(tree, &path);
        let listens =
            manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
        if listens != Some(true) {
            said.push(TidyViolation::about(
                &path,
                "say `workspace = true` under [lints], so that unsafe code is forbidden",
            ));
        }
    }
    said
}

fn read(tree: &SourceTree, path: &str) -> toml::Value {
    let table = tree.text(path).and_then(|text| text.parse::<toml::Table>().ok());
    toml::Value::Table(table.unwrap_or_default())
}
