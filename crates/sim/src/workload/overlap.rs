//! Jobs with overlap policies for fires that come due during a run. They have a random stream of their own, so that
//! worlds without any do not change.

use evenkeel_core::job::{CatchUp, Overlap};

use super::{LONG_RUN, Workload};
use crate::random::SimRandom;

/// How many worlds in a thousand have such jobs.
const SHARE: u32 = 300;
/// The maximum number of waiting fires.
const QUEUE: i64 = 3;

impl Workload {
    /// Gives some jobs an overlap policy, in some seeds.
    pub(super) fn add_overlap(&mut self, seed: u64, ttl: i64) {
        let random = &mut SimRandom::new(seed, "overlap of a swarm");
        if !random.chance(SHARE) {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| !job.placement.is_sharded()) {
            let queue = u32::try_from(random.between(1, QUEUE)).unwrap_or(1);
            let beside = u32::try_from(random.between(2, QUEUE)).unwrap_or(2);
            let policies = [
                Overlap::Forbid,
                Overlap::Skip,
                Overlap::Queue(queue),
                Overlap::Replace,
                Overlap::Allow,
                Overlap::Limit(beside),
            ];
            job.overlap = *random.pick(&policies).unwrap_or(&Overlap::Forbid);
            if matches!(job.overlap, Overlap::Queue(_)) {
                job.catch_up = CatchUp::Latest;
            }
        }
        self.healing_lasts += QUEUE * LONG_RUN * ttl * 5 / 4;
    }
}
