//! Overlap of a dispatched job: the commit that closes a run skips the fires that came due meanwhile and do not queue.

use super::DispatchedRuns;
use crate::commit_kind::CommitKind;
use crate::due::FireSource;
use crate::ids::Fire;
use crate::lifecycle::{missed, time_of};
use crate::overlap::{EffectiveSchedule, STILL_RUNNING, SUPERSEDED, SkippedSpan, surplus};
use crate::record::Attempt;
use crate::rule_context::RuleOutput;
use crate::time::{Millis, Mono, Wall};

impl DispatchedRuns<'_> {
    /// Skips the fires that came due while a run executed, from a moment that was `began` to one that was `over`, and
    /// do not queue.
    pub(super) fn make_way(&mut self, (began, over): (Wall, Mono)) {
        let Some(terms) = self.runs.terms.filter(|terms| !terms.paused) else { return };
        let Some((schedule, keep)) = terms.schedule.as_ref().zip(terms.misfire().overlap.queue_limit())
        else {
            return;
        };
        let Some(over) = time_of(self.ctx(), over) else { return };
        let waits = |run: &Attempt| matches!(run.fire, Fire::Due(_)) && !run.is_claimed() && run.attempt == 1;
        let timetable = EffectiveSchedule { schedule, skipped: &self.draft.passed };
        let began = began.max(terms.since);
        let waiting = self.draft.runs.iter().filter(|run| waits(run) && run.due <= began).count();
        let (watermark, reached) = (self.draft.watermark, self.draft.reached);
        let skipped = surplus(&timetable, (began, over), keep.saturating_sub(waiting));
        let unplanned = skipped.and_then(|(from, _)| timetable.next(watermark.max(from - Millis(1))));
        self.draft.passed.retain(|passed| passed.until > reached);
        let Some((from, last)) = skipped else { return };
        self.draft.reached = self.draft.reached.max(last.min(watermark));
        if last > watermark {
            // The planner passes over the fires that it has not planned yet.
            self.draft.passed.push(SkippedSpan { after: began, until: last });
        }
        // Some may have grown too old before, and have their verdicts in the history.
        let unplanned = unplanned.filter(|due| *due <= last).map(|due| (due, last));
        let goes = |run: &mut Attempt| waits(run) && from <= run.due && run.due <= last;
        let planned = self.draft.runs.extract_if(.., goes).map(|run| (run.due, run.due));
        let span = |one: (Wall, Wall), other: (Wall, Wall)| (one.0.min(other.0), one.1.max(other.1));
        if let Some((from, last)) = planned.chain(unplanned).reduce(span) {
            let reason = missed(from, last, STILL_RUNNING);
            self.draft.verdicts.extend(self.runs.skipped((from, last), &Attempt::single(), reason));
        }
    }

    /// Replaces a waiting attempt by a later fire, where the job says so.
    pub(super) fn drop_replaced(&mut self, out: &mut RuleOutput) {
        let me = self.ctx().member;
        let waits = |run: &Attempt| run.wait.is_some() && run.by == *me;
        let Some(at) = self.draft.runs.iter().position(waits) else { return };
        if self.runs.is_replaced(&self.draft.runs[at], Wall::MIN, out) {
            let run = self.draft.runs.remove(at);
            self.give_up(&run, SUPERSEDED);
            self.set_kind(CommitKind::GiveUp);
        }
    }

    /// Ends a running run for a later fire, where the job says so.
    pub(super) fn give_way(&self, out: &mut RuleOutput) {
        let ctx = self.ctx();
        let given = ctx.local.runs.of_job(self.runs.job.id).map(|(_, given)| given);
        for given in given.filter(|given| given.ended.is_none() && !given.stopping) {
            let ours = |run: &&Attempt| {
                run.is_claimed()
                    && run.by == *ctx.member
                    && run.fire == given.run.fire
                    && run.attempt == given.attempt
            };
            if let Some(run) = self.draft.runs.iter().find(ours) {
                self.runs.give_way(run, given, Wall::MIN, out);
            }
        }
    }
}
