//! The overlap setting: what becomes of fires that come due while a run of their job executes.

use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

use super::{CatchUp, Job, Notify, Placement};

/// The most fires that may wait for the end of a run.
const QUEUE_MAX: u32 = 100;
/// The most concurrent runs of one job: all of them are in one entry.
const CONCURRENT_RUNS_MAX: u32 = 64;

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

impl Job {
    /// Refuses combinations that fires counted from the end of the run before do not allow.
    pub(super) fn validate_follows_runs(&self) -> Result<(), String> {
        if !self.schedule().ok().flatten().is_some_and(|schedule| schedule.follows_runs()) {
            return Ok(());
        }
        if self.placement != Placement::Claimed {
            return Err(
                "`@after` counts from the runs that one node sees: set placement = \"claimed\"".into()
            );
        }
        if self.calendars().next().is_some() {
            return Err(
                "exclude_calendars and require_calendars leave moments of the clock out, and `@after` has none: leave them out"
                    .into(),
            );
        }
        if self.overlap != Overlap::Forbid {
            return Err(
                "no fire comes due while the run before goes on, as `@after` says: leave overlap out".into(),
            );
        }
        let limited = |notify: &Notify| !notify.late_after.is_empty() || !notify.absent_after.is_empty();
        if self.notify.as_deref().is_some_and(limited) {
            return Err(
                "notify.late_after and absent_after count from moments of the clock, and `@after` has \
                        none: leave them out"
                    .into(),
            );
        }
        Ok(())
    }

    pub(super) fn validate_overlap(&self) -> Result<(), String> {
        if self.overlap != Overlap::Forbid && self.placement.is_sharded() {
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
            Overlap::Limit(n) if !(2..=CONCURRENT_RUNS_MAX).contains(&n) => Err(format!(
                "overlap.limit is {n}, allowed are 2 to {CONCURRENT_RUNS_MAX}; one at a time is \"forbid\""
            )),
            _ => Ok(()),
        }
    }
}
