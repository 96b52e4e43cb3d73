//! Overlap: a run that executes while further fires of its job come due.
//!
//! One run of a job executes at a time, unless runs may overlap. Where not all fires queue for its end, the commit that
//! closes it skips the others; where the job replaces runs, the run is ended as soon as the next fire is due.

use core::iter::successors;

use super::dispatched;
use super::{ClaimedRuns, START_WINDOW};
use crate::commit_kind::CommitKind;
use crate::due::FireSource;
use crate::effect::StopReason;
use crate::ids::Fire;
use crate::job::Overlap;
use crate::local::Given;
use crate::overlap::{EffectiveSchedule, STILL_RUNNING, SUPERSEDED, SkippedSpan, surplus};
use crate::record::{Open, Planned, RunState};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::rules::dispatch::missed;
use crate::time::{Millis, Mono, Wall};
use crate::view::{JobId, JobTerms};

/// The wall-clock time up to which fires have come due; `None` when it is unknown.
pub(super) fn time_of(ctx: &RuleContext<'_>, moment: Mono) -> Option<Wall> {
    let agrees = ctx.clock_agrees().then_some(ctx.now.wall);
    let now = agrees.or_else(|| ctx.local.lease.registry_time(ctx.now))?;
    Some(now - (ctx.now.mono - moment))
}

/// Ends a run that is to be replaced once the next fire is due.
fn end_for_next(
    ctx: &RuleContext<'_>,
    id: JobId,
    terms: Option<&JobTerms>,
    (given, last): (&Given, Wall),
    out: &mut RuleOutput,
) {
    match next_one(ctx, terms, last) {
        Some(due) if due <= ctx.now.wall => {
            out.add(RuleAction::Stop(id, given.run.clone(), StopReason::Replaced));
        }
        Some(due) => out.add(RuleAction::JobAt(id, due)),
        None => {}
    }
}

/// The fire after `last` that replaces a run; `None` where the job does not replace runs.
fn next_one(ctx: &RuleContext<'_>, terms: Option<&JobTerms>, last: Wall) -> Option<Wall> {
    let terms =
        terms.filter(|terms| terms.misfire.overlap == Overlap::Replace && terms.enabled && !terms.paused)?;
    ctx.clock_agrees().then(|| terms.schedule.as_ref()?.next(last.max(terms.since)))?
}

/// The moment after which the next fire replaces a run. A manual run may first start late before it is replaced.
fn last_before(fire: &Fire, due: Wall, from: Option<Wall>) -> Wall {
    match fire {
        Fire::Due(due) => *due,
        Fire::Asked(_) => from.unwrap_or(due) + START_WINDOW,
    }
}

impl ClaimedRuns<'_> {
    /// The wall-clock time at a moment of our own clock; `None` when it is unknown.
    pub(super) fn time_of(&self, moment: Mono) -> Option<Wall> {
        time_of(self.ctx, moment)
    }

    fn last(&self, open: &Open) -> Wall {
        last_before(&open.fire, open.due, Some(open.from)).max(self.run_state().watermark)
    }

    /// Skips the fires that came due while a run executed, from a moment that was `began` to one that was `over`, and
    /// do not queue.
    pub(super) fn make_way(&self, run_state: &mut RunState, (began, over): (Wall, Mono)) {
        let Some(terms) = self.held.terms.as_deref().filter(|terms| !terms.paused) else { return };
        let Some((schedule, keep)) = terms.schedule.as_ref().zip(terms.misfire.overlap.queue_limit()) else {
            return;
        };
        let Some(over) = time_of(self.ctx, over) else { return };
        let timetable = EffectiveSchedule { schedule, skipped: &run_state.passed };
        let floor = run_state.watermark.max(terms.since);
        let began = began.max(floor);
        // No run was in the way of a fire that was due before this one began; but it waits as well.
        let next = |due: &Wall| timetable.next(*due).filter(|due| *due <= began);
        let waiting = successors(next(&floor), next).take(keep.max(1)).count();
        let skipped = surplus(&timetable, (began, over), keep.saturating_sub(waiting));
        if let Some((from, last)) = skipped {
            run_state.verdicts.push(self.skipped((from, last), missed(from, last, STILL_RUNNING)));
            match waiting {
                0 => run_state.watermark = last,
                _ => run_state.passed.push(SkippedSpan { after: began, until: last }),
            }
        }
        let watermark = run_state.watermark;
        run_state.passed.retain(|passed| passed.until > watermark);
    }

    /// Ends a running run for a later fire, where the job says so.
    pub(super) fn give_way(&self, open: &Open, given: &Given, out: &mut RuleOutput) {
        let last = self.last(open);
        end_for_next(self.ctx, self.job.id, self.held.terms.as_deref(), (given, last), out);
    }

    /// Whether an attempt that is not made yet is replaced; if it may be later, the job is looked at then.
    pub(super) fn is_superseded(&self, open: &Open, out: &mut RuleOutput) -> bool {
        let next = next_one(self.ctx, self.held.terms.as_deref(), self.last(open));
        let at = next.filter(|due| *due > self.ctx.now.wall);
        out.actions.extend(at.map(|at| RuleAction::JobAt(self.job.id, at)));
        next.is_some() && at.is_none()
    }
}

impl dispatched::DispatchedRuns<'_> {
    /// Whether an attempt that is not made yet is replaced; if it may be later, the job is looked at then.
    pub(super) fn is_superseded(&self, run: &Planned, out: &mut RuleOutput) -> bool {
        let next = next_one(self.ctx, self.terms, last_before(&run.fire, run.due, run.from));
        let at = next.filter(|due| *due > self.ctx.now.wall);
        out.actions.extend(at.map(|at| RuleAction::JobAt(self.job.id, at)));
        next.is_some() && at.is_none()
    }

    /// Skips the fires that came due while a run executed, from a moment that was `began` to one that was `over`, and
    /// do not queue.
    pub(super) fn make_way(&mut self, (began, over): (Wall, Mono)) {
        let Some(terms) = self.terms.filter(|terms| !terms.paused) else { return };
        let Some((schedule, keep)) = terms.schedule.as_ref().zip(terms.misfire.overlap.queue_limit()) else {
            return;
        };
        let Some(over) = time_of(self.ctx, over) else { return };
        let waits =
            |run: &Planned| matches!(run.fire, Fire::Due(_)) && !run.is_accepted() && run.attempt == 1;
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
        let goes = |run: &mut Planned| waits(run) && from <= run.due && run.due <= last;
        let planned = self.draft.runs.extract_if(.., goes).map(|run| (run.due, run.due));
        let span = |one: (Wall, Wall), other: (Wall, Wall)| (one.0.min(other.0), one.1.max(other.1));
        if let Some((from, last)) = planned.chain(unplanned).reduce(span) {
            let verdict = self.skipped((from, last), missed(from, last, STILL_RUNNING));
            self.draft.verdicts.push(verdict);
        }
    }

    /// Replaces a waiting attempt by a later fire, where the job says so.
    pub(super) fn drop_superseded(&mut self, out: &mut RuleOutput) {
        let (ctx, terms, id) = (self.ctx, self.terms, self.job.id);
        let waits = |run: &Planned| run.wait.is_some() && run.by == *ctx.member;
        let Some(at) = self.draft.runs.iter().position(waits) else { return };
        let run = &self.draft.runs[at];
        match next_one(ctx, terms, last_before(&run.fire, run.due, run.from)) {
            Some(due) if due <= ctx.now.wall => {
                let run = self.draft.runs.remove(at);
                self.give_up(&run, SUPERSEDED);
                self.set_kind(CommitKind::GiveUp);
            }
            Some(due) => out.add(RuleAction::JobAt(id, due)),
            None => {}
        }
    }

    /// Ends a running run for a later fire, where the job says so.
    pub(super) fn give_way(&self, out: &mut RuleOutput) {
        let ctx = self.ctx;
        for (_, given) in ctx.local.given_of(self.job.id).filter(|(_, g)| g.ended.is_none() && !g.stopping) {
            let open = self.draft.runs.iter().find(|run| run.is_accepted() && run.fire == given.run.fire);
            if let Some(open) = open.filter(|run| run.by == *ctx.member && run.attempt == given.attempt) {
                end_for_next(
                    ctx,
                    self.job.id,
                    self.terms,
                    (given, last_before(&open.fire, open.due, open.from)),
                    out,
                );
            }
        }
    }
}
