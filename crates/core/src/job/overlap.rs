//! Overlap as declared: what becomes of fires that come due while a run of their job goes on.

use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use super::{CatchUp, Job, Placement};

/// The most fires that may wait for the end of a run.
const QUEUE_MAX: u32 = 100;

/// What becomes of fires that come due while a run of their job goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// They are late when it has ended, and go as late fires do.
    #[default]
    Forbid,
    /// None of them runs.
    Skip,
    /// The latest of them run after it, up to so many.
    Queue(u32),
    /// The run is ended in favour of the latest of them.
    Replace,
}

impl Overlap {
    /// How many of them may wait; `None` where their lateness alone decides.
    #[must_use]
    pub fn keeps(self) -> Option<usize> {
        match self {
            Self::Skip => Some(0),
            Self::Queue(n) => Some(n as usize),
            Self::Forbid | Self::Replace => None,
        }
    }
}

impl Job {
    pub(super) fn validate_overlap(&self) -> Result<(), String> {
        if self.overlap != Overlap::Forbid && self.placement == Placement::Sharded {
            return Err(
                "overlap is for jobs that are not sharded: leave it out; what a shard misses while it \
                        runs is settled as catch_up says"
                    .into(),
            );
        }
        match self.overlap {
            Overlap::Queue(n) if n == 0 || n > QUEUE_MAX => {
                Err(format!("overlap.queue is {n}, allowed are 1 to {QUEUE_MAX}; \"skip\" lets nothing wait"))
            }
            Overlap::Queue(n) if self.catch_up != CatchUp::Latest => {
                Err(format!("overlap.queue says already that the latest {n} are made up: leave catch_up out"))
            }
            _ => Ok(()),
        }
    }
}
