//! How nodes are chosen for a job, and what that goes with.

use alloc::format;
use alloc::string::String;

use super::{Delivery, Job, Placement, RECUT_WAIT, Work};

impl Job {
    /// What goes with which placement.
    pub(super) fn validate_placement(&self) -> Result<(), String> {
        if self.placement == Placement::Sharded {
            self.validate_every_node()?;
            // A run that nobody monitors cannot be known to have crashed (I2-05).
            if !self.monitor && self.delivery == Delivery::AtLeastOnce {
                return Err(
                    "delivery = \"at_least_once\" repeats crashed runs, which takes monitor = true".into()
                );
            }
            return Ok(());
        }
        let plain = Self::new(self.name.clone(), "", Work::Function(String::new()));
        let fields = [
            ("shards", self.shards == 1),
            ("every_node", !self.every_node),
            ("strategy", self.strategy == plain.strategy),
            ("order", self.order == plain.order),
            ("static_shards", !self.static_shards),
            ("exclusive_per_host", !self.exclusive_per_host),
            ("monitor", self.monitor),
            ("max_difference", self.max_difference.is_none()),
            ("recut_wait", self.recut_wait == RECUT_WAIT),
        ];
        match fields.into_iter().find(|(_, plain)| !plain) {
            Some((field, _)) => {
                Err(format!("{field} is for sharded jobs: set placement = \"sharded\" or leave it out"))
            }
            None => Ok(()),
        }
    }

    /// What makes no sense for a job whose shards are its nodes.
    fn validate_every_node(&self) -> Result<(), String> {
        let plain = Self::new(self.name.clone(), "", Work::Function(String::new()));
        let fields = [
            ("shards", self.shards == plain.shards, "there are as many as nodes take part"),
            (
                "parameters",
                self.parameters.is_empty(),
                "which node has which shard changes; parameter is for all",
            ),
            ("strategy", self.strategy == plain.strategy, "each node has one shard"),
            ("order", self.order == plain.order, "each node has one shard"),
            ("static_shards", !self.static_shards, "a node keeps its shard for as long as there are so many"),
            (
                "delivery",
                self.delivery == Delivery::AtMostOnce,
                "no other node can repeat the run of one that is gone",
            ),
        ];
        match fields.into_iter().find(|(_, plain, _)| self.every_node && !plain) {
            Some((field, _, why)) => {
                Err(format!("{field} does not go with every_node = true: {why}; leave it out"))
            }
            None => Ok(()),
        }
    }
}
