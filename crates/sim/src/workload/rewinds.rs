//! Registries that go back in time. They have a stream of chance of their own, so that worlds without any stay what they are.

use super::Workload;
use crate::random::SimRandom;

/// How many worlds in a thousand have one.
const SHARE: u32 = 150;

impl Workload {
    /// Lets the registry go back in time, if this seed has that.
    pub(super) fn add_rewinds(&mut self, seed: u64) {
        let random = &mut SimRandom::new(seed, "lapses of a swarm");
        self.rewinds = random.chance(SHARE);
    }
}
