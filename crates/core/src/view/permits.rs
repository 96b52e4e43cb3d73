//! The view of limits of runs: which jobs count in which, and which runs have a permit.

use alloc::vec::Vec;

use super::known_entry::{EntryUpdate, newer};
use super::{JobId, KnownEntry, OwnedJob, View, ViewChanges};
use crate::ids::{Fire, JobName, Member, Namespace, PoolName};
use crate::record::{PermitsRecord, decode};
use crate::registry::Change;
use crate::run_limit::RunLimit;

impl View {
    /// All limits that have an entry, in their order.
    pub fn permit_entries(&self) -> impl Iterator<Item = (&RunLimit, &KnownEntry<PermitsRecord>)> {
        self.permits.entries.iter()
    }

    /// The known permits of a limit; known to be absent, where there are none.
    #[must_use]
    pub fn permits(&self, limit: &RunLimit) -> KnownEntry<PermitsRecord> {
        self.permits.entries.get(limit).cloned().unwrap_or_default()
    }

    /// The limits in which this member has a permit.
    pub(super) fn limits_of(&self, member: &Member) -> impl Iterator<Item = RunLimit> {
        let sits = |known: &KnownEntry<PermitsRecord>| {
            known.value.iter().flat_map(|record| &record.permits).any(|permit| permit.by == *member)
        };
        self.permits.entries.iter().filter(move |(_, known)| sits(known)).map(|(limit, _)| limit.clone())
    }

    /// The limits that the runs of a job count in: its pool, and its namespace where that has a `runs_max`.
    #[must_use]
    pub fn run_limits(&self, id: JobId) -> &[RunLimit] {
        self.permits.limits(id)
    }

    /// How many runs of a namespace may execute at once; any number where it is `None`.
    #[must_use]
    pub fn runs_max(&self, namespace: &Namespace) -> Option<u32> {
        self.namespace(namespace)?.namespace.runs_max
    }

    /// The jobs of which a run may wait for a permit: those with a limit that is reached.
    pub fn crowded(&self) -> impl Iterator<Item = JobId> {
        let is_full = |limit: &RunLimit| {
            let record = self.permits.entries.get(limit).and_then(|known| known.value.as_ref());
            let most = |record: &PermitsRecord| match limit {
                RunLimit::Pool(_) => record.limit(u32::MAX),
                RunLimit::Namespace(name) => self.runs_max(name).map_or(usize::MAX, |max| max as usize),
            };
            record.is_some_and(|record| record.permits.len() >= most(record))
        };
        self.permits.of.iter().filter(move |(_, limits)| limits.iter().any(is_full)).map(|(id, _)| *id)
    }

    /// Notes the limits of a living job; `pool` is the one that it names.
    pub(super) fn declare_limits(&mut self, id: JobId, job: &JobName, live: bool, pool: Option<PoolName>) {
        let namespace = || job.namespace().parse().ok().filter(|name| self.runs_max(name).is_some());
        let of_namespace = if live { namespace() } else { None };
        let limits = pool.map(RunLimit::Pool).into_iter().chain(of_namespace.map(RunLimit::Namespace));
        self.permits.declare(id, limits.collect());
        self.note_opened(id);
    }

    /// Notes that a namespace limits its runs, or does so no more.
    pub(super) fn limit_namespace(&mut self, namespace: &Namespace, limited: bool) {
        let limit = RunLimit::Namespace(namespace.clone());
        let inside = |id: &JobId| self.job(*id).name().namespace() == namespace.as_str();
        let jobs: Vec<JobId> = self.ids().filter(|id| self.job(*id).is_live() && inside(id)).collect();
        for id in jobs {
            let mut limits = self.permits.limits(id).to_vec();
            limits.retain(|other| *other != limit);
            limits.extend(limited.then(|| limit.clone()));
            self.permits.declare(id, limits);
            self.note_opened(id);
        }
    }

    /// How many runs this node has claimed or accepted that wait for a permit: they take no slot until they have one.
    #[must_use]
    pub fn awaiting_permit(&self) -> usize {
        self.permits.awaiting_permit
    }

    /// The same, counted anew.
    #[cfg(test)]
    pub(crate) fn awaiting_permit_recounted(&self) -> usize {
        self.permits.of.keys().map(|id| self.lacking(*id)).sum()
    }

    /// How many open runs of a job with one shard lack a permit of one of its limits.
    fn lacking(&self, id: JobId) -> usize {
        let limits = self.permits.limits(id);
        let is_whole = |fire: &&Fire| limits.iter().all(|limit| self.has_permit(id, fire, limit));
        self.opened(id).filter(|fire| !is_whole(fire)).count()
    }

    /// Whether a run of this node has a permit, of a job with one shard.
    fn has_permit(&self, id: JobId, fire: &Fire, limit: &RunLimit) -> bool {
        let record = self.permits.entries.get(limit).and_then(|known| known.value.as_ref());
        let permits = record.map(|record| &record.permits);
        let name = self.job(id).name();
        permits.into_iter().flatten().any(|permit| {
            Some(&permit.by) == self.life.as_ref() && permit.run.job == *name && permit.run.fire == *fire
        })
    }

    /// The runs that this node has open of a job with one shard, and that do not wait for another attempt.
    fn opened(&self, id: JobId) -> impl Iterator<Item = &Fire> {
        let me = self.life.as_ref();
        let run_state = self.held.get(id).and_then(OwnedJob::record);
        let claimed = run_state.into_iter().flat_map(|run_state| &run_state.open);
        let claimed = claimed.filter(move |open| open.wait.is_none() && Some(&open.by) == me);
        let plan = self.dispatched.get(&id).and_then(|job| job.plan.as_ref()?.known.value.as_ref());
        let planned = plan.into_iter().flat_map(|plan| &plan.runs);
        let accepted = planned.filter(move |run| run.is_claimed() && Some(&run.by) == me);
        claimed.map(|open| &open.fire).chain(accepted.map(|run| &run.fire))
    }

    /// Notes that the open runs of a job have changed, or its limits.
    pub(super) fn note_opened(&mut self, id: JobId) {
        let is_open = !self.permits.limits(id).is_empty() && self.opened(id).next().is_some();
        let opened = is_open.then(|| self.lacking(id));
        let before = match opened {
            Some(without_permit) => self.permits.opened.insert(id, without_permit),
            None => self.permits.opened.remove(&id),
        };
        let others = self.permits.awaiting_permit - before.unwrap_or(0);
        self.permits.awaiting_permit = others + opened.unwrap_or(0);
    }

    /// Notes that the permits of a limit have changed.
    fn note_permits(&mut self, limit: &RunLimit) {
        let opened = self.permits.opened.keys();
        let concerned: Vec<JobId> =
            opened.filter(|id| self.permits.limits(**id).contains(limit)).copied().collect();
        concerned.into_iter().for_each(|id| self.note_opened(id));
    }

    /// The jobs of which this node has runs with a permit of a limit.
    pub fn permit_holders(&self, limit: &RunLimit) -> impl Iterator<Item = JobId> {
        let known = self.permits.entries.get(limit).into_iter();
        let permits = known.flat_map(|known| &known.value).flat_map(|record| &record.permits);
        let mine = permits.filter(|permit| Some(&permit.by) == self.life.as_ref());
        mine.filter_map(|permit| self.id(&permit.run.job))
    }

    pub(super) fn absorb_permits(&mut self, limit: RunLimit, change: &Change, touched: &mut ViewChanges) {
        // A run that had a permit may have to take another one.
        let had: Vec<JobId> = self.permit_holders(&limit).collect();
        match newer(self.permits.entries.get(&limit).map(|known| known.revision), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => {
                self.gone.insert(change.key.clone(), revision);
                self.permits.entries.remove(&limit);
            }
            EntryUpdate::Put(entry) => {
                let Some(record) = decode::<PermitsRecord>(&entry.value) else {
                    touched.unreadable.push(change.key.clone());
                    return;
                };
                self.permits.entries.insert(limit.clone(), KnownEntry::present(Some(record), entry.revision));
            }
        }
        self.note_permits(&limit);
        touched.jobs.extend(had);
        touched.jobs.extend(self.permit_holders(&limit));
        touched.limits.insert(limit);
    }
}
