//! The data formats of other schedulers: Elastic-Job-Lite for a sharded job; SIA-TASK, Keeper, Azkaban for a cluster.
//!
//! Nothing of it is stored: `compat_job`, `shard` and `compat_cluster` have the facts; each form has its own paths.

use std::str::FromStr;

use clap::ValueEnum;
use evenkeel_core::ids::JobName;
use serde::{Deserialize, Serialize};

use crate::output::plain;

mod azkaban;
mod compat_cluster;
mod compat_job;
mod elasticjob1;
mod elasticjob3;
mod keeper;
mod shard;
mod siatask;
#[cfg(test)]
mod tests;

pub(crate) use compat_cluster::{CompatCluster, CompatJobSummary, CompatNode};
pub(crate) use compat_job::CompatJob;

/// The root above all jobs, like the source's namespace.
const NAMESPACE: &str = "evenkeel";

/// In whose shape a tree is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompatFormat {
    /// Elastic-Job-Lite 1.x: an entry a setting, servers by address, `execution`.
    #[value(name = "elasticjob-1")]
    ElasticJob1,
    /// ElasticJob 3.x: settings as YAML, `instances`, `sharding`.
    #[value(name = "elasticjob-3")]
    ElasticJob3,
    /// SIA-TASK: jobs with their holders, nodes with what they hold and may hold.
    #[value(name = "siatask")]
    SiaTask,
    /// Qross Keeper: the rows of its tables nodes, locks and tasks.
    #[value(name = "keeper")]
    Keeper,
    /// Azkaban: the leading web, projects and triggers with their versions.
    #[value(name = "azkaban")]
    Azkaban,
}

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

impl CompatFormat {
    const ALL: [Self; 5] = [Self::ElasticJob1, Self::ElasticJob3, Self::SiaTask, Self::Keeper, Self::Azkaban];

    /// Its name on the command line and in requests.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ElasticJob1 => "elasticjob-1",
            Self::ElasticJob3 => "elasticjob-3",
            Self::SiaTask => "siatask",
            Self::Keeper => "keeper",
            Self::Azkaban => "azkaban",
        }
    }

    /// Whether it shows the whole cluster, not only sharded jobs.
    #[must_use]
    pub(crate) fn is_whole(self) -> bool {
        !matches!(self, Self::ElasticJob1 | Self::ElasticJob3)
    }
}

impl FromStr for CompatFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|form| form.name() == text).ok_or_else(|| {
            format!("no tree has the form {text:?}: use one of {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// The tree of one job, in depth-first order; empty in a form of whole clusters.
#[must_use]
pub(crate) fn render(form: CompatFormat, seen: &CompatJob) -> Vec<CompatEntry> {
    match form {
        CompatFormat::ElasticJob1 => elasticjob1::render(seen),
        CompatFormat::ElasticJob3 => elasticjob3::render(seen),
        CompatFormat::SiaTask | CompatFormat::Keeper | CompatFormat::Azkaban => Vec::new(),
    }
}

/// The tree of a whole cluster; empty in a form of single jobs.
#[must_use]
pub(crate) fn render_whole(form: CompatFormat, whole: &CompatCluster) -> Vec<CompatEntry> {
    match form {
        CompatFormat::ElasticJob1 | CompatFormat::ElasticJob3 => Vec::new(),
        CompatFormat::SiaTask => siatask::render(whole),
        CompatFormat::Keeper => keeper::render(whole),
        CompatFormat::Azkaban => azkaban::render(whole),
    }
}

/// A tree as text for people: one entry a line, a value of several lines below its path.
#[must_use]
pub(crate) fn text(entries: &[CompatEntry]) -> String {
    let mut lines = Vec::new();
    for CompatEntry { path, kind, value } in entries {
        let letter = if *kind == CompatEntryKind::Persistent { 'P' } else { 'E' };
        let head = format!("{}  [{letter}] =", plain(path));
        if value.contains('\n') {
            lines.push(format!("{head} |"));
            lines.extend(value.lines().map(|line| format!("        {}", plain(line))));
        } else {
            lines.push(format!("{head} '{}'", plain(value)));
        }
    }
    lines.join("\n")
}

/// A tree under construction; parents up to the job's own entry are added automatically.
struct CompatTree {
    root: String,
    entries: Vec<CompatEntry>,
}

impl CompatTree {
    /// The tree of a job, with the value of its own entry.
    fn of(job: &JobName, value: &str) -> Self {
        let mut tree = Self { root: format!("/{NAMESPACE}/{job}"), entries: Vec::new() };
        tree.add("", CompatEntryKind::Persistent, value.to_owned());
        tree
    }

    /// The tree of a whole cluster.
    fn whole() -> Self {
        let mut tree = Self { root: format!("/{NAMESPACE}"), entries: Vec::new() };
        tree.add("", CompatEntryKind::Persistent, String::new());
        tree
    }

    fn persistent(&mut self, path: &str, value: impl Into<String>) {
        self.add(path, CompatEntryKind::Persistent, value.into());
    }

    fn ephemeral(&mut self, path: &str, value: impl Into<String>) {
        self.add(path, CompatEntryKind::Ephemeral, value.into());
    }

    /// Adds an entry without a value if the flag is set.
    fn add_flag(&mut self, is_so: bool, path: &str) {
        if is_so {
            self.persistent(path, "");
        }
    }

    fn add(&mut self, path: &str, kind: CompatEntryKind, value: String) {
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
