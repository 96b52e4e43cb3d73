//! The walls: everything this house refuses, each refusal saying what to do instead.

mod changelog;
mod clocks;
mod dead;
mod edges;
mod figures;
mod keys;
mod links;
mod lock;
mod order;
mod proofs;
mod rules;
mod shape;
mod slow;
mod std_free;
mod unsafe_code;
mod words;

use crate::tree::Tree;
use anyhow::Result;
use std::fmt;
use std::path::Path;

/// Something a wall refuses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// The file, from the root.
    pub path: String,
    /// The line, counted from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong and how to mend it.
    pub message: String,
}

/// A wall: its name, what it keeps out, and the look-out.
pub struct Wall {
    /// One word or two, as `cargo xtask tidy` prints it.
    pub name: &'static str,
    /// What stays outside.
    pub keeps_out: &'static str,
    /// Looks at the whole tree.
    pub check: fn(&Tree) -> Vec<Complaint>,
}

/// All walls.
pub const WALLS: &[Wall] = &[
    Wall { name: "edges", keeps_out: "a crate that depends on what it must not know", check: edges::check },
    Wall { name: "std", keeps_out: "the standard library in core", check: std_free::check },
    Wall { name: "unsafe", keeps_out: "unsafe code", check: unsafe_code::check },
    Wall { name: "lock", keeps_out: "a Cargo.lock that does not fit the manifests", check: lock::check },
    Wall { name: "clocks", keeps_out: "a clock read outside the one file that may", check: clocks::check },
    Wall { name: "order", keeps_out: "hash order in core and sim", check: order::check },
    Wall { name: "keys", keeps_out: "a registry key spelt outside core's keys.rs", check: keys::check },
    Wall { name: "sentence", keeps_out: "a Rust file that does not say what it is", check: shape::sentence },
    Wall { name: "long files", keeps_out: "a file of more than 400 source lines", check: shape::long_files },
    Wall {
        name: "long functions",
        keeps_out: "a function of more than 70 source lines",
        check: shape::long_functions,
    },
    Wall { name: "rules", keeps_out: "a rule without its concept page or its scenario", check: rules::check },
    Wall { name: "proofs", keeps_out: "a tested requirement that no test cites", check: proofs::check },
    Wall { name: "mentions", keeps_out: "a requirement id that does not exist", check: proofs::mentions },
    Wall { name: "dead code", keeps_out: "a Rust file the compiler never reaches", check: dead::code },
    Wall { name: "dead pages", keeps_out: "a page of docs/ that nothing links to", check: dead::pages },
    Wall { name: "links", keeps_out: "a link that points nowhere", check: links::check },
    Wall { name: "words", keeps_out: "words that do not belong in the repository", check: words::check },
    Wall {
        name: "changelog",
        keeps_out: "a changelog without a place for what is new",
        check: changelog::check,
    },
    Wall {
        name: "figures",
        keeps_out: "a transcript that shows other figures than its source",
        check: figures::check,
    },
    Wall { name: "slow tests", keeps_out: "a long test that runs unasked", check: slow::check },
];

impl Complaint {
    /// A complaint about one line, counted from 0 as [`crate::rust::Rust`] counts.
    pub fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: line + 1, message: message.into() }
    }

    /// A complaint about a whole file.
    pub fn about(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: 0, message: message.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Looks over all walls of the repository that lies at `root`.
///
/// # Errors
/// When the files cannot be read.
pub fn tidy(root: &Path) -> Result<Vec<(&'static str, Complaint)>> {
    let tree = Tree::read(root)?;
    Ok(WALLS.iter().flat_map(|wall| (wall.check)(&tree).into_iter().map(|said| (wall.name, said))).collect())
}

/// What the wall of this name says.
#[must_use]
pub fn look(tree: &Tree, name: &str) -> Vec<Complaint> {
    WALLS.iter().filter(|wall| wall.name == name).flat_map(|wall| (wall.check)(tree)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_house_is_tidy() {
        let said: Vec<_> = super::tidy(&crate::root())
            .unwrap()
            .iter()
            .map(|(wall, said)| format!("[{wall}] {said}"))
            .collect();
        assert!(said.is_empty(), "{} complaints:\n{}", said.len(), said.join("\n"));
    }
}
