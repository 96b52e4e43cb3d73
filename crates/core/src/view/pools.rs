//! The view of pools: which runs have a permit.

use alloc::vec::Vec;

use super::known_entry::{EntryUpdate, newer};
use super::{JobId, KnownEntry, OwnedJob, View, ViewChanges};
use crate::ids::{Fire, Member, PoolName};
use crate::record::{PoolRecord, decode};
use crate::registry::Change;

impl View {
    /// All pools that have an entry, by name.
    pub fn pools(&self) -> impl Iterator<Item = (&PoolName, &KnownEntry<PoolRecord>)> {
        self.pools.entries.iter()
    }

    /// The known entry of a pool; known to be absent, where there is none.
    #[must_use]
    pub fn pool(&self, name: &PoolName) -> KnownEntry<PoolRecord> {
        self.pools.entries.get(name).cloned().unwrap_or_default()
    }

    /// The pools in which this member has a permit.
    pub(super) fn pools_of(&self, member: &Member) -> impl Iterator<Item = PoolName> {
        let sits = |known: &KnownEntry<PoolRecord>| {
            known.value.iter().flat_map(|record| &record.permits).any(|permit| permit.by == *member)
        };
        self.pools.entries.iter().filter(move |(_, known)| sits(known)).map(|(name, _)| name.clone())
    }

    /// Whether a job is in a pool.
    #[must_use]
    pub fn is_pooled(&self, id: JobId) -> bool {
        self.pools.of.contains_key(&id)
    }

    /// The jobs of which a run may wait for a permit: those in pools whose limit is reached, by the runs in them.
    pub fn crowded(&self) -> impl Iterator<Item = JobId> {
        let is_full = |pool: &PoolName| {
            let record = self.pools.entries.get(pool).and_then(|known| known.value.as_ref());
            record.is_some_and(|record| record.permits.len() >= record.limit(u32::MAX))
        };
        self.pools.of.iter().filter(move |(_, pool)| is_full(pool)).map(|(id, _)| *id)
    }

    /// How many runs this node has claimed or accepted that wait for a permit: they take no slot until they have one.
    #[must_use]
    pub fn awaiting_permit(&self) -> usize {
        self.pools.awaiting_permit
    }

    /// The same, counted anew.
    #[cfg(test)]
    pub(crate) fn awaiting_permit_recounted(&self) -> usize {
        let pooled = self.ids().filter_map(|id| Some((id, self.pools.of.get(&id)?)));
        pooled.map(|(id, pool)| self.opened(id).filter(|fire| !self.has_permit(id, fire, pool)).count()).sum()
    }

    /// Whether a run of this node has a permit, of a job with one shard.
    fn has_permit(&self, id: JobId, fire: &Fire, pool: &PoolName) -> bool {
        let permits =
            self.pools.entries.get(pool).and_then(|known| known.value.as_ref()).map(|pool| &pool.permits);
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

    /// Notes that the open runs of a job have changed, or the pool that it is in.
    pub(super) fn note_opened(&mut self, id: JobId) {
        let opened = self.pools.of.get(&id).and_then(|pool| {
            let first = self.opened(id).next();
            first.map(|_| self.opened(id).filter(|fire| !self.has_permit(id, fire, pool)).count())
        });
        let before = match opened {
            Some(without_permit) => self.pools.opened.insert(id, without_permit),
            None => self.pools.opened.remove(&id),
        };
        self.pools.awaiting_permit = self.pools.awaiting_permit + opened.unwrap_or(0) - before.unwrap_or(0);
    }

    /// Notes that the permits of a pool have changed.
    fn note_permits(&mut self, pool: &PoolName) {
        let opened = self.pools.opened.keys();
        let concerned: Vec<JobId> =
            opened.filter(|id| self.pools.of.get(id) == Some(pool)).copied().collect();
        concerned.into_iter().for_each(|id| self.note_opened(id));
    }

    /// The jobs of which this node has runs with a permit in a pool.
    pub fn permit_holders(&self, pool: &PoolName) -> impl Iterator<Item = JobId> {
        let permits = self
            .pools
            .entries
            .get(pool)
            .into_iter()
            .flat_map(|known| &known.value)
            .flat_map(|pool| &pool.permits);
        let mine = permits.filter(|permit| Some(&permit.by) == self.life.as_ref());
        mine.filter_map(|permit| self.id(&permit.run.job))
    }

    pub(super) fn absorb_pool(&mut self, name: PoolName, change: &Change, touched: &mut ViewChanges) {
        // A run that had a permit may have to take another one.
        let had: Vec<JobId> = self.permit_holders(&name).collect();
        match newer(self.pools.entries.get(&name).map(|known| known.revision), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => {
                self.gone.insert(change.key.clone(), revision);
                self.pools.entries.remove(&name);
            }
            EntryUpdate::Put(entry) => {
                let Some(record) = decode::<PoolRecord>(&entry.value) else {
                    touched.unreadable.push(change.key.clone());
                    return;
                };
                self.pools.entries.insert(name.clone(), KnownEntry::present(Some(record), entry.revision));
            }
        }
        self.note_permits(&name);
        touched.jobs.extend(had);
        touched.jobs.extend(self.permit_holders(&name));
        touched.pools.insert(name);
    }
}
