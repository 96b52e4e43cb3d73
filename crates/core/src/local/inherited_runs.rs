//! The runs and entries that this node inherits from an earlier program of its process.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::given_runs::Given;
use crate::ids::{JobName, RunId};
use crate::input::RunEvent;
use crate::time::Mono;
use crate::view::JobId;

/// What an earlier program left, until the registry's entries about it have been read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InheritedRuns {
    /// Runs that it gave to executors, until the jobs have their numbers.
    runs: Vec<Given>,
    /// Jobs for which it had written something that no listing shows, until they have their numbers.
    entries: Vec<JobName>,
    /// Jobs with such runs or entries, about which nothing is decided until their entries have been read.
    unread: BTreeSet<JobId>,
    /// Whether the node continues for it and has not reported that.
    unreported: bool,
}

impl InheritedRuns {
    /// The runs and the entries of an earlier program.
    pub(crate) fn new(runs: Vec<Given>, entries: Vec<JobName>) -> Self {
        Self { runs, entries, unread: BTreeSet::new(), unreported: true }
    }

    /// Notes that the upgrade is reported. Returns the number of inherited runs if it was not reported before.
    pub(crate) fn report_upgrade(&mut self) -> Option<usize> {
        core::mem::take(&mut self.unreported).then_some(self.runs.len())
    }

    /// Takes the jobs with entries, for their jobs have numbers now.
    pub(crate) fn take_entries(&mut self) -> Vec<JobName> {
        core::mem::take(&mut self.entries)
    }

    /// Takes the runs, for their jobs have numbers now.
    pub(crate) fn take_runs(&mut self) -> Vec<Given> {
        core::mem::take(&mut self.runs)
    }

    /// Takes a report on an inherited run, before its job has a number. Returns whether it is one.
    pub(crate) fn report_run(&mut self, now: Mono, run: &RunId, attempt: u32, event: &RunEvent) -> bool {
        let is_it = |given: &Given| given.run == *run && given.attempt == attempt;
        let Some(at) = self.runs.iter().position(is_it) else { return false };
        match event {
            RunEvent::NotStarted => drop(self.runs.remove(at)),
            RunEvent::Ended(ended) => {
                let given = &mut self.runs[at];
                given.ended = given.ended.or(Some((*ended, now)));
            }
        }
        true
    }

    /// Notes that the entries of these jobs have to be read.
    pub(crate) fn must_read(&mut self, jobs: impl IntoIterator<Item = JobId>) {
        self.unread.extend(jobs);
    }

    /// Notes that the entry of a job was read.
    pub(crate) fn was_read(&mut self, job: JobId) {
        self.unread.remove(&job);
    }

    /// Forgets the entries to be read: the life that wrote them is over.
    pub(crate) fn forget_unread(&mut self) {
        self.unread.clear();
    }

    /// The jobs whose entries have to be read.
    pub(crate) fn unread(&self) -> impl Iterator<Item = JobId> {
        self.unread.iter().copied()
    }

    /// Whether the entry of this job has to be read.
    pub(crate) fn is_unread(&self, job: JobId) -> bool {
        self.unread.contains(&job)
    }

    /// Whether entries have to be read.
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether the upgrade was reported and all entries have been read.
    pub(crate) fn is_settled(&self) -> bool {
        !self.unreported && !self.has_unread()
    }
}
