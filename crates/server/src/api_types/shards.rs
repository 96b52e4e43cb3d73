//! What is said of a sharded job: who leads it, who has which shards, and what each shard does.

use evenkeel_core::ids::counted;
use serde::{Deserialize, Serialize};

/// Who leads a sharded job and who has what, as the cluster's books have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardingRow {
    /// The node that leads it; none while nobody does.
    pub(crate) leader: Option<String>,
    /// Why the shares are to be cut again, and since when; none while they stand.
    pub(crate) mark: Option<ReshardPendingRow>,
    /// Shards that are switched off, as `0,2-5`.
    pub(crate) off: String,
    /// Shards that were left where they ran when the others were cut.
    pub(crate) pinned: String,
    /// Everyone who has shards, could have some, or was switched for the job.
    pub(crate) nodes: Vec<AssignmentRow>,
}

/// The wish that the shares be cut again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReshardPendingRow {
    /// `elected`, `nodes`, `shards`, `strategy`, `pinned` or `repair`.
    pub(crate) why: String,
    /// Since when.
    pub(crate) since: String,
}

/// A node's part in a sharded job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AssignmentRow {
    /// The node's name.
    pub(crate) node: String,
    /// Its shards, as `0-1,6`; empty when it has none.
    pub(crate) shards: String,
    /// `active`, `paused`, `disabled`, `shut_down`, `draining`, `left_out` or `gone`.
    pub(crate) state: String,
    /// Whether it is paused for the job, which a restart does not change.
    pub(crate) paused: bool,
    /// Whether it is disabled for the job, which a restart does not change.
    pub(crate) disabled: bool,
    /// Whether it takes no part until it is started again.
    pub(crate) shutdown: bool,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardRow {
    /// Its index.
    pub(crate) shard: u32,
    /// The run that is claimed and not finished.
    pub(crate) run: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) doing: ShardActivity,
}

/// Shards of which everything else is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardRangeRow {
    /// Which, as `0,2-5`.
    pub(crate) shards: String,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) doing: ShardActivity,
}

/// What a shard does.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ShardActivity {
    /// The node that answers for it.
    pub(crate) node: Option<String>,
    /// `idle`, `claimed`, `running`, `pinned`, `off`, `paused`, `disabled`, `waiting` or `gone`.
    pub(crate) state: String,
    /// The fire it runs, as in the run's name.
    pub(crate) fire: Option<String>,
    /// The moment that fire stands for.
    pub(crate) due: Option<String>,
    /// Which attempt, counted from 1.
    pub(crate) attempt: Option<u32>,
    /// Whether the attempt was taken over from a node that is gone.
    pub(crate) failed_over: bool,
    /// Its parameter.
    pub(crate) parameter: String,
    /// When its run could start; while it has none, when its node's latest one could.
    pub(crate) began: Option<String>,
}

/// A sharded job, shard by shard, or folded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardPage<R> {
    /// The job's name.
    pub(crate) job: String,
    /// How many shards it has.
    pub(crate) total: u32,
    /// Who leads it and who has what.
    #[serde(flatten)]
    pub(crate) sharing: ShardingRow,
    /// Its shards.
    pub(crate) shards: Vec<R>,
}

impl ShardingRow {
    /// One line for people: how many shards on how many nodes, and who leads.
    pub(crate) fn line(&self, total: u32) -> String {
        let nodes = self.nodes.iter().filter(|node| !node.shards.is_empty()).count();
        let leader = self.leader.as_deref().unwrap_or("nobody");
        let (shards, nodes) = (counted(total as usize, "shard"), counted(nodes, "node"));
        format!("{shards} on {nodes}, led by {leader}")
    }
}

impl ReshardPendingRow {
    /// Why, for people.
    pub(crate) fn reason(&self) -> &str {
        match self.why.as_str() {
            "elected" => "a leader was elected",
            "nodes" => "nodes came, went or were switched",
            "shards" => "the number of shards changed",
            "strategy" => "the way of cutting changed",
            "pinned" => "shards that were left where they ran have ended",
            "repair" => "the shares were not whole",
            other => other,
        }
    }
}
