//! The sharded jobs that a view knows: their terms, assignments and run states.

use alloc::boxed::Box;

use super::job_state::JobTerms;
use super::known_entry::KnownEntry;
use crate::job::{MemberSettings, Spec};
use crate::record::{ShardRunState, Sharding};
use crate::sharding_strategy::{NodeOrder, ShardingStrategy};
use crate::shards::ShardSet;
use crate::time::{Millis, Mono};

/// The terms that only sharded jobs declare, decoded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardTerms {
    /// The number of shards; `None` for a broadcast job, which has one on each node that takes part.
    pub total: Option<u32>,
    /// Disabled shards.
    pub off: ShardSet,
    /// The sharding strategy.
    pub strategy: ShardingStrategy,
    /// The order of nodes.
    pub order: NodeOrder,
    /// Whether shards stay with the names that got them first.
    pub sticky_shards: bool,
    /// Whether only one node a host takes part.
    pub one_per_host: bool,
    /// Whether run states store what runs.
    pub monitor: bool,
    /// The limit of a node's clock skew.
    pub max_clock_skew: Option<Millis>,
    /// How long a reshard waits for running shards.
    pub reshard_timeout: Millis,
}

/// A sharded job, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShardedState {
    /// The leader and the shard assignments, as the job's assignment has them.
    pub sharding: Sharding,
    /// The job's terms; `None` when the job is deleted, not sharded any more, or unreadable.
    pub terms: Option<Box<JobTerms>>,
}

/// A run state of a sharded job, and when it was read. Run states are in no feed, so those of other members grow stale.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownShardState {
    /// The run state at that time.
    pub run_state: KnownEntry<ShardRunState>,
    /// That time, by our clock.
    pub heard: Mono,
}

impl ShardTerms {
    /// The terms of a declaration; `None` for a job that is not sharded.
    pub(super) fn of(spec: &Spec) -> Option<Self> {
        let placement = &spec.job.placement;
        let MemberSettings { one_per_host, monitor_execution, max_clock_skew, reshard_timeout } =
            placement.members()?;
        Some(Self {
            total: placement.sharded().map(|sharded| sharded.shards),
            off: spec.off.clone(),
            strategy: placement.strategy(),
            order: placement.order(),
            sticky_shards: placement.has_sticky_shards(),
            one_per_host,
            monitor: monitor_execution,
            max_clock_skew,
            reshard_timeout,
        })
    }
}
