//! Registries that go back in time. They have a stream of chance of their own, so that worlds without any stay what they are.

use super::Swarm;
use crate::random::Random;

/// How many worlds in a thousand have one.
const SHARE: u32 = 150;

impl Swarm {
    /// Lets the registry go back in time, if this seed has that.
    pub(super) fn add_lapses(&mut self, seed: u64) {
        let random = &mut Random::new(seed, "lapses of a swarm");
        self.lapses = random.chance(SHARE);
    }
}
