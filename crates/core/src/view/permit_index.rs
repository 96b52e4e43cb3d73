//! The limits of runs that a view knows, and how many runs of this node wait for a permit.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::job_id::JobId;
use super::known_entry::KnownEntry;
use crate::keys::{self, Key};
use crate::record::PermitsRecord;
use crate::run_limit::RunLimit;

/// All limits that have an entry, with their permits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PermitIndex {
    pub(super) entries: BTreeMap<RunLimit, KnownEntry<PermitsRecord>>,
    /// The limits of each living job that has any.
    pub(super) of: BTreeMap<JobId, Vec<RunLimit>>,
    /// The limited jobs of one shard with open runs in this life of this node, and how many of those lack a permit.
    pub(super) opened: BTreeMap<JobId, usize>,
    /// The sum of those runs: every step asks for it.
    pub(super) awaiting_permit: usize,
}

impl PermitIndex {
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.entries.keys().map(keys::permits)
    }

    /// The limits of a job.
    pub(super) fn limits(&self, id: JobId) -> &[RunLimit] {
        self.of.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Notes the limits of a job.
    pub(super) fn declare(&mut self, id: JobId, limits: Vec<RunLimit>) {
        match limits.is_empty() {
            true => self.of.remove(&id),
            false => self.of.insert(id, limits),
        };
    }

    /// Changes the life: the node has another lease, or none.
    pub(super) fn begin_life(&mut self) {
        self.opened.clear();
        self.awaiting_permit = 0;
    }
}
