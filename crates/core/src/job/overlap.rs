//! The overlap setting: what becomes of fires that come due while a run of their job executes.

use serde::{Deserialize, Serialize};

/// The most fires that may wait for the end of a run.
pub(super) const QUEUE_MAX: u32 = 100;
/// The most concurrent runs of one job: all of them are in one entry.
pub(super) const CONCURRENT_RUNS_MAX: u32 = 64;

/// What becomes of fires that come due while a run of their job executes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// They are late when it has ended, and the misfire settings apply.
    #[default]
    Forbid,
    /// None of them runs.
    Skip,
    /// The latest of them run after it, up to so many.
    Queue(u32),
    /// The run is ended in favour of the latest of them.
    Replace,
    /// They run beside it, each on time, as long as fewer than 64 runs execute.
    Allow,
    /// They run beside it as long as fewer runs than this execute; others wait as under `Forbid`.
    Limit(u32),
}

impl Overlap {
    /// How many of them may wait; `None` where the misfire settings alone decide.
    #[must_use]
    pub fn queue_limit(self) -> Option<usize> {
        match self {
            Self::Skip => Some(0),
            Self::Queue(n) => Some(n as usize),
            Self::Forbid | Self::Replace | Self::Allow | Self::Limit(_) => None,
        }
    }

    /// How many runs may execute at once.
    #[must_use]
    pub fn max_concurrent_runs(self) -> usize {
        match self {
            Self::Forbid | Self::Skip | Self::Queue(_) | Self::Replace => 1,
            Self::Allow => CONCURRENT_RUNS_MAX as usize,
            Self::Limit(n) => n as usize,
        }
    }
}
