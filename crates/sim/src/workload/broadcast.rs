//! Broadcast jobs, with one shard on each node. They have a random stream of their own, so that worlds without any do
//! not change.

use evenkeel_core::job::{Delivery, JobFile, Placement};
use evenkeel_core::sharding_strategy::{NodeOrder, ShardingStrategy};

use super::Workload;
use crate::random::SimRandom;

/// How many worlds in a thousand have such jobs.
const SHARE: u32 = 300;

impl Workload {
    /// Makes some jobs broadcast, in some seeds. Operators change some of them to a number of shards and back.
    pub(super) fn add_broadcast(&mut self, seed: u64) {
        let random = &mut SimRandom::new(seed, "jobs on every node of a swarm");
        if !random.chance(SHARE) {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| may_broadcast(job)) {
            if random.chance(600) {
                (job.strategy, job.order, job.sticky_shards) =
                    (ShardingStrategy::Average, NodeOrder::Ascending, false);
                (job.shards, job.placement) = (1, Placement::Broadcast);
            }
        }
        self.broadcast = true;
    }
}

/// Whether a job could be broadcast. Its delivery guarantee never changes in its life.
fn may_broadcast(job: &JobFile) -> bool {
    job.placement.is_sharded() && job.delivery == Delivery::AtMostOnce
}

/// Whether an operator may make the job broadcast, and undo that.
pub(crate) fn allows_both(job: &JobFile) -> bool {
    let plain =
        job.strategy == ShardingStrategy::Average && job.order == NodeOrder::Ascending && !job.sticky_shards;
    may_broadcast(job) && plain
}
