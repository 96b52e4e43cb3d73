//! What a change touches: a part of the gate that only one crate can break is run when that crate changed.

use crate::tree::SourceTree;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The commit that the change is compared with, where CI knows it.
const BASE: &str = "EVENKEEL_CI_BASE";
/// The branch that changes are merged into.
const UPSTREAM: &str = "origin/main";

/// Says why the registry crate or its dependencies may have changed; `None` where neither has.
///
/// What cannot be found out counts as a change.
#[must_use]
pub fn registry() -> Option<String> {
    match base() {
        Ok(base) => registry_since(&base).unwrap_or_else(|error| Some(format!("{error:#}"))),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// The commit to compare with: the one that `EVENKEEL_CI_BASE` names, or where this branch left the upstream branch.
fn base() -> Result<String> {
    if let Some(base) = std::env::var(BASE).ok().filter(|base| !base.is_empty()) {
        return git(&["rev-parse", "--verify", &format!("{base}^{{commit}}")]);
    }
    let base = git(&["merge-base", "HEAD", UPSTREAM])?;
    if base == git(&["rev-parse", "HEAD"])? {
        bail!("this is {UPSTREAM} itself and {BASE} names no commit to compare with");
    }
    Ok(base)
}

fn registry_since(base: &str) -> Result<Option<String>> {
    let files = git(&[&["diff", "--name-only", base, "--"], REGISTRY_SOURCES].concat())?;
    if let Some(file) = files.lines().next() {
        return Ok(Some(format!("{file} changed since {base}")));
    }
    let old = git(&["show", &format!("{base}:Cargo.lock")])?;
    let tree = SourceTree::read(&crate::paths::root())?;
    let new = tree.text("Cargo.lock").context("there is no Cargo.lock")?;
    let (old, new) = (dependencies(&old, REGISTRY)?, dependencies(new, REGISTRY)?);
    let changed = old.symmetric_difference(&new).next();
    Ok(changed.map(|package| format!("its dependency {package} changed since {base}")))
}

const REGISTRY: &str = "evenkeel-registry";
/// The registry's own sources, and those of core that say what a registry is and how entries are named.
const REGISTRY_SOURCES: &[&str] = &[
    "crates/registry",
    "crates/core/src/registry*",
    "crates/core/src/store*",
    "crates/core/src/keys.rs",
    "crates/core/src/time.rs",
    "crates/core/src/ids*",
    "Cargo.toml",
];

/// Everything that a package of a lock file is built from, each with its version and checksum.
fn dependencies(lock: &str, package: &str) -> Result<BTreeSet<String>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock cannot be read")?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock lists no packages")?;
    let text = |package: &toml::Value, key: &str| {
        package.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
    };
    let (mut found, mut open) = (BTreeSet::new(), vec![package.to_owned()]);
    let mut seen = BTreeSet::new();
    while let Some(wanted) = open.pop() {
        if !seen.insert(wanted.clone()) {
            continue;
        }
        // A dependency is named with its version where there are several of its name.
        let mut words = wanted.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next());
        let matches = packages.iter().filter(|package| {
            text(package, "name") == name && version.is_none_or(|version| text(package, "version") == version)
        });
        for package in matches {
            found.insert(format!("{name} {} {}", text(package, "version"), text(package, "checksum")));
            let more = package.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
            open.extend(more.filter_map(toml::Value::as_str).map(str::to_owned));
        }
    }
    Ok(found)
}

/// What git prints.
///
/// # Errors
/// When git cannot be started or refuses.
pub fn git(args: &[&str]) -> Result<String> {
    git_in(&crate::paths::root(), args)
}

fn git_in(folder: &Path, args: &[&str]) -> Result<String> {
    let out = Command::new("git").current_dir(folder).args(args).output().context("git cannot be started")?;
    if !out.status.success() {
        bail!("git {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
[[package]]
name = "evenkeel-registry"
version = "0.1.0"
dependencies = ["a", "b 2.0.0"]

[[package]]
name = "a"
version = "1.0.0"
checksum = "aa"
dependencies = ["b 1.0.0"]

[[package]]
name = "b"
version = "1.0.0"
checksum = "b1"

[[package]]
name = "b"
version = "2.0.0"
checksum = "b2"

[[package]]
name = "other"
version = "1.0.0"
checksum = "oo"
"#;

    #[test]
    fn a_lock_entry_counts_when_the_package_is_built_from_it() {
        let of = |lock: &str| dependencies(lock, REGISTRY).unwrap();
        assert_eq!(of(LOCK).len(), 4);
        assert_eq!(of(LOCK), of(&LOCK.replace("oo", "changed")));
        assert_ne!(of(LOCK), of(&LOCK.replace("b1", "changed")));
    }

    #[test]
    fn a_lock_that_cannot_be_read_is_an_error() {
        assert!(dependencies("[[", REGISTRY).is_err());
        assert!(dependencies("version = 4", REGISTRY).is_err());
    }
}
