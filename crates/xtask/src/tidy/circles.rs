//! No circle of imports ties more than two files, so that a file can be read, tested and moved with little else.
//!
//! Two files may need each other: a parent and the child that it calls. `mod child;` and a `pub use` that only hands names on are no
//! imports.

use super::violation::TidyViolation;
use crate::imports::{ImportGraph, imports};
use crate::tree::SourceTree;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Complains about each circle of more than two files.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    for folder in tree.crates() {
        let graph = imports(tree, folder);
        for circle in circles(&graph) {
            let first = circle.first().map_or("", String::as_str);
            said.push(TidyViolation::about(first, complaint(&graph, &circle)));
        }
    }
    said
}

fn complaint(graph: &ImportGraph, circle: &BTreeSet<String>) -> String {
    let ties: Vec<_> = shortest(graph, circle)
        .iter()
        .map(|(from, to)| {
            let names: Vec<_> = graph[*from][*to].iter().map(String::as_str).collect();
            format!("\n  {from} imports from {to}: {}", names.join(", "))
        })
        .collect();
    let advice = "move what both need to a file of its own, or beside what uses it";
    format!("{} files import each other in a circle: {advice}{}", circle.len(), ties.concat())
}

/// The sets of more than two files each of which reaches all others of its set.
fn circles(graph: &ImportGraph) -> Vec<BTreeSet<String>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in graph.keys() {
        let mut seen = BTreeSet::new();
        let mut next = vec![file.as_str()];
        while let Some(file) = next.pop() {
            let below = graph.get(file).into_iter().flat_map(BTreeMap::keys);
            next.extend(below.map(String::as_str).filter(|file| seen.insert(*file)));
        }
        reached.insert(file, seen);
    }
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (file, seen) in &reached {
        let circle: BTreeSet<_> = seen
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(file)))
            .map(|other| (*other).to_owned())
            .collect();
        if circle.len() > 2 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

/// The imports of the shortest way around three or more files of the circle; all imports where only pairs tie it.
fn shortest<'a>(graph: &'a ImportGraph, circle: &'a BTreeSet<String>) -> Vec<(&'a str, &'a str)> {
    let inside = circle.iter().flat_map(|from| {
        let below = graph.get(from).into_iter().flat_map(BTreeMap::keys);
        below.filter(|to| circle.contains(*to)).map(|to| (from.as_str(), to.as_str()))
    });
    let ties: Vec<_> = inside.collect();
    let rings = ties.iter().filter_map(|&(from, to)| {
        let way = way_back(&ties, from, to)?;
        Some(way.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>())
    });
    rings.min_by_key(Vec::len).unwrap_or(ties)
}

/// The shortest way from `from` to `to`, and by at least one other file back to `from`.
fn way_back<'a>(ties: &[(&'a str, &'a str)], from: &'a str, to: &'a str) -> Option<Vec<&'a str>> {
    let mut before = BTreeMap::from([(to, from)]);
    let mut next = VecDeque::from([to]);
    while let Some(file) = next.pop_front() {
        for (_, below) in ties.iter().filter(|(above, _)| *above == file) {
            if *below == from && file != to {
                let mut way = vec![from, file];
                while let Some(above) = before.get(way[way.len() - 1]).filter(|_| way[way.len() - 1] != from)
                {
                    way.push(above);
                }
                way.reverse();
                return Some(way);
            }
            if *below != from && !before.contains_key(below) {
                before.insert(below, file);
                next.push_back(below);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(ties: &[(&str, &str)]) -> ImportGraph {
        let mut graph = ImportGraph::new();
        for (from, to) in ties {
            let names = BTreeSet::from([to.to_uppercase()]);
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned(), names);
        }
        graph
    }

    #[test]
    fn pairs_are_allowed_and_larger_circles_are_found() {
        assert!(circles(&graph(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")])).is_empty());
        let two = circles(&graph(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("c", "d"),
            ("e", "f"),
            ("f", "e"),
            ("f", "g"),
            ("g", "f"),
        ]));
        let sizes: Vec<_> = two.iter().map(|circle| circle.iter().cloned().collect::<String>()).collect();
        assert_eq!(sizes, ["abc", "efg"]);
    }

    #[test]
    fn the_shortest_way_around_is_told() {
        let long = graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "a"), ("b", "a")]);
        let circle = circles(&long).remove(0);
        assert_eq!(shortest(&long, &circle).len(), 3);
        assert!(
            complaint(&long, &circle).contains("\n  b imports from c: C\n"),
            "{}",
            complaint(&long, &circle)
        );
        let star = graph(&[("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")]);
        assert_eq!(shortest(&star, &circles(&star)[0]).len(), 4);
    }

    #[test]
    fn a_circle_is_complained_of_until_it_is_cut() {
        let house = tempfile::TempDir::new().unwrap();
        let write = |path: &str, text: &str| {
            let to = house.path().join("crates/c").join(path);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, text).unwrap();
        };
        write("Cargo.toml", "");
        write("src/lib.rs", "mod a;\nmod b;\nmod d;\n");
        write("src/a.rs", "pub struct A(crate::b::B);\n");
        write("src/b.rs", "pub struct B(crate::d::D);\n");
        write("src/d.rs", "pub struct D(crate::a::A);\n");
        let said = || {
            let said = check(&SourceTree::read(house.path()).unwrap());
            said.iter().map(|said| said.path.clone()).collect::<Vec<_>>()
        };
        assert_eq!(said(), ["crates/c/src/a.rs"]);
        write("src/d.rs", "pub struct D;\n");
        assert!(said().is_empty());
    }
}
