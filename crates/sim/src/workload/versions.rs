//! Nodes of two neighbouring versions, one of which knows one more layout. They have a random stream of
//! their own, so that worlds without any do not change.

use evenkeel_core::record::{LAYOUT, Layouts};

use super::Workload;
use crate::random::SimRandom;

/// How many worlds in a thousand have them.
const SHARE: u32 = 150;
/// The layouts that the older program knows.
pub(crate) const OLD: Layouts = Layouts { oldest: LAYOUT, newest: LAYOUT };
/// The layouts that the newer one knows.
pub(crate) const NEW: Layouts = Layouts { oldest: LAYOUT, newest: LAYOUT + 1 };

impl Workload {
    /// Lets nodes start with either program, in some seeds.
    pub(super) fn add_versions(&mut self, seed: u64) {
        let random = &mut SimRandom::new(seed, "versions of a swarm");
        if !random.chance(SHARE) {
            return;
        }
        for (settings, _) in &mut self.nodes {
            settings.knows = if random.chance(700) { OLD } else { NEW };
        }
        self.versions = true;
    }
}
