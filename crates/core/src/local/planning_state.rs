//! The planning of this node: which runs it still has to place, and which plans are in flight.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::ids::Member;
use crate::time::{Millis, Mono, Wall};
use crate::view::JobId;

/// How long after nodes or jobs came or went the runs of all jobs are spread anew.
const SPREAD_AFTER: Millis = Millis(500);

/// A run that a plan in flight gives to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlacedRun {
    /// The node that gets it.
    pub node: Member,
    /// When it is expected to begin.
    pub begin: Wall,
    /// How long it is expected to take.
    pub length: Millis,
}

/// The jobs whose runs this node has to place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanningState {
    /// Jobs with runs to be planned that no node can take.
    unplaced: BTreeSet<JobId>,
    /// Jobs whose runs the planner spreads anew over the nodes, when it looks at their plans next.
    spread: BTreeSet<JobId>,
    /// When that is done for all jobs, because nodes or jobs came or went.
    spread_at: Option<Mono>,
    /// The runs of plans in flight, so that they count before the view shows them.
    in_flight: BTreeMap<JobId, Vec<PlacedRun>>,
}

impl PlanningState {
    /// Adds a plan in flight that gives a job's runs to these nodes.
    pub(crate) fn begin(&mut self, job: JobId, runs: Vec<PlacedRun>) {
        self.in_flight.insert(job, runs);
    }

    /// Removes a plan that is not in flight any more.
    pub(crate) fn end(&mut self, job: JobId) {
        self.in_flight.remove(&job);
    }

    /// The runs of all plans in flight.
    pub fn placed_runs(&self) -> impl Iterator<Item = &PlacedRun> {
        self.in_flight.values().flatten()
    }

    /// Whether a plan is in flight.
    pub(crate) fn is_planning(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Adds a job with runs that no node can take.
    pub(crate) fn add_unplaced(&mut self, job: JobId) {
        self.unplaced.insert(job);
    }

    /// Whether there are such jobs.
    pub(crate) fn has_unplaced(&self) -> bool {
        !self.unplaced.is_empty()
    }

    /// Takes the jobs with runs that no node can take.
    pub(crate) fn take_unplaced(&mut self) -> BTreeSet<JobId> {
        core::mem::take(&mut self.unplaced)
    }

    /// Puts those back that still have no node.
    pub(crate) fn set_unplaced(&mut self, jobs: BTreeSet<JobId>) {
        self.unplaced = jobs;
    }

    /// Schedules a new spread of all runs: nodes or jobs came or went, and more may follow at once.
    pub(crate) fn spread_soon(&mut self, now: Mono) {
        self.spread_at.get_or_insert(now + SPREAD_AFTER);
    }

    /// When all runs are spread anew.
    pub(crate) fn spread_at(&self) -> Option<Mono> {
        self.spread_at
    }

    /// Spreads the runs of these jobs anew, now that the planner may be another one.
    pub(crate) fn spread(&mut self, jobs: impl Iterator<Item = JobId>) {
        self.spread = jobs.collect();
    }

    /// Spreads the runs of these jobs anew, as was scheduled.
    pub(crate) fn spread_as_scheduled(&mut self, jobs: impl Iterator<Item = JobId>) {
        self.spread_at = None;
        self.spread(jobs);
    }

    /// Notes that the runs of a job were spread anew.
    pub(crate) fn was_spread(&mut self, job: JobId) {
        self.spread.remove(&job);
    }

    /// Whether the runs of a job are to be spread anew.
    pub(crate) fn spreads(&self, job: JobId) -> bool {
        self.spread.contains(&job)
    }

    /// Clears the state of a life that is over.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
