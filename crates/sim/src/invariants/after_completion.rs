//! Checks fires that are due a delay after the end of the previous run, by the physical ends.

use evenkeel_core::ids::{Fire, RunId};
use evenkeel_core::record::RunState;
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan, Wall};

use super::runs::UNNOTICED;
use super::tracks::FireClosure;
use super::{Invariant, InvariantResults, JobTrack};
use crate::world::clock::START;

impl JobTrack {
    /// The delay between the end of the previous run and a fire, if the job has one.
    pub(super) fn delay(&self) -> Option<Millis> {
        let text = self.spec.as_ref()?.job.rules().strip_prefix("@after ")?;
        let delay = TimeSpan::parse("@after", text, SpanLimits::SCHEDULE);
        delay.ok().map(TimeSpan::millis)
    }

    /// Whether a fire claimed from this watermark is due at its claimed time.
    pub(super) fn follows(&self, due: Wall, back: Wall) -> bool {
        let since = self.spec.as_ref().map_or(Wall::MAX, |spec| spec.since);
        let counted = self.schedule.as_ref().map(|schedule| schedule.counted_from(back.max(since)));
        counted.is_some_and(|schedule| schedule.next(due - Millis(1)) == Some(due))
    }

    /// If fires follow runs, the watermark moves to a fire that is claimed or skipped, or with the end of a run.
    pub(super) fn follows_to(&self, before: &RunState, after: &RunState, skipped: bool) -> bool {
        let to = after.watermark;
        let closed = before.open.iter().any(|open| after.open_of(&open.fire) != Some(open));
        to == before.watermark || closed || skipped || after.open_of(&Fire::Due(to)).is_some()
    }

    /// Checks at a fire's start that no run of the job ended less than the delay before.
    pub(super) fn follows_its_last(&self, at: i64, run: &RunId, findings: &mut InvariantResults) {
        let (Some(delay), Fire::Due(_)) = (self.delay(), &run.fire) else { return };
        let finished = self.fires.values().filter(|fire| fire.closed == Some(FireClosure::Finished));
        let ends = finished.filter_map(|fire| fire.attempts.values().next_back()?.over);
        // A later declaration applies only to later ends.
        let last = ends.filter(|over| *over > self.changed).max();
        let early = last.is_some_and(|over| at < over + delay.0 - UNNOTICED);
        findings.test(at, Invariant::I17, !early, || {
            format!("{run} began {:?} after an end at {last:?}", Wall(START.0 + at))
        });
    }
}
