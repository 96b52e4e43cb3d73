//! Overlap: which of the fires that come due while a run of their job goes on are nobody's, as a pure function of times.

use serde::{Deserialize, Serialize};

use crate::due::FireSource;
use crate::schedule::Schedule;
use crate::time::{Millis, Wall};

/// What history is told of fires that were not to wait.
pub(crate) const STILL_RUNNING: &str = "came due while the run before was going on";
/// … and of fires and runs that gave way.
pub(crate) const SUPERSEDED: &str = "a later fire took its place";

/// Fires that came due while a run went on and that nobody will run. Older ones may still be waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SkippedSpan {
    /// They were due after this moment.
    pub after: Wall,
    /// When the last of them was due.
    pub until: Wall,
}

impl SkippedSpan {
    /// Whether a fire of this moment is one of them.
    #[must_use]
    pub fn contains(self, due: Wall) -> bool {
        self.after < due && due <= self.until
    }
}

/// First and last of the fires in `(began, now]`, in which a run went on, that are not to wait: all but the latest `keep`.
#[must_use]
pub fn surplus(fires: &impl FireSource, (began, now): (Wall, Wall), keep: usize) -> Option<(Wall, Wall)> {
    let mut last = fires.latest(began, now);
    for _ in 0..keep {
        last = last.and_then(|due| fires.latest(began, due - Millis(1)));
    }
    last.map(|last| (fires.next(began).unwrap_or(last), last))
}

/// A schedule without the fires that are nobody's.
#[derive(Clone, Copy, Debug)]
pub struct EffectiveSchedule<'a> {
    /// The schedule.
    pub schedule: &'a Schedule,
    /// What of it is nobody's.
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
