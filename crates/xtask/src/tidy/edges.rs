//! Which crate may know which: the edges of the house, read from the manifests.

use super::violation::TidyViolation;
use crate::tree::SourceTree;

/// What one crate may depend on.
struct CrateEdge {
    folder: &'static str,
    /// The house's own crates it may know.
    own: &'static [&'static str],
    /// The only crates of others it may know; `None` where any will do.
    others: Option<&'static [&'static str]>,
}

const OURS: &[&str] = &[
    "evenkeel-core",
    "evenkeel-registry",
    "evenkeel",
    "evenkeel-client",
    "evenkeel-server",
    "evenkeel-sim",
    "evenkeel-tls",
    "xtask",
];

const EDGES: &[CrateEdge] = &[
    CrateEdge { folder: "core", own: &[], others: Some(&["serde", "serde_json", "jiff"]) },
    CrateEdge { folder: "registry", own: &["evenkeel-core"], others: None },
    CrateEdge { folder: "node", own: &["evenkeel-core", "evenkeel-registry", "evenkeel-tls"], others: None },
    CrateEdge { folder: "client", own: &["evenkeel-core", "evenkeel-tls"], others: None },
    CrateEdge {
        folder: "server",
        own: &["evenkeel", "evenkeel-client", "evenkeel-core", "evenkeel-tls"],
        others: None,
    },
    CrateEdge { folder: "sim", own: &["evenkeel-core"], others: Some(&[]) },
    CrateEdge { folder: "tls", own: &[], others: Some(&["rustls", "ureq"]) },
    CrateEdge { folder: "xtask", own: &[], others: None },
];

/// Complains about each dependency that crosses an edge, and about a crate that has no edges yet.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    for folder in tree.crates() {
        let path = format!("crates/{folder}/Cargo.toml");
        let Some(edge) = EDGES.iter().find(|edge| edge.folder == folder) else {
            said.push(TidyViolation::about(
                &path,
                "a new crate: say in crates/xtask/src/tidy/edges.rs what it may depend on",
            ));
            continue;
        };
        for name in dependencies(tree.text(&path).unwrap_or_default()) {
            if let Some(message) = refusal(edge, &name) {
                said.push(TidyViolation::about(&path, message));
            }
        }
    }
    said
}

fn refusal(edge: &CrateEdge, name: &str) -> Option<String> {
    let folder = edge.folder;
    if OURS.contains(&name) {
        let known = edge.own.contains(&name);
        return (!known).then(|| {
            let may = if edge.own.is_empty() { "no crate of the house".to_owned() } else { edge.own.join(", ") };
            format!("{folder} may not depend on {name}, only on {may}: move what it needs to a crate both may know")
        });
    }
    let others = edge.others?;
    (!others.contains(&name)).then(|| {
        let may = if others.is_empty() { "nothing from outside".to_owned() } else { others.join(", ") };
        format!("{folder} may not depend on {name}, only on {may}: do it in the crate that drives {folder}")
    })
}

/// The real names of everything a crate needs to be built: dependencies and build-dependencies, on every platform.
fn dependencies(manifest: &str) -> Vec<String> {
    let Ok(manifest) = manifest.parse::<toml::Table>() else { return Vec::new() };
    let mut tables = vec![&manifest];
    if let Some(toml::Value::Table(targets)) = manifest.get("target") {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    let kinds = ["dependencies", "build-dependencies"];
    let found = tables.iter().flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)?.as_table()));
    found
        .flatten()
        .map(|(name, detail)| {
            detail.get("package").and_then(toml::Value::as_str).map_or_else(|| name.clone(), str::to_owned)
        })
        .collect()
}
