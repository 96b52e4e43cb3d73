//! Jobs with retries. They have a random stream of their own, so that worlds without any do not
//! change.

use evenkeel_core::job::Retry;

use super::Workload;
use crate::random::SimRandom;

/// How many worlds in a thousand have such jobs.
const SHARE: u32 = 300;
/// The maximum number of retries.
const TIMES: i64 = 2;
/// The delay of a retry, before jitter shortens it, in seconds.
const WAIT: i64 = 8;

impl Workload {
    /// Gives some jobs a retry policy, in some seeds.
    pub(super) fn add_retries(&mut self, seed: u64) {
        let random = &mut SimRandom::new(seed, "retries of a swarm");
        if !random.chance(SHARE) {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| job.monitor_execution) {
            let times = u32::try_from(random.between(1, TIMES)).unwrap_or(1);
            let codes = if random.chance(200) { [1].into() } else { [].into() };
            let retry = Retry {
                max_retries: times,
                delay: format!("{WAIT}s"),
                max_delay: format!("{WAIT}s"),
                exit_codes: codes,
            };
            job.retry = random.chance(500).then_some(retry);
        }
        self.healing_lasts += TIMES * (WAIT + 2) * 1000;
    }
}
