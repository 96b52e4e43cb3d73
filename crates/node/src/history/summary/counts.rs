//! The counts of fires.

use serde::{Deserialize, Serialize};

/// How many kinds of counts there are.
pub(in crate::history) const KINDS: usize = 8;

/// The columns of the counts, in the order of [`FireCounts::to_array`].
pub(in crate::history) const COUNT_COLUMNS: [&str; KINDS] =
    ["ran", "failed", "killed", "missed", "skipped", "late", "manual", "run_millis"];

/// How many fires came to which outcome. A fire of a job with shards counts once for each shard.
///
/// Nodes send each other the counts as a list in the order of these fields. A later version may add some at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "[u64; KINDS]")]
pub struct FireCounts {
    /// Scheduled fires that succeeded, whichever attempt it was.
    pub ran: u64,
    /// Scheduled fires whose last attempt failed, took too long or is lost.
    pub failed: u64,
    /// Scheduled fires that were ended by a request, or replaced by a later fire.
    pub killed: u64,
    /// Scheduled fires that no node ran in time.
    pub missed: u64,
    /// Scheduled fires that did not run because their job or an operator wanted it so.
    pub skipped: u64,
    /// Scheduled fires that began late; they have an outcome beside.
    pub late: u64,
    /// Manual runs that came to any outcome.
    pub manual: u64,
    /// How long the last attempts of the scheduled fires took together, in milliseconds.
    pub run_millis: u64,
}

impl From<FireCounts> for [u64; KINDS] {
    fn from(counts: FireCounts) -> Self {
        counts.to_array()
    }
}

impl From<Vec<u64>> for FireCounts {
    fn from(list: Vec<u64>) -> Self {
        Self::from_array(std::array::from_fn(|kind| list.get(kind).copied().unwrap_or(0)))
    }
}

/// The kind of a count, by its place in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountKind {
    Late = 5,
    Manual = 6,
    RunMillis = 7,
}

/// A change of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::history) struct CountDelta(pub(super) [i64; KINDS]);

impl FireCounts {
    /// How many scheduled fires came to an outcome.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.ran + self.failed + self.killed + self.missed + self.skipped
    }

    /// How many scheduled fires did not do their work, and should have.
    #[must_use]
    pub fn trouble(&self) -> u64 {
        self.failed + self.missed
    }

    /// Adds the counts of other fires.
    pub fn add(&mut self, other: &Self) {
        let (mine, other) = (self.to_array(), other.to_array());
        *self = Self::from_array(std::array::from_fn(|kind| mine[kind].saturating_add(other[kind])));
    }

    /// The counts in the order of [`COUNT_COLUMNS`].
    pub(super) fn to_array(self) -> [u64; KINDS] {
        let Self { ran, failed, killed, missed, skipped, late, manual, run_millis } = self;
        [ran, failed, killed, missed, skipped, late, manual, run_millis]
    }

    pub(super) fn from_array(
        [ran, failed, killed, missed, skipped, late, manual, run_millis]: [u64; KINDS],
    ) -> Self {
        Self { ran, failed, killed, missed, skipped, late, manual, run_millis }
    }

    /// Applies a change. A count whose row was deleted meanwhile does not fall below zero.
    pub(super) fn apply(&mut self, delta: &CountDelta) {
        let mine = self.to_array();
        *self = Self::from_array(std::array::from_fn(|kind| mine[kind].saturating_add_signed(delta.0[kind])));
    }
}

impl CountDelta {
    /// A change of one count.
    pub(in crate::history) fn of(kind: usize, by: i64) -> Self {
        let mut delta = Self::default();
        if let Some(count) = delta.0.get_mut(kind) {
            *count = by;
        }
        delta
    }

    /// Adds another change.
    pub(super) fn add(&mut self, other: &Self) {
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(other);
        }
    }

    /// The change that takes this one back.
    pub(in crate::history) fn reversed(&self) -> Self {
        Self(self.0.map(i64::saturating_neg))
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }
}
