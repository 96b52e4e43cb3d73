//! How nodes are chosen for a job: the placement, with the keys that belong to each kind of it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use super::span_text::{seconds, whole_seconds};
use super::{Delivery, JobFile, Placement, RESHARD_TIMEOUT};
use crate::sharding_strategy::{NodeOrder, ShardingStrategy};
use crate::time::Millis;

/// The placement of a job, with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobPlacement {
    /// Nodes claim the job up to their quota and fire it themselves.
    Claimed,
    /// The job's leader assigns its shards to all nodes, and each fires its own.
    Sharded(Box<ShardedPlacement>),
    /// Each node that takes part has one shard, so every fire runs once on each of them.
    Broadcast(MemberSettings),
    /// The planner offers each run to the node with most free slots.
    Dispatched,
}

/// The shards of a sharded job, and how they are assigned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardedPlacement {
    /// The number of shards of a fire.
    pub shards: u32,
    /// The sharding strategy.
    pub strategy: ShardingStrategy,
    /// The order in which nodes get shards.
    pub order: NodeOrder,
    /// Whether shards stay with the names of the nodes that got them first.
    pub sticky_shards: bool,
    /// The settings of the nodes that take part.
    pub members: MemberSettings,
}

/// The settings of the nodes that take part in a sharded or a broadcast job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemberSettings {
    /// Of the nodes on one host only the first by name takes part (S2-31).
    pub one_per_host: bool,
    /// Whether the registry stores the running state (S2-20).
    pub monitor_execution: bool,
    /// How much a node's clock may differ from the registry's (S2-25).
    pub max_clock_skew: Option<Millis>,
    /// How long a reshard waits for running shards.
    pub reshard_timeout: Millis,
}

impl JobPlacement {
    /// Which placement it is.
    #[must_use]
    pub fn kind(&self) -> Placement {
        match self {
            Self::Claimed => Placement::Claimed,
            Self::Sharded(_) => Placement::Sharded,
            Self::Broadcast(_) => Placement::Broadcast,
            Self::Dispatched => Placement::Dispatched,
        }
    }

    /// Whether the job's leader assigns its shards to nodes.
    #[must_use]
    pub fn is_sharded(&self) -> bool {
        self.members().is_some()
    }

    /// Whether every fire runs once on each node.
    #[must_use]
    pub fn is_broadcast(&self) -> bool {
        matches!(self, Self::Broadcast(_))
    }

    /// The declared number of shards: 1 for a job that is not sharded, and for a broadcast job, which has as many as nodes
    /// take part.
    #[must_use]
    pub fn shards(&self) -> u32 {
        self.sharded().map_or(1, |sharded| sharded.shards)
    }

    /// The shards of a sharded job.
    #[must_use]
    pub fn sharded(&self) -> Option<&ShardedPlacement> {
        match self {
            Self::Sharded(sharded) => Some(sharded),
            Self::Claimed | Self::Broadcast(_) | Self::Dispatched => None,
        }
    }

    /// The settings of the nodes that take part in a sharded or a broadcast job.
    #[must_use]
    pub fn members(&self) -> Option<MemberSettings> {
        match self {
            Self::Sharded(sharded) => Some(sharded.members),
            Self::Broadcast(members) => Some(*members),
            Self::Claimed | Self::Dispatched => None,
        }
    }

    /// The sharding strategy; the default one for a job without declared shards.
    #[must_use]
    pub fn strategy(&self) -> ShardingStrategy {
        self.sharded().map_or_else(ShardingStrategy::default, |sharded| sharded.strategy)
    }

    /// The order in which nodes get shards; the default one for a job without declared shards.
    #[must_use]
    pub fn order(&self) -> NodeOrder {
        self.sharded().map_or_else(NodeOrder::default, |sharded| sharded.order)
    }

    /// Whether shards stay with the names of the nodes that got them first.
    #[must_use]
    pub fn has_sticky_shards(&self) -> bool {
        self.sharded().is_some_and(|sharded| sharded.sticky_shards)
    }

    /// Whether the registry stores the running state: always for a job without shards.
    #[must_use]
    pub fn is_monitored(&self) -> bool {
        self.members().is_none_or(|members| members.monitor_execution)
    }

    /// The placement of a declaration.
    pub(super) fn of(file: &JobFile) -> Result<Self, String> {
        file.validate_placement()?;
        let members = MemberSettings {
            one_per_host: file.one_per_host,
            monitor_execution: file.monitor_execution,
            max_clock_skew: file.max_clock_skew.map(seconds),
            reshard_timeout: seconds(file.reshard_timeout),
        };
        Ok(match file.placement {
            Placement::Claimed => Self::Claimed,
            Placement::Dispatched => Self::Dispatched,
            Placement::Broadcast => Self::Broadcast(members),
            Placement::Sharded => Self::Sharded(Box::new(ShardedPlacement {
                shards: file.shards,
                strategy: file.strategy,
                order: file.order,
                sticky_shards: file.sticky_shards,
                members,
            })),
        })
    }

    /// Writes the placement into a declaration.
    pub(super) fn write(&self, file: &mut JobFile) {
        file.placement = self.kind();
        if let Some(members) = self.members() {
            file.one_per_host = members.one_per_host;
            file.monitor_execution = members.monitor_execution;
            file.max_clock_skew = members.max_clock_skew.map(whole_seconds);
            file.reshard_timeout = whole_seconds(members.reshard_timeout);
        }
        if let Some(sharded) = self.sharded() {
            (file.shards, file.strategy) = (sharded.shards, sharded.strategy);
            (file.order, file.sticky_shards) = (sharded.order, sharded.sticky_shards);
        }
    }
}

impl JobFile {
    /// Whether every fire runs once on each node.
    #[must_use]
    pub fn is_broadcast(&self) -> bool {
        self.placement == Placement::Broadcast
    }

    /// Refuses fields that do not go with the placement.
    pub(super) fn validate_placement(&self) -> Result<(), String> {
        if self.placement.is_sharded() {
            self.validate_broadcast()?;
            // An unmonitored run cannot be known to have crashed (I2-05).
            if !self.monitor_execution && self.delivery == Delivery::AtLeastOnce {
                return Err(
                    "delivery = \"at_least_once\" repeats crashed runs, which takes monitor_execution = true"
                        .into(),
                );
            }
            return Ok(());
        }
        let plain = Self::empty(self.name.name().clone());
        let fields = [
            ("shards", self.shards == 1),
            ("strategy", self.strategy == plain.strategy),
            ("order", self.order == plain.order),
            ("sticky_shards", !self.sticky_shards),
            ("one_per_host", !self.one_per_host),
            ("monitor_execution", self.monitor_execution),
            ("max_clock_skew", self.max_clock_skew.is_none()),
            ("reshard_timeout", self.reshard_timeout == RESHARD_TIMEOUT),
        ];
        match fields.into_iter().find(|(_, plain)| !plain) {
            Some((field, _)) => {
                Err(format!("{field} is for sharded jobs: set placement = \"sharded\" or leave it out"))
            }
            None => Ok(()),
        }
    }

    /// Refuses fields that do not go with a broadcast job.
    fn validate_broadcast(&self) -> Result<(), String> {
        let plain = Self::empty(self.name.name().clone());
        let fields = [
            ("shards", self.shards == plain.shards, "there are as many as nodes take part"),
            (
                "shard_parameters",
                self.shard_parameters.is_empty(),
                "which node has which shard changes; parameter is for all",
            ),
            ("strategy", self.strategy == plain.strategy, "each node has one shard"),
            ("order", self.order == plain.order, "each node has one shard"),
            ("sticky_shards", !self.sticky_shards, "a node keeps its shard for as long as there are so many"),
            (
                "delivery",
                self.delivery == Delivery::AtMostOnce,
                "no other node can repeat the run of one that is gone",
            ),
        ];
        match fields.into_iter().find(|(_, plain, _)| self.is_broadcast() && !plain) {
            Some((field, _, why)) => {
                Err(format!("{field} does not go with placement = \"broadcast\": {why}; leave it out"))
            }
            None => Ok(()),
        }
    }
}
