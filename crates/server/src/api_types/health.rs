//! The health of the cluster and of its nodes: the answer of `GET /api/v1/cluster/health`.

use evenkeel::{NodeHealth, TimePercentiles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words::moment;

/// How the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HealthVerdict {
    /// Everything that this page knows is as it should be.
    Ok,
    /// Jobs run, and something needs a person.
    Degraded,
    /// Jobs do not run, as the node that answers sees it.
    Failing,
}

/// Why the cluster is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct HealthReason {
    /// How bad it is.
    pub(crate) verdict: HealthVerdict,
    /// The node that it is about; none if it is about the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// The reason in a sentence, with the fix.
    pub(crate) text: String,
}

/// The health of the cluster, as the node that answers sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ClusterHealth {
    /// The worst of the reasons; `ok` without any.
    pub(crate) verdict: HealthVerdict,
    /// Why it is not well, the worst first.
    pub(crate) reasons: Vec<HealthReason>,
    /// The node that answers.
    pub(crate) node: String,
    /// The engine of the registry.
    pub(crate) engine: String,
    /// How many nodes are members of the cluster and are not offline.
    pub(crate) nodes_online: usize,
    /// How many there should be: the members, and nodes that left within the last day while they owned jobs.
    pub(crate) nodes_expected: usize,
    /// How many lost nodes the quotas make up for: the least `tolerance` of all nodes.
    pub(crate) tolerance: u32,
    /// How many nodes could be lost now, those with the most jobs first, so that the others still have room for all jobs.
    pub(crate) tolerated_losses: usize,
    /// The nodes by name.
    pub(crate) nodes: Vec<NodeHealthRow>,
}

/// The health of a node. What it measures itself is missing if it does not answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NodeHealthRow {
    /// Its name.
    pub(crate) name: String,
    /// `online`, `cordoned`, `draining`, `drained`, `offline`, or `lost` if it left while it owned jobs.
    pub(crate) state: String,
    /// Why it does not answer the node that answers; none if it does.
    pub(crate) unreachable: Option<String>,
    /// Since when it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lost_since: Option<String>,
    /// The version of its program.
    pub(crate) version: String,
    /// In how many of the latest beats some node could not reach it.
    pub(crate) missed_heartbeats: u32,
    /// What it measures itself.
    pub(crate) measured: Option<NodeMeasures>,
}

/// What a node measures itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NodeMeasures {
    /// The time of day by its clock.
    pub(crate) at: String,
    /// How long its process has worked, in milliseconds.
    pub(crate) uptime_ms: i64,
    /// Its lease.
    pub(crate) lease: LeaseHealth,
    /// Its clock.
    pub(crate) clock: ClockHealth,
    /// How long the registry took to answer the latest batches of transactions; none before the first.
    pub(crate) commits: Option<TimeSummary>,
    /// How many transactions wait for an answer.
    pub(crate) commits_waiting: u64,
    /// How long after their moments the latest fires started; none before the first.
    pub(crate) lateness: Option<TimeSummary>,
    /// How many runs may go on at once.
    pub(crate) slots: u32,
    /// How many do.
    pub(crate) slots_busy: u32,
    /// How many jobs have a due fire that waits for a slot.
    pub(crate) slots_waiting: u64,
    /// How many jobs have a run that waits for a permit of a pool or a namespace.
    pub(crate) permits_waiting: u64,
    /// How many entries the history has not written yet.
    pub(crate) history_waiting: u64,
    /// Why the history takes no entries; none if it does.
    pub(crate) history: Option<String>,
}

/// The lease of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LeaseHealth {
    /// Whether it is trusted, so that the node may act.
    pub(crate) trusted: bool,
    /// The time since the registry last confirmed it, in milliseconds; none without a lease.
    pub(crate) age_ms: Option<i64>,
    /// Its term, in milliseconds.
    pub(crate) term_ms: i64,
    /// How long the node may still act if the registry does not answer any more, in milliseconds.
    pub(crate) trusted_ms: Option<i64>,
    /// How many requests about it had no answer, or found it gone, since the process began.
    pub(crate) failures: u64,
}

/// The clock of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ClockHealth {
    /// By how much it differs from the registry's at least, in milliseconds; none if the registry has no clock.
    pub(crate) registry_offset_ms: Option<i64>,
    /// By how much it may differ before the node claims no fires, in milliseconds.
    pub(crate) offset_max_ms: i64,
    /// By how much it is ahead of the clock of the node that answers at least, in milliseconds; negative if it is behind.
    pub(crate) ahead_ms: i64,
}

/// What the latest measurements of a time are like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TimeSummary {
    /// How many there are, up to 1000.
    pub(crate) samples: u32,
    /// The median, in milliseconds.
    pub(crate) p50_ms: f64,
    /// The time that 99 of 100 do not exceed, in milliseconds.
    pub(crate) p99_ms: f64,
    /// The longest, in milliseconds.
    pub(crate) max_ms: f64,
}

impl TimeSummary {
    fn of(times: TimePercentiles) -> Self {
        let ms = |micros: u64| micros as f64 / 1_000.0;
        Self {
            samples: times.samples,
            p50_ms: ms(times.p50_us),
            p99_ms: ms(times.p99_us),
            max_ms: ms(times.max_us),
        }
    }
}

impl NodeMeasures {
    /// What a node answered, and by how much its clock is ahead of the asking node's at least.
    pub(crate) fn of(health: &NodeHealth, ahead_ms: i64) -> Self {
        Self {
            at: moment(health.at),
            uptime_ms: health.uptime_ms,
            lease: LeaseHealth {
                trusted: health.member,
                age_ms: health.lease_age_ms,
                term_ms: health.lease_term_ms,
                trusted_ms: health.lease_trusted_ms,
                failures: health.lease_failures,
            },
            clock: ClockHealth {
                registry_offset_ms: health.clock_offset_ms,
                offset_max_ms: health.clock_offset_max_ms,
                ahead_ms,
            },
            commits: health.commits.map(TimeSummary::of),
            commits_waiting: health.commits_waiting,
            lateness: health.lateness.map(TimeSummary::of),
            slots: health.slots,
            slots_busy: health.slots_busy,
            slots_waiting: health.slots_waiting,
            permits_waiting: health.permits_waiting,
            history_waiting: health.history_waiting,
            history: health.history_trouble.clone(),
        }
    }
}
