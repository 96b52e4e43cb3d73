//! The numbers of a view's jobs, by their names.

use alloc::collections::BTreeMap;

use super::job_id::JobId;
use super::job_state::JobState;
use super::sorted_names::SortedNames;

/// Nearly all inputs name a job. On the way down a tree of names each step reads one somewhere in memory; on the way
/// down a tree of numbers it reads none, so a number that was made of the name is looked for first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NameIndex {
    pub(super) sorted: SortedNames,
    /// The first job of each [order].
    pub(super) by_order: BTreeMap<u64, JobId>,
}

impl NameIndex {
    /// Adds the job with this number, whose name is new and makes this order.
    pub(super) fn add(&mut self, jobs: &[JobState], order: u64, id: JobId) {
        self.by_order.entry(order).or_insert(id);
        self.sorted.add(jobs, id);
    }
}

/// A node's own order of jobs (FNV-1a over both names).
pub(super) fn order(node: &str, job: &str) -> u64 {
    let bytes = node.bytes().chain([0]).chain(job.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
