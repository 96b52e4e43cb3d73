//! Rewinds of the registry. They have a random stream of their own, so that worlds without any do not change.

use super::Workload;
use crate::random::SimRandom;

/// How many worlds in a thousand have some.
const SHARE: u32 = 150;

impl Workload {
    /// Lets the registry be rewound, in some seeds.
    pub(super) fn add_rewinds(&mut self, seed: u64) {
        let random = &mut SimRandom::new(seed, "lapses of a swarm");
        self.rewinds = random.chance(SHARE);
    }
}
