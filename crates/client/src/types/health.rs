//! The health of the cluster and of its nodes: the answer of `GET /api/v1/cluster/health`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthVerdict {
    /// Everything that this page knows is as it should be.
    Ok,
    /// Jobs run, and something needs a person.
    Degraded,
    /// Jobs do not run, as the node that answers sees it.
    Failing,
}

/// Why the cluster is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthReason {
    /// How bad it is.
    pub verdict: HealthVerdict,
    /// The node that it is about; none if it is about the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The reason in a sentence, with the fix.
    pub text: String,
}

/// The health of the cluster, as the node that answers sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterHealth {
    /// The worst of the reasons; `ok` without any.
    pub verdict: HealthVerdict,
    /// Why it is not well, the worst first.
    pub reasons: Vec<HealthReason>,
    /// The node that answers.
    pub node: String,
    /// The engine of the registry.
    pub engine: String,
    /// How many nodes are members of the cluster and are not offline.
    pub nodes_online: usize,
    /// How many there should be: the members, and nodes that left within the last day while they owned jobs.
    pub nodes_expected: usize,
    /// How many lost nodes the quotas make up for: the least `tolerance` of all nodes.
    pub tolerance: u32,
    /// How many nodes could be lost now, those with the most jobs first, so that the others still have room for all jobs.
    pub tolerated_losses: usize,
    /// The nodes by name.
    pub nodes: Vec<NodeHealthRow>,
}

/// The health of a node. What it measures itself is missing if it does not answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeHealthRow {
    /// Its name.
    pub name: String,
    /// `online`, `cordoned`, `draining`, `drained`, `offline`, or `lost` if it left while it owned jobs.
    pub state: String,
    /// Why it does not answer the node that answers; none if it does.
    pub unreachable: Option<String>,
    /// Since when it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_since: Option<String>,
    /// The version of its program.
    pub version: String,
    /// In how many of the latest beats some node could not reach it.
    pub missed_heartbeats: u32,
    /// What it measures itself.
    pub measured: Option<NodeMeasures>,
}

/// What a node measures itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeMeasures {
    /// The time of day by its clock.
    pub at: String,
    /// How long its process has worked, in milliseconds.
    pub uptime_ms: i64,
    /// Its lease.
    pub lease: LeaseHealth,
    /// Its clock.
    pub clock: ClockHealth,
    /// How long the registry took to answer the latest batches of transactions; none before the first.
    pub commits: Option<TimeSummary>,
    /// How many transactions wait for an answer.
    pub commits_waiting: u64,
    /// How long after their moments the latest fires started; none before the first.
    pub lateness: Option<TimeSummary>,
    /// How many runs may go on at once.
    pub slots: u32,
    /// How many do.
    pub slots_busy: u32,
    /// How many jobs have a due fire that waits for a slot.
    pub slots_waiting: u64,
    /// How many jobs have a run that waits for a permit of a pool or a namespace.
    pub permits_waiting: u64,
    /// How many entries the history has not written yet.
    pub history_waiting: u64,
    /// Why the history takes no entries; none if it does.
    pub history: Option<String>,
}

/// The lease of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseHealth {
    /// Whether it is trusted, so that the node may act.
    pub trusted: bool,
    /// The time since the registry last confirmed it, in milliseconds; none without a lease.
    pub age_ms: Option<i64>,
    /// Its term, in milliseconds.
    pub term_ms: i64,
    /// How long the node may still act if the registry does not answer any more, in milliseconds.
    pub trusted_ms: Option<i64>,
    /// How many requests about it had no answer, or found it gone, since the process began.
    pub failures: u64,
}

/// The clock of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockHealth {
    /// By how much it differs from the registry's at least, in milliseconds; none if the registry has no clock.
    pub registry_offset_ms: Option<i64>,
    /// By how much it may differ before the node claims no fires, in milliseconds.
    pub offset_max_ms: i64,
    /// By how much it is ahead of the clock of the node that answers at least, in milliseconds; negative if it is behind.
    pub ahead_ms: i64,
}

/// What the latest measurements of a time are like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSummary {
    /// How many there are, up to 1000.
    pub samples: u32,
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// The time that 99 of 100 do not exceed, in milliseconds.
    pub p99_ms: f64,
    /// The longest, in milliseconds.
    pub max_ms: f64,
}
