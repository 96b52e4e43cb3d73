//! What the ends of runs leave in a record.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::effect::Verdict;

/// How many runs in a row ended badly: they failed, took too long, or were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailureStreak {
    /// Their number.
    pub runs: u32,
    /// The version of the job's declaration under which they are counted; another version counts anew.
    pub version: u64,
}

impl FailureStreak {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The parts of a record that the ends of runs change, the same in the records of all placements.
#[derive(Debug)]
pub struct Outcomes<'a> {
    /// Verdicts that history has not acknowledged yet (law 9).
    pub verdicts: &'a mut Vec<Verdict>,
    /// The runs in a row that ended badly, of a job that is paused after some.
    pub failures: &'a mut FailureStreak,
}
