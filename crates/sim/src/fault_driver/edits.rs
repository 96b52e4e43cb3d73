//! Changes declarations and starts manual runs while faults happen.

use evenkeel_core::ids::{JobName, NodeName, RequestId};
use evenkeel_core::input::Command;
use evenkeel_core::job::JobFile;

use super::{FaultDriver, FaultRecovery};

use crate::workload::{calendar, job, named_nodes};
use crate::world::SimWorld;

impl FaultDriver<'_> {
    /// Sometimes changes a calendar.
    pub(super) fn edit(&mut self, world: &mut SimWorld) {
        let names: Vec<NodeName> = world.names().cloned().collect();
        let found = (self.dates.pick(&self.workload.calendars), self.dates.pick(&names));
        if let (Some(old), Some(node)) = found
            && self.dates.chance(400)
        {
            let new = calendar(&old.name, &mut self.dates);
            world.ask(node, Command::Calendar(Box::new(new)));
        }
    }

    pub(super) fn declaration(&mut self, name: &JobName) -> JobFile {
        if self.work.chance(500) {
            let mut job = job(name, self.ttl, &mut self.work);
            if let Some(old) = self.jobs.get(name) {
                if !job.schedule.is_empty() {
                    (job.exclude_calendars, job.require_calendars) =
                        (old.exclude_calendars.clone(), old.require_calendars.clone());
                }
                // The retry policy never changes in a job's life either.
                job.retry.clone_from(&old.retry);
                job.pool.clone_from(&old.pool);
                job.node_selector.clone_from(&old.node_selector);
            }
            self.jobs.insert(name.clone(), job);
        }
        if self.workload.labelled && self.node_choices.chance(300) {
            let nodes = named_nodes(&mut self.node_choices);
            self.jobs.entry(name.clone()).and_modify(|job| job.node_selector = nodes);
        }
        self.jobs[name].clone()
    }

    /// Triggers a manual run, half of the time twice, the second time on another node.
    pub(super) fn run_now(&mut self, world: &mut SimWorld, node: &NodeName) {
        let jobs: Vec<JobName> = self.jobs.keys().cloned().collect();
        let Some(job) = self.work.pick(&jobs).cloned() else { return };
        self.number += 1;
        let id: RequestId = format!("r{}", self.number).parse().expect("a letter and a number are a name");
        world.ask(node, Command::RunNow(job.clone(), id.clone()));
        if self.work.chance(500) {
            let after = self.work.between(0, 3_000);
            self.later(world, after, FaultRecovery::Ask(Command::RunNow(job, id)));
        }
    }
}
