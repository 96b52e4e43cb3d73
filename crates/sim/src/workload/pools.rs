//! Jobs in pools. They have a random stream of their own, so that worlds without any do not change.

use evenkeel_core::job::Pool;

use super::Workload;
use crate::random::SimRandom;

/// How many worlds in a thousand have such jobs.
const SHARE: u32 = 200;

impl Workload {
    /// Puts some jobs into pools, in some seeds.
    pub(super) fn add_pools(&mut self, seed: u64) {
        let random = &mut SimRandom::new(seed, "pools of a swarm");
        if !random.chance(SHARE) {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| job.monitor_execution) {
            let name = random.pick(&["p", "q"]).copied().unwrap_or("p");
            // A pool that is too small for all shards would never finish them.
            let most = if job.placement.is_sharded() { (20, 200) } else { (1, 4) };
            let limit = u32::try_from(random.between(most.0, most.1)).unwrap_or(1);
            let pool = Pool { name: name.parse().expect("a letter is a name"), limit };
            job.pool = random.chance(400).then_some(pool);
        }
        // A run that waits for a permit is as late as one that waits for a slot.
        self.roomy = false;
    }
}
