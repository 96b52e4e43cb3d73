//! Jobs whose fires are counted from the end of the previous run. They have a random stream of their own, so that
//! worlds without any do not change.

use evenkeel_core::job::Overlap;
use evenkeel_core::job::Placement;

use super::Workload;
use crate::random::SimRandom;

/// How many worlds in a thousand have such jobs.
const SHARE: u32 = 200;
/// The bounds of the delay in seconds: long enough that an unnoticed clock skew does not hide it.
const DELAY: (i64, i64) = (3, 9);

impl Workload {
    /// Lets some jobs follow their own runs, in some seeds.
    pub(super) fn add_after(&mut self, seed: u64) {
        let random = &mut SimRandom::new(seed, "delays of a swarm");
        if !random.chance(SHARE) {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| job.placement == Placement::Claimed) {
            if random.chance(600) {
                job.schedule = format!("@after {}s", random.between(DELAY.0, DELAY.1));
                job.overlap = Overlap::Forbid;
                (job.exclude_calendars, job.require_calendars) = (Vec::new(), Vec::new());
            }
        }
    }
}
