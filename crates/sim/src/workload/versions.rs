//! Nodes of neighbouring versions, of which one knows a layout of the tree more than the other. They have a stream of chance of
//! their own, so that worlds without any stay what they are.

use evenkeel_core::record::{LAYOUT, Layouts};

use super::Workload;
use crate::random::SimRandom;

/// How many worlds in a thousand have them.
const SHARE: u32 = 150;
/// What the older program knows.
pub(crate) const OLD: Layouts = Layouts { oldest: LAYOUT, newest: LAYOUT };
/// What the newer one knows.
pub(crate) const NEW: Layouts = Layouts { oldest: LAYOUT, newest: LAYOUT + 1 };

impl Workload {
    /// Lets nodes begin with either program, if this seed has that.
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
