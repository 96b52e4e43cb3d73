//! Pages that are written from the house itself and may not drift from it.

use crate::requirements;
use crate::tree::Tree;
use anyhow::{Result, bail};

/// A page and how to make it. To add one, add a line to [`REFERENCES`].
pub struct Reference {
    /// The file, from the root.
    pub path: &'static str,
    /// What its whole text should be.
    pub make: fn(&Tree) -> Result<String>,
}

/// All of them.
pub const REFERENCES: &[Reference] =
    &[Reference { path: requirements::PAGES[0], make: requirements::with_counts }];

/// Fails when a page is not what it should be.
///
/// # Errors
/// Names the pages that drifted.
pub fn check(tree: &Tree) -> Result<()> {
    let mut drifted = Vec::new();
    for reference in REFERENCES {
        if tree.text(reference.path) != Some(&(reference.make)(tree)?) {
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
pub fn write(tree: &Tree) -> Result<()> {
    for reference in REFERENCES {
        std::fs::write(tree.root.join(reference.path), (reference.make)(tree)?)?;
        println!("wrote {}", reference.path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn references_agree_with_the_house() {
        super::check(&crate::tree::Tree::read(&crate::root()).unwrap()).unwrap();
    }
}
