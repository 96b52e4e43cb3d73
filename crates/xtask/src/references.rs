//! Pages that are written from the house itself and may not drift from it.

use crate::cargo_command::CargoCommand;
use crate::requirements;
use crate::tree::SourceTree;
use anyhow::{Result, bail};

/// A page and how to make it. To add one, add a line to [`REFERENCES`].
pub struct GeneratedPage {
    /// The file, from the root.
    pub path: &'static str,
    /// Where its text comes from.
    pub source: PageSource,
}

/// What makes a page.
pub enum PageSource {
    /// A function of ours.
    Own(fn(&SourceTree) -> Result<String>),
    /// What the program itself prints, given these arguments.
    Program(&'static [&'static str]),
}

/// All of them.
pub const REFERENCES: &[GeneratedPage] = &[
    GeneratedPage { path: requirements::PAGES[0], source: PageSource::Own(requirements::with_counts) },
    GeneratedPage { path: "docs/cli.md", source: PageSource::Program(&["docs", "cli"]) },
];

impl GeneratedPage {
    fn make(&self, tree: &SourceTree) -> Result<String> {
        match self.source {
            PageSource::Own(make) => make(tree),
            PageSource::Program(args) => {
                let run = ["run", "--quiet", "--locked", "--package", "evenkeel-server", "--"];
                CargoCommand::cargo(&[run.as_slice(), args].concat()).output()
            }
        }
    }
}

/// Fails when a page is not what it should be.
///
/// # Errors
/// Names the pages that drifted.
pub fn check(tree: &SourceTree) -> Result<()> {
    let mut drifted = Vec::new();
    for reference in REFERENCES {
        if tree.text(reference.path) != Some(&reference.make(tree)?) {
            drifted.push(reference.path);
        }
    }
    if !drifted.is_empty() {
        bail!("{} drifted from the house: run `cargo xtask references` and commit it", drifted.join(", "));
    }
    Ok(())
}

/// Writes the pages as they should be.
///
/// # Errors
/// When one cannot be made or written.
pub fn write(tree: &SourceTree) -> Result<()> {
    for reference in REFERENCES {
        std::fs::write(tree.root.join(reference.path), reference.make(tree)?)?;
        println!("wrote {}", reference.path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program prints is compared by the tests of the program: this one builds none.
    #[test]
    fn our_own_references_agree_with_the_house() {
        let tree = SourceTree::read(&crate::paths::root()).unwrap();
        for reference in REFERENCES.iter().filter(|reference| matches!(reference.source, PageSource::Own(_)))
        {
            assert_eq!(tree.text(reference.path), Some(reference.make(&tree).unwrap().as_str()));
        }
    }
}
