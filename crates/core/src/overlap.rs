//! Overlap: which fires are skipped that come due while a run of their job executes, computed from times alone.

use serde::{Deserialize, Serialize};

use crate::due::FireSource;
use crate::schedule::Schedule;
use crate::time::{Millis, Wall};

/// The reason in the history for fires that do not queue.
pub(crate) const STILL_RUNNING: &str = "came due while the run before was going on";
/// … and for fires and runs that were replaced.
pub(crate) const SUPERSEDED: &str = "a later fire took its place";

/// A span of skipped fires, which came due while a run executed. Older ones may still be waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SkippedSpan {
    /// They were due after this moment.
    pub after: Wall,
    /// When the last of them was due.
    pub until: Wall,
}

impl SkippedSpan {
    /// Whether the fire of this moment is one of them.
    #[must_use]
    pub fn contains(self, due: Wall) -> bool {
        self.after < due && due <= self.until
    }
}

/// First and last of the fires in `(began, now]`, during a run, that do not queue: all but the latest `keep`.
#[must_use]
pub fn surplus(fires: &impl FireSource, (began, now): (Wall, Wall), keep: usize) -> Option<(Wall, Wall)> {
    let mut last = fires.latest(began, now);
    for _ in 0..keep {
        last = last.and_then(|due| fires.latest(began, due - Millis(1)));
    }
    last.map(|last| (fires.next(began).unwrap_or(last), last))
}

/// A schedule without the skipped fires.
#[derive(Clone, Copy, Debug)]
pub struct EffectiveSchedule<'a> {
    /// The schedule.
    pub schedule: &'a Schedule,
    /// The skipped spans.
    pub skipped: &'a [SkippedSpan],
}

impl EffectiveSchedule<'_> {
    fn skipped_span(&self, due: Wall) -> Option<&SkippedSpan> {
        self.skipped.iter().find(|passed| passed.contains(due))
    }
}

impl FireSource for EffectiveSchedule<'_> {
    fn next(&self, after: Wall) -> Option<Wall> {
        let mut due = self.schedule.next(after)?;
        while let Some(passed) = self.skipped_span(due) {
            due = self.schedule.next(passed.until)?;
        }
        Some(due)
    }

    fn latest(&self, after: Wall, until: Wall) -> Option<Wall> {
        let mut due = self.schedule.latest(after, until)?;
        while let Some(passed) = self.skipped_span(due) {
            due = self.schedule.latest(after, passed.after)?;
        }
        Some(due)
    }
}
