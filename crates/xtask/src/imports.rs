//! Which file of a crate takes which names from which other: the modules, what each declares, and where each path leads.

mod module;
mod names;

use crate::modules;
use crate::tokens::tokens;
use crate::tree::SourceTree;
use module::{CrateModule, read_file};
use names::{Definition, resolve};
use std::collections::{BTreeMap, BTreeSet};

/// Of two files, the first imports from the second these names.
pub type ImportGraph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The imports between the files of the sources of one crate, tests left out.
#[must_use]
pub fn imports(tree: &SourceTree, folder: &str) -> ImportGraph {
    let mut graph = ImportGraph::new();
    let prefix = format!("crates/{folder}/src/");
    for (path, _) in tree.rust_in(&[prefix.as_str()]) {
        let rest = &path[prefix.len()..];
        if rest == "lib.rs"
            || rest == "main.rs"
            || (rest.starts_with("bin/") && rest.matches('/').count() == 1)
        {
            let mut modules = BTreeMap::new();
            let home = path.rsplit_once('/').map_or("", |(home, _)| home);
            read_modules(tree, path, home, Vec::new(), &mut modules);
            for (at, module) in &modules {
                add_imports(&modules, at, module, &mut graph);
            }
        }
    }
    graph
}

/// Each module by its path from the root of the crate.
type CrateModules = BTreeMap<Vec<String>, CrateModule>;

fn read_modules(tree: &SourceTree, path: &str, folder: &str, at: Vec<String>, modules: &mut CrateModules) {
    let Some(rust) = tree.rust(path) else { return };
    let found = tokens(&rust.code);
    let product: Vec<_> = found.into_iter().filter(|token| !rust.in_test(token.line)).collect();
    read_file(path, &at, &product, modules);
    for child in modules::children(tree, path, folder).into_iter().filter(|child| !child.test) {
        let below = at.iter().cloned().chain([child.name]).collect();
        read_modules(tree, &child.path, &child.folder, below, modules);
    }
}

fn add_imports(modules: &CrateModules, at: &[String], module: &CrateModule, graph: &mut ImportGraph) {
    let used = module.uses.iter().filter(|import| !import.handed_on || module.words.contains(&import.name));
    let paths = used.map(|import| &import.path).chain(&module.paths);
    let from_globs = module.globs.iter().flat_map(|glob| {
        let below = |word: &String| glob.iter().cloned().chain([word.clone()]).collect::<Vec<_>>();
        module.words.iter().map(below).filter(|path| names::declares(modules, at, path))
    });
    let all: BTreeSet<Vec<String>> = paths.cloned().chain(from_globs).collect();
    for path in &all {
        if let Some(Definition::Item { file, name }) = resolve(modules, at, path)
            && file != module.file
        {
            graph.entry(module.file.clone()).or_default().entry(file).or_default().insert(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `a.rs` of a crate of these files imports, as `file: names`.
    fn imported_by_a(files: &[(&str, &str)]) -> Vec<String> {
        let house = tempfile::TempDir::new().unwrap();
        for (path, text) in files {
            let to = house.path().join("crates/c/src").join(path);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, text).unwrap();
        }
        let graph = imports(&SourceTree::read(house.path()).unwrap(), "c");
        let taken = graph.get("crates/c/src/a.rs").cloned().unwrap_or_default();
        let line = |(file, names): (String, BTreeSet<String>)| {
            let names: Vec<_> = names.into_iter().collect();
            format!("{}: {}", file.trim_start_matches("crates/c/src/"), names.join(" "))
        };
        taken.into_iter().map(line).collect()
    }

    #[test]
    fn a_path_leads_to_the_file_that_defines_the_name() {
        let lib = ("lib.rs", "mod a;\nmod b;\nconst TOP: u8 = 1;\n");
        let b = ("b.rs", "mod deep;\npub use deep::D as Deep;\npub fn f() {}\npub struct S;\n");
        let deep = ("b/deep.rs", "pub struct D;\n");
        for (text, expected) in [
            ("use crate::b::S;", vec!["b.rs: S"]),
            ("use crate::b::{f, S as T};", vec!["b.rs: S f"]),
            ("use crate::b; fn g() { b::f(); }", vec!["b.rs: f"]),
            ("use crate::b;", vec![]),
            ("use super::{b::{self, Deep}, TOP};", vec!["b/deep.rs: D", "lib.rs: TOP"]),
            ("fn g(s: &crate::b::S) { write!(s, crate::b::Deep::NEW) }", vec!["b.rs: S", "b/deep.rs: D"]),
            ("use crate::b::*; fn g(d: Deep) {}", vec!["b/deep.rs: D"]),
            ("use crate::b::made_by_a_macro;", vec!["b.rs: made_by_a_macro"]),
            ("mod inner { use super::super::b::f; }", vec!["b.rs: f"]),
            ("#[cfg(test)]\nmod tests { use crate::b::f; }", vec![]),
            ("pub(in crate::b) fn g() { std::mem::drop(Self::S) } // crate::b::f", vec![]),
        ] {
            assert_eq!(imported_by_a(&[lib, b, deep, ("a.rs", text)]), expected, "{text}");
        }
    }

    #[test]
    fn what_a_parent_hands_on_it_imports_only_where_it_uses_it() {
        let files = |a: &'static str| [("lib.rs", "mod a;\n"), ("a/b.rs", "pub struct B;\n"), ("a.rs", a)];
        assert!(imported_by_a(&files("mod b;\npub use b::B;\npub(crate) use b::{B as C};\n")).is_empty());
        assert_eq!(imported_by_a(&files("mod b;\npub use b::B;\nfn f(_: B) {}\n")), ["a/b.rs: B"]);
        assert_eq!(imported_by_a(&files("mod b;\nuse b::B;\n")), ["a/b.rs: B"]);
    }
}
