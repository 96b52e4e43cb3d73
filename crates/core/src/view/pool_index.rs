//! The pools that a view knows, and how many runs of this node wait for a permit.

use alloc::collections::BTreeMap;

use super::job_id::JobId;
use super::known_entry::KnownEntry;
use crate::ids::PoolName;
use crate::keys::{self, Key};
use crate::record::PoolRecord;

/// All pools that have an entry, with their permits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PoolIndex {
    pub(super) entries: BTreeMap<PoolName, KnownEntry<PoolRecord>>,
    /// The living jobs that are in a pool.
    pub(super) of: BTreeMap<JobId, PoolName>,
    /// The jobs of one shard in a pool with open runs in this life of this node, and how many of those have no permit.
    pub(super) opened: BTreeMap<JobId, usize>,
    /// The sum of those runs: every step asks for it.
    pub(super) awaiting_permit: usize,
}

impl PoolIndex {
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.entries.keys().map(keys::pool)
    }

    /// The pool in a job's declaration.
    pub(super) fn declare(&mut self, id: JobId, pool: Option<PoolName>) {
        match pool {
            Some(pool) => self.of.insert(id, pool),
            None => self.of.remove(&id),
        };
    }

    /// Changes the life: the node has another lease, or none.
    pub(super) fn begin_life(&mut self) {
        self.opened.clear();
        self.awaiting_permit = 0;
    }
}
