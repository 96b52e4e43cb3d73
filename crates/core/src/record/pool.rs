//! What is kept of a pool.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::ids::{Member, RunId};

/// Which runs of a pool go on, or are about to start, under `keys::pool`. One that is absent has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PoolRecord {
    /// A seat for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seats: Vec<PoolPermit>,
    /// Rises with every write.
    pub seq: u64,
}

/// A run's place in its pool, from right before it starts until it has ended or its node is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PoolPermit {
    /// Which run.
    pub run: RunId,
    /// Who runs it.
    pub by: Member,
    /// How many runs of the pool may go on beside it, itself counted, by its job.
    pub limit: u32,
}

impl PoolRecord {
    /// How many runs may go on at once with one more that allows so many: the least that any of them allows.
    #[must_use]
    pub fn limit(&self, limit: u32) -> usize {
        self.seats.iter().map(|seat| seat.limit).fold(limit, u32::min) as usize
    }
}
