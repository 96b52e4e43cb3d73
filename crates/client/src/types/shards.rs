//! Rows of a sharded job: its leader, its shard assignments, and the state of each shard.

use evenkeel_core::ids::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The leader and the shard assignments of a job, as the registry has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardingRow {
    /// The node that leads it; none if there is no leader.
    pub leader: Option<String>,
    /// The pending reshard, and since when; none if the assignments stand.
    pub reshard_pending: Option<ReshardPendingRow>,
    /// Shards that are switched off, as `0,2-5`.
    pub off: String,
    /// Draining shards: they stayed where they ran at the last reshard.
    pub draining: String,
    /// The nodes that have shards, could have some, or were switched for the job.
    pub nodes: Vec<AssignmentRow>,
}

/// A pending reshard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReshardPendingRow {
    /// The cause: `elected`, `nodes`, `shards`, `strategy`, `draining` or `repair`.
    pub why: String,
    /// Since when.
    pub since: String,
}

/// A node's part in a sharded job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssignmentRow {
    /// The node's name.
    pub node: String,
    /// Its shards, as `0-1,6`; empty when it has none.
    pub shards: String,
    /// `active`, `paused`, `disabled`, `shut_down`, `draining`, `left_out` or `gone`.
    pub state: String,
    /// Whether it is paused for the job, which a restart does not change.
    pub paused: bool,
    /// Whether it is disabled for the job, which a restart does not change.
    pub disabled: bool,
    /// Whether it is shut down for the job until it restarts.
    pub shutdown: bool,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardRow {
    /// Its index.
    pub shard: u32,
    /// The state and the other fields.
    pub run: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub doing: ShardActivity,
}

/// A range of shards whose other fields are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardRangeRow {
    /// The shards, as `0,2-5`.
    pub shards: String,
    /// The state and the other fields.
    #[serde(flatten)]
    pub doing: ShardActivity,
}

/// The activity of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ShardActivity {
    /// The node that is responsible for it.
    pub node: Option<String>,
    /// `idle`, `claimed`, `running`, `draining`, `off`, `paused`, `disabled`, `waiting` or `gone`.
    pub state: String,
    /// The fire it runs, as in the run's name.
    pub fire: Option<String>,
    /// The moment at which that fire is due.
    pub due: Option<String>,
    /// The attempt, counted from 1.
    pub attempt: Option<u32>,
    /// Whether the attempt was taken over from a node that is gone.
    pub failed_over: bool,
    /// Its shard parameter.
    pub parameter: String,
    /// When its run could start; without a run, when its node's latest run could.
    pub began: Option<String>,
}

/// A page of a sharded job's shards, one by one or folded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardPage<R> {
    /// The job's name.
    pub job: String,
    /// The number of its shards.
    pub total: u32,
    /// Its leader and its shard assignments.
    #[serde(flatten)]
    pub sharing: ShardingRow,
    /// Its shards.
    pub shards: Vec<R>,
}

impl ShardingRow {
    /// A line for people: the number of shards and nodes, and the leader.
    pub fn line(&self, total: u32) -> String {
        let nodes = self.nodes.iter().filter(|node| !node.shards.is_empty()).count();
        let leader = self.leader.as_deref().unwrap_or("no node");
        let (shards, nodes) = (counted(total as usize, "shard"), counted(nodes, "node"));
        format!("{shards} on {nodes}, led by {leader}")
    }
}

impl ReshardPendingRow {
    /// The cause in words, for people.
    pub fn reason(&self) -> &str {
        match self.why.as_str() {
            "elected" => "a leader was elected",
            "nodes" => "nodes came, went or were switched",
            "shards" => "the number of shards changed",
            "strategy" => "the way of cutting changed",
            "draining" => "shards that were left where they ran have ended",
            "repair" => "the shares were not whole",
            other => other,
        }
    }
}
