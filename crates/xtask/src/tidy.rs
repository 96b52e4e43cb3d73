//! The walls: everything this house refuses, each refusal saying what to do instead.

mod changelog;
mod circles;
mod clocks;
mod console;
mod dead;
mod edges;
mod figures;
mod forbidden_words;
mod keys;
mod links;
mod lock;
mod names;
mod order;
mod parameters;
mod private_state;
mod proofs;
mod rules;
mod shape;
mod slow;
mod std_free;
mod unsafe_code;
mod violation;

pub use violation::TidyViolation;

use crate::tree::SourceTree;
use anyhow::Result;
use std::path::Path;

/// A wall: its name, what it keeps out, and the look-out.
pub struct TidyCheck {
    /// One word or two, as `cargo xtask tidy` prints it.
    pub name: &'static str,
    /// What stays outside.
    pub forbids: &'static str,
    /// Looks at the whole tree.
    pub check: fn(&SourceTree) -> Vec<TidyViolation>,
}

/// All walls.
pub const CHECKS: &[TidyCheck] = &[
    TidyCheck {
        name: "edges",
        forbids: "a crate that depends on what it must not know",
        check: edges::check,
    },
    TidyCheck {
        name: "circles",
        forbids: "three or more files that import each other in a circle",
        check: circles::check,
    },
    TidyCheck { name: "std", forbids: "the standard library in core", check: std_free::check },
    TidyCheck { name: "unsafe", forbids: "unsafe code", check: unsafe_code::check },
    TidyCheck { name: "lock", forbids: "a Cargo.lock that does not fit the manifests", check: lock::check },
    TidyCheck { name: "clocks", forbids: "a clock read outside the one file that may", check: clocks::check },
    TidyCheck { name: "order", forbids: "hash order in core and sim", check: order::check },
    TidyCheck { name: "keys", forbids: "a registry key spelt outside core's keys.rs", check: keys::check },
    TidyCheck {
        name: "sentence",
        forbids: "a Rust file that does not say what it is",
        check: shape::sentence,
    },
    TidyCheck {
        name: "long files",
        forbids: "a file of more than 400 source lines",
        check: shape::long_files,
    },
    TidyCheck {
        name: "long functions",
        forbids: "a function of more than 70 source lines",
        check: shape::long_functions,
    },
    TidyCheck {
        name: "tuples",
        forbids: "a parameter that is a tuple of three or more",
        check: parameters::tuples,
    },
    TidyCheck {
        name: "bools",
        forbids: "a bare bool that a public function of core takes",
        check: parameters::bools,
    },
    TidyCheck {
        name: "private state",
        forbids: "a field of a node's local state that is not private",
        check: private_state::check,
    },
    TidyCheck {
        name: "rules",
        forbids: "a rule without its concept page or its scenario",
        check: rules::check,
    },
    TidyCheck { name: "proofs", forbids: "a tested requirement that no test cites", check: proofs::check },
    TidyCheck { name: "mentions", forbids: "a requirement id that does not exist", check: proofs::mentions },
    TidyCheck { name: "type names", forbids: "two types of one name", check: names::unique_types },
    TidyCheck {
        name: "retired names",
        forbids: "a name that was given up for another",
        check: names::retired,
    },
    TidyCheck { name: "dead code", forbids: "a Rust file the compiler never reaches", check: dead::code },
    TidyCheck { name: "dead pages", forbids: "a page of docs/ that nothing links to", check: dead::pages },
    TidyCheck { name: "links", forbids: "a link that points nowhere", check: links::check },
    TidyCheck {
        name: "words",
        forbids: "words that do not belong in the repository",
        check: forbidden_words::check,
    },
    TidyCheck {
        name: "changelog",
        forbids: "a changelog without a place for what is new",
        check: changelog::check,
    },
    TidyCheck {
        name: "figures",
        forbids: "a transcript that shows other figures than its source",
        check: figures::check,
    },
    TidyCheck {
        name: "console",
        forbids: "built files of the console that are not of its sources",
        check: console::check,
    },
    TidyCheck { name: "slow tests", forbids: "a long test that runs unasked", check: slow::check },
];

/// Looks over all walls of the repository that lies at `root`.
///
/// # Errors
/// When the files cannot be read.
pub fn tidy(root: &Path) -> Result<Vec<(&'static str, TidyViolation)>> {
    let tree = SourceTree::read(root)?;
    Ok(CHECKS.iter().flat_map(|wall| (wall.check)(&tree).into_iter().map(|said| (wall.name, said))).collect())
}

/// What the wall of this name says.
#[must_use]
pub fn run_check(tree: &SourceTree, name: &str) -> Vec<TidyViolation> {
    CHECKS.iter().filter(|wall| wall.name == name).flat_map(|wall| (wall.check)(tree)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_house_is_tidy() {
        let said: Vec<_> = super::tidy(&crate::paths::root())
            .unwrap()
            .iter()
            .map(|(wall, said)| format!("[{wall}] {said}"))
            .collect();
        assert!(said.is_empty(), "{} complaints:\n{}", said.len(), said.join("\n"));
    }
}
