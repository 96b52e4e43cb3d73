//! Which Rust files the compiler reaches, and which of them only for tests.

use crate::markdown::resolve;
use crate::rust::{RustSource, words};
use crate::tree::SourceTree;
use std::collections::BTreeMap;

/// Every file that is reached from a crate root by `mod`, and whether it is reached for tests, benches or examples only.
#[must_use]
pub fn reached(tree: &SourceTree) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    for (path, _) in tree.rust_in(&["crates/"]) {
        if let Some(test) = root(tree, path) {
            visit(tree, path, &parent(path), test, &mut found);
        }
    }
    found
}

fn visit(tree: &SourceTree, path: &str, folder: &str, test: bool, found: &mut BTreeMap<String, bool>) {
    if found.get(path).is_some_and(|known| !known || test) {
        return;
    }
    if tree.rust(path).is_none() {
        return;
    }
    found.insert(path.to_owned(), test);
    for child in children(tree, path, folder) {
        visit(tree, &child.path, &child.folder, test || child.test, found);
    }
}

/// A file that another declares by `mod name;`.
pub struct ChildModule {
    /// The name behind `mod`.
    pub name: String,
    /// The file.
    pub path: String,
    /// Where the files of its own children lie.
    pub folder: String,
    /// Whether only tests have it.
    pub test: bool,
}

/// The files that `path` declares, whose children lie in `folder`.
#[must_use]
pub fn children(tree: &SourceTree, path: &str, folder: &str) -> Vec<ChildModule> {
    let Some(rust) = tree.rust(path) else { return Vec::new() };
    let found = declared(rust).into_iter().map(|(name, at)| {
        let test = rust.in_test(rust.code[..at].matches('\n').count());
        if let Some((elsewhere, _)) = named_path(rust, at).and_then(|target| resolve(path, target)) {
            return ChildModule { name, folder: parent(&elsewhere), path: elsewhere, test };
        }
        let plain = format!("{folder}/{name}.rs");
        let nested = format!("{folder}/{name}/mod.rs");
        let file = if tree.rust(&plain).is_some() { plain } else { nested };
        ChildModule { path: file, folder: format!("{folder}/{name}"), name, test }
    });
    found.collect()
}

/// Names and places of `mod name;`.
fn declared(rust: &RustSource) -> Vec<(String, usize)> {
    let mut names = Vec::new();
    for at in words(&rust.code, "mod") {
        let Some((name, _)) = rust.code[at + 3..].split_once([';', '{']) else { continue };
        if rust.code[at + 3 + name.len()..].starts_with(';') {
            names.push((name.trim().to_owned(), at));
        }
    }
    names
}

/// What the attribute `#[path = "…"]` of the `mod` at this place says.
fn named_path(rust: &RustSource, at: usize) -> Option<&str> {
    let literal = rust.literals.iter().rev().find(|literal| literal.at < at)?;
    let is_path = rust.code[..literal.at].trim_end().ends_with("#[path =");
    (is_path && !rust.code[literal.at..at].contains([';', '{', '}'])).then_some(literal.value.as_str())
}

/// Whether the compiler starts at this file, and if so, whether only for tests, benches or examples.
fn root(tree: &SourceTree, path: &str) -> Option<bool> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    let parts: Vec<_> = rest.split('/').collect();
    match parts[..] {
        ["src", "lib.rs" | "main.rs"] | ["src", "bin", _] | ["build.rs"] => Some(false),
        ["tests" | "benches" | "examples", _] | ["tests" | "benches" | "examples", _, "main.rs"] => {
            Some(true)
        }
        _ => {
            let manifest = tree.text(&format!("crates/{name}/Cargo.toml"))?;
            manifest.contains(&format!("path = \"{rest}\"")).then(|| !rest.starts_with("src/"))
        }
    }
}

fn parent(path: &str) -> String {
    path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
}

/// Package and name of each benchmark.
pub fn benches(tree: &SourceTree) -> impl Iterator<Item = (String, String)> {
    tree.rust_in(&["crates/"]).filter_map(|(path, _)| {
        let (folder, name) = path.strip_prefix("crates/")?.strip_suffix(".rs")?.split_once("/benches/")?;
        if name.contains('/') {
            return None;
        }
        let manifest = tree.text(&format!("crates/{folder}/Cargo.toml"))?.parse::<toml::Table>().ok()?;
        Some((manifest.get("package")?.get("name")?.as_str()?.to_owned(), name.to_owned()))
    })
}
