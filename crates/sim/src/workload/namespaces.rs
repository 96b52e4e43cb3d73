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
        let settings = NamespaceSettings { jobs_max, ..NamespaceSettings::new(namespace.clone()) };
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
        let runs_max = self.runs_max(&namespace, random);
        // A run that waits for a permit is as late as one that waits for a slot.
        self.roomy &= runs_max.is_none();
        self.namespaces.push(NamespaceSettings { runs_max, ..settings });
    }

    /// How many runs of the namespace may go on at once, in some seeds.
    fn runs_max(&self, namespace: &Namespace, random: &mut SimRandom) -> Option<u32> {
        let moved = || self.jobs.iter().filter(|job| job.name.name().namespace() == namespace.as_str());
        if !moved().all(|job| job.monitor_execution) || !random.chance(500) {
            return None;
        }
        // What is too little for all shards would never finish them.
        let (least, most) = if moved().any(|job| job.placement.is_sharded()) { (20, 200) } else { (1, 4) };
        u32::try_from(random.between(least, most)).ok()
    }
}
