//! Jobs in a namespace of their own. They have a random stream of their own, so that worlds without them stay as they were.

use evenkeel_core::ids::{Namespace, WrittenName};
use evenkeel_core::namespace::NamespaceSettings;

use super::Workload;
use crate::random::SimRandom;

/// One seed in this many has such jobs. No seed of `planted_faults.txt` is among them, nor one that once found something.
const EACH: u64 = 12;
/// Which of them.
const THIS: u64 = 7;

impl Workload {
    /// Moves some jobs into a namespace, in some seeds.
    pub(super) fn add_namespaces(&mut self, seed: u64) {
        if seed % EACH != THIS {
            return;
        }
        let random = &mut SimRandom::new(seed, "namespaces of a swarm");
        let namespace: Namespace = "team".parse().expect("it is a name");
        // It may be full, but not fuller than the jobs that are moved.
        let jobs_max = random.chance(500).then(|| u32::try_from(self.jobs.len()).unwrap_or(u32::MAX));
        self.namespaces.push(NamespaceSettings { jobs_max, ..NamespaceSettings::new(namespace.clone()) });
        for job in self.jobs.iter_mut().filter(|_| random.chance(500)) {
            let old = job.name.name().clone();
            job.move_into(Some(&namespace)).expect("a short name");
            // The calendars are those of all.
            for calendar in job.exclude_calendars.iter_mut().chain(&mut job.require_calendars) {
                *calendar = WrittenName::full(calendar.name().clone());
            }
            if self.calm_jobs.remove(&old) {
                self.calm_jobs.insert(job.name.name().clone());
            }
        }
    }
}
