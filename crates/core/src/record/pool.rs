//! The registry data of a pool.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ids::{Member, RunId};

/// The runs of a pool that execute, or are about to start, under `keys::pool`. An absent entry has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PoolRecord {
    /// One permit for each run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permits: Vec<PoolPermit>,
    /// Rises with every write.
    pub seq: u64,
}

/// The permit of a run, held from right before its start until it has ended or its node is dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PoolPermit {
    /// The run.
    pub run: RunId,
    /// The member that runs it.
    pub by: Member,
    /// The limit of its job: how many runs of the pool may execute at once, itself counted.
    pub limit: u32,
}

impl PoolRecord {
    /// The limit with one more run of this limit: the least that any of the runs allows.
    #[must_use]
    pub fn limit(&self, limit: u32) -> usize {
        self.permits.iter().map(|permit| permit.limit).fold(limit, u32::min) as usize
    }
}
