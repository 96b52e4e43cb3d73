//! The data formats of other schedulers: Elastic-Job-Lite for a sharded job; SIA-TASK, Keeper, Azkaban for a cluster.
//!
//! Nothing of it is stored: `compat_job`, `shard` and `compat_cluster` have the facts; each form has its own paths.

use std::str::FromStr;

use clap::ValueEnum;

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
mod tree;

pub(crate) use compat_cluster::{CompatCluster, CompatJobSummary, CompatNode};
pub(crate) use compat_job::CompatJob;
pub(crate) use tree::{CompatEntry, CompatEntryKind};

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
