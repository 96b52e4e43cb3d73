//! The files of the repository as the walls see them: read once, named by their path from the root.

use crate::modules;
use crate::rust::RustSource;
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository, or a copy of it.
pub struct SourceTree {
    /// Where it lies.
    pub root: PathBuf,
    paths: BTreeSet<String>,
    texts: BTreeMap<String, String>,
    rust: BTreeMap<String, RustSource>,
    reached: BTreeMap<String, bool>,
}

impl SourceTree {
    /// Reads every file that git keeps or would keep; where there is no git, every file that is not built or hidden.
    ///
    /// # Errors
    /// When a folder or file cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        let paths = paths(root)?;
        let mut texts = BTreeMap::new();
        for path in &paths {
            let bytes = std::fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.insert(path.clone(), text);
            }
        }
        let rust = texts
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| (path.clone(), RustSource::read(text)));
        let mut tree =
            Self { root: root.to_owned(), rust: rust.collect(), paths, texts, reached: BTreeMap::new() };
        tree.reached = modules::reached(&tree);
        Ok(tree)
    }

    /// The text of one file.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Every text file, in the order of paths.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Every Rust file whose path begins with one of these folders.
    pub fn rust_in<'a>(&'a self, folders: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a RustSource)> {
        self.rust
            .iter()
            .filter(move |(path, _)| folders.iter().any(|folder| path.starts_with(folder)))
            .map(|(path, rust)| (path.as_str(), rust))
    }

    /// One Rust file.
    #[must_use]
    pub fn rust(&self, path: &str) -> Option<&RustSource> {
        self.rust.get(path)
    }

    /// Whether the compiler reaches this Rust file.
    #[must_use]
    pub fn is_reached(&self, path: &str) -> bool {
        self.reached.contains_key(path)
    }

    /// Whether this line, counted from 0, is there only for tests, benches or examples.
    #[must_use]
    pub fn in_test(&self, path: &str, line: usize) -> bool {
        self.reached.get(path) == Some(&true) || self.rust(path).is_some_and(|rust| rust.in_test(line))
    }

    /// Whether a file or folder of this name is kept.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.paths.contains(path)
            || self.paths.range(folder.clone()..).next().is_some_and(|p| p.starts_with(&folder))
    }

    /// The names of the folders in `crates/`.
    #[must_use]
    pub fn crates(&self) -> BTreeSet<&str> {
        let parts =
            self.paths.iter().filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"));
        parts.filter(|name| !name.contains('/')).collect()
    }
}

/// The names of all files, as git or else the folders have them, in order.
///
/// # Errors
/// When a folder cannot be read.
pub fn paths(root: &Path) -> Result<BTreeSet<String>> {
    if root.join(".git").exists() {
        let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let out = Command::new("git").arg("-C").arg(root).args(args).output();
        if let Some(out) = out.ok().filter(|out| out.status.success()) {
            let names = String::from_utf8_lossy(&out.stdout);
            // A deleted file stays in the index until the next commit.
            let kept = names.split_terminator('\0').filter(|path| root.join(path).is_file());
            return Ok(kept.map(str::to_owned).collect());
        }
    }
    let mut found = BTreeSet::new();
    walk(root, "", &mut found)?;
    Ok(found)
}

fn walk(root: &Path, folder: &str, found: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(root.join(folder)).with_context(|| format!("cannot list {folder}"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            if !["target", ".git", "node_modules"].contains(&name.as_str()) {
                walk(root, &path, found)?;
            }
        } else {
            found.insert(path);
        }
    }
    Ok(())
}
