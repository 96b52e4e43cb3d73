//! Checks of a job's placement against its other fields.

use alloc::format;
use alloc::string::String;

use super::{Delivery, JobFile, Placement, RESHARD_TIMEOUT, Work};

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
        let plain = Self::new(self.name.clone(), "", Work::Function(String::new()));
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
        let plain = Self::new(self.name.clone(), "", Work::Function(String::new()));
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
