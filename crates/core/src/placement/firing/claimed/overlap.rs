//! Overlap of a claimed job: the commit that closes a run skips the fires that came due meanwhile and do not queue.

use core::iter::successors;

use super::ClaimedRuns;
use crate::due::FireSource;
use crate::lifecycle::{missed, time_of};
use crate::overlap::{EffectiveSchedule, STILL_RUNNING, SkippedSpan, surplus};
use crate::record::{Attempt, RunState};
use crate::time::{Mono, Wall};

impl ClaimedRuns<'_> {
    /// Skips the fires that came due while a run executed, from a moment that was `began` to one that was `over`, and
    /// do not queue.
    pub(super) fn make_way(&self, run_state: &mut RunState, (began, over): (Wall, Mono)) {
        let Some(terms) = self.runs.terms.filter(|terms| !terms.paused) else { return };
        let Some((schedule, keep)) = terms.schedule.as_ref().zip(terms.misfire().overlap.queue_limit())
        else {
            return;
        };
        let Some(over) = time_of(self.ctx(), over) else { return };
        let timetable = EffectiveSchedule { schedule, skipped: &run_state.passed };
        let floor = run_state.watermark.max(terms.since);
        let began = began.max(floor);
        // No run was in the way of a fire that was due before this one began; but it waits as well.
        let next = |due: &Wall| timetable.next(*due).filter(|due| *due <= began);
        let waiting = successors(next(&floor), next).take(keep.max(1)).count();
        let skipped = surplus(&timetable, (began, over), keep.saturating_sub(waiting));
        if let Some((from, last)) = skipped {
            let reason = missed(from, last, STILL_RUNNING);
            run_state.verdicts.extend(self.runs.skipped((from, last), &Attempt::single(), reason));
            match waiting {
                0 => run_state.watermark = last,
                _ => run_state.passed.push(SkippedSpan { after: began, until: last }),
            }
        }
        let watermark = run_state.watermark;
        run_state.passed.retain(|passed| passed.until > watermark);
    }
}
