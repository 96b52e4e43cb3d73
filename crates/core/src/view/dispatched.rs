//! The view of dispatched jobs: their terms, and the plans that were read. Plans are in no feed.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use super::dispatched_index::{DispatchedState, KnownPlan, PlannedRuns};
use super::known_entry::{EntryUpdate, newer};
use super::{JobId, JobView, KnownEntry, View, ViewChanges};
use crate::ids::{JobName, Member};
use crate::job::Placement;
use crate::record::{Plan, SpecRecord, decode};
use crate::registry::Change;

impl View {
    /// All dispatched jobs, and those with remains.
    pub fn dispatched(&self) -> impl Iterator<Item = JobId> {
        self.dispatched.keys().copied()
    }

    /// Whether there is any dispatched job.
    #[must_use]
    pub fn has_dispatched(&self) -> bool {
        !self.dispatched.is_empty()
    }

    /// The members with planned or accepted runs, as far as plans are known, and the jobs of those runs.
    pub fn planned_by_member(&self) -> impl Iterator<Item = (&Member, impl Iterator<Item = JobId>)> {
        self.planned_runs.by.iter().map(|(member, jobs)| (member, jobs.iter().copied()))
    }

    /// How many runs this node has accepted in this life and not closed.
    #[must_use]
    pub fn accepted_count(&self) -> usize {
        self.planned_runs.accepted
    }

    /// A number for a job known only by its name, so that its plan can be read.
    pub(crate) fn add_job(&mut self, job: &JobName) -> JobId {
        self.intern(job)
    }

    /// Forgets the plans that were read in a life that is over.
    pub(super) fn forget_plans(&mut self) {
        self.dispatched.values_mut().for_each(|job| job.plan = None);
        self.planned_runs = PlannedRuns::default();
    }

    pub(super) fn set_planned(&mut self, id: JobId, planned: bool) {
        if planned || self.dispatched.contains_key(&id) {
            self.dispatched.entry(id).or_default().planned = planned;
            self.drop_dispatched(id);
        }
    }

    pub(super) fn set_dispatched_terms(
        &mut self,
        id: JobId,
        placement: Placement,
        record: Option<&SpecRecord>,
    ) {
        if placement == Placement::Dispatched {
            let terms = self.terms_of(record).map(Box::new);
            self.dispatched.entry(id).or_default().terms = terms;
        } else if let Some(job) = self.dispatched.get_mut(&id) {
            job.terms = None;
            self.drop_dispatched(id);
        }
    }

    /// Forgets a job that is gone and whose plan is empty for good.
    fn drop_dispatched(&mut self, id: JobId) {
        let gone = |job: &DispatchedState| job.terms.is_none() && !job.planned;
        if self.dispatched.get(&id).is_some_and(gone) {
            self.index_plan(id, None);
            self.dispatched.remove(&id);
            self.note_opened(id);
        }
    }

    pub(super) fn absorb_plan(&mut self, job: &JobName, change: &Change, touched: &mut ViewChanges) {
        let id = self.intern(job);
        let known = self.dispatched.get(&id).and_then(|job| job.plan.as_ref());
        let as_of = change.revision.max(known.map(|known| known.as_of).unwrap_or_default());
        let plan = match newer(known.map(|known| known.known.revision), change) {
            EntryUpdate::Gone(revision) => KnownEntry::absent(revision),
            EntryUpdate::Put(entry) => match decode(&entry.value) {
                Some(plan) => KnownEntry::present(Some(plan), entry.revision),
                None => return touched.unreadable.push(change.key.clone()),
            },
            // The same plan read anew: it is valid as of now.
            EntryUpdate::Stale => match known {
                Some(known) => known.known.clone(),
                None => return,
            },
        };
        self.index_plan(id, plan.value.as_ref());
        self.dispatched.entry(id).or_default().plan = Some(KnownPlan { known: plan, as_of });
        self.note_opened(id);
        touched.jobs.insert(id);
    }

    /// Updates the runs of each member by a job's plan, in place of what was known of it.
    fn index_plan(&mut self, id: JobId, plan: Option<&Plan>) {
        let me = self.life.as_ref();
        let mine =
            |plan: &Plan| plan.runs.iter().filter(|run| run.is_claimed() && Some(&run.by) == me).count();
        let old = self.dispatched.get(&id).and_then(|job| job.plan.as_ref()?.known.value.as_ref());
        let was = old.map_or(0, mine);
        let holders: BTreeSet<Member> =
            old.iter().flat_map(|plan| &plan.runs).map(|run| run.by.clone()).collect();
        for holder in holders {
            if let Some(jobs) = self.planned_runs.by.get_mut(&holder) {
                jobs.remove(&id);
                if jobs.is_empty() {
                    self.planned_runs.by.remove(&holder);
                }
            }
        }
        self.planned_runs.accepted = self.planned_runs.accepted + plan.map_or(0, mine) - was;
        for run in plan.into_iter().flat_map(|plan| &plan.runs) {
            self.planned_runs.by.entry(run.by.clone()).or_default().insert(id);
        }
    }
}

impl<'a> JobView<'a> {
    /// Whether it is dispatched, or has remains of a dispatched job.
    #[must_use]
    pub fn is_dispatched(&self) -> bool {
        self.view.dispatched.contains_key(&self.id)
    }

    /// Its data as a dispatched job.
    #[must_use]
    pub fn dispatched(&self) -> Option<&'a DispatchedState> {
        self.view.dispatched.get(&self.id)
    }

    /// Its plan as far as it was read.
    #[must_use]
    pub fn plan(&self) -> Option<&'a KnownPlan> {
        self.dispatched()?.plan.as_ref()
    }
}
