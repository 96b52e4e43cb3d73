//! A tree of entries, as a scheduler keeps it.

use evenkeel_core::ids::JobName;
use serde::{Deserialize, Serialize};

/// The root above all jobs, like the source's namespace.
const NAMESPACE: &str = "evenkeel";

/// How long an entry would stay in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CompatEntryKind {
    /// Until it is removed.
    Persistent,
    /// As long as its node lives.
    Ephemeral,
}

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompatEntry {
    /// Its path.
    pub(crate) path: String,
    /// How long it would stay.
    pub(crate) kind: CompatEntryKind,
    /// Its value; empty if only its presence counts.
    pub(crate) value: String,
}

/// A tree under construction; parents up to the job's own entry are added automatically.
pub(super) struct CompatTree {
    pub(super) root: String,
    pub(super) entries: Vec<CompatEntry>,
}

impl CompatTree {
    /// The tree of a job, with the value of its own entry.
    pub(super) fn of(job: &JobName, value: &str) -> Self {
        let mut tree = Self { root: format!("/{NAMESPACE}/{}", job.path_part()), entries: Vec::new() };
        tree.add("", CompatEntryKind::Persistent, value.to_owned());
        tree
    }

    /// The tree of a whole cluster.
    pub(super) fn whole() -> Self {
        let mut tree = Self { root: format!("/{NAMESPACE}"), entries: Vec::new() };
        tree.add("", CompatEntryKind::Persistent, String::new());
        tree
    }

    pub(super) fn persistent(&mut self, path: &str, value: impl Into<String>) {
        self.add(path, CompatEntryKind::Persistent, value.into());
    }

    pub(super) fn ephemeral(&mut self, path: &str, value: impl Into<String>) {
        self.add(path, CompatEntryKind::Ephemeral, value.into());
    }

    /// Adds an entry without a value if the flag is set.
    pub(super) fn add_flag(&mut self, is_so: bool, path: &str) {
        if is_so {
            self.persistent(path, "");
        }
    }

    pub(super) fn add(&mut self, path: &str, kind: CompatEntryKind, value: String) {
        let path = if path.is_empty() { self.root.clone() } else { format!("{}/{path}", self.root) };
        // A parent is in the tree already if the last entry is the parent or below it.
        let met = self.entries.last().map_or(String::new(), |last| format!("{}/", last.path));
        let ends = path.match_indices('/').map(|(at, _)| at).skip(2);
        let parents = ends.map(|at| &path[..at]).filter(|parent| !met.starts_with(&format!("{parent}/")));
        let bare = |path: &str| CompatEntry {
            path: path.to_owned(),
            kind: CompatEntryKind::Persistent,
            value: String::new(),
        };
        let parents: Vec<CompatEntry> = parents.map(bare).collect();
        self.entries.extend(parents);
        self.entries.push(CompatEntry { path, kind, value });
    }
}
