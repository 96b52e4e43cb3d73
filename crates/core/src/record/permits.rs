//! The registry data of a limit of runs.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ids::{Member, RunId};

/// The runs of a pool, or of a namespace that limits its runs, that execute or are about to start, under `keys::permits`.
/// An absent entry has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PermitsRecord {
    /// One permit for each run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permits: Vec<RunPermit>,
    /// Rises with every write.
    pub seq: u64,
}

/// The permit of a run, held from right before its start until it has ended or its node is dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunPermit {
    /// The run.
    pub run: RunId,
    /// The member that runs it.
    pub by: Member,
    /// How many runs may execute at once, itself counted, by what its node knew: the limit of its job's pool, or that of its
    /// namespace.
    pub limit: u32,
}

impl PermitsRecord {
    /// The limit of a pool with one more run of this limit: the least that any of the runs allows.
    #[must_use]
    pub fn limit(&self, limit: u32) -> usize {
        self.permits.iter().map(|permit| permit.limit).fold(limit, u32::min) as usize
    }
}
