//! Starts, cancels and confirms the planned runs that this node accepted.

use alloc::format;
use alloc::string::String;

use super::{DispatchedRuns, START_WINDOW, is_admitted, is_misdated, is_within_pace, run_of};

use crate::commit_kind::CommitKind;
use crate::effect::{Event, Run};
use crate::local::CommitScope;
use crate::overlap::SUPERSEDED;
use crate::record::{Planned, PlannerKind};
use crate::rule_context::{RuleAction, RuleOutput};
use crate::time::Wall;

impl DispatchedRuns<'_> {
    /// Starts accepted runs within a second of their moment; later ones are confirmed first.
    pub(super) fn start_all(&self, out: &mut RuleOutput) {
        let local = self.ctx.local;
        if local.put_off.contains_key(&self.job.id) {
            return;
        }
        let mut going = local.given_of(self.job.id).count();
        let given = |run: &Planned| local.given_to(self.job.id, &self.id(run)).is_some();
        for (run, from) in self.own_runs().filter(|run| !given(run)).filter_map(|run| Some((run, run.from?)))
        {
            let before = out.actions.len();
            if going < self.job.max_concurrent_runs() {
                self.start(run, from, out);
            }
            if out.commits_since(before, &CommitScope::Job(self.job.id)) {
                return;
            }
            going += out.starts_since(before);
        }
    }

    pub(super) fn start(&self, run: &Planned, from: Wall, out: &mut RuleOutput) {
        let ctx = self.ctx;
        if self.is_superseded(run, out) {
            return self.cancel(run, out);
        }
        let now = ctx.now;
        let misdated = is_misdated(from, self.moment(run), now.wall);
        if now.wall < from && !misdated {
            return out.add(RuleAction::JobAt(self.job.id, from));
        }
        if !ctx.clock_agrees() {
            out.add(RuleAction::Announce(Event::ClockDiffers(ctx.local.settings.max_clock_skew)));
            return out.add(RuleAction::JobAwaitsTrust(self.job.id));
        }
        let spec = self.job.spec();
        if !is_admitted(ctx, self.job.id, (spec.as_ref(), &self.id(run), run.due), out) {
            return;
        }
        let latest = from + START_WINDOW;
        if now.wall > latest || misdated {
            return self.confirm(run, now.wall, out);
        }
        if let Some(spec) = spec {
            let not_after = ctx.lease.until().min(now.mono + (latest - now.wall));
            let sent = self.sent(run);
            let declared = (&spec.job, run.began().unwrap_or(from));
            let run = run_of(ctx, self.id(run), run.due, (run.attempt, run.seq), declared, not_after);
            out.add(RuleAction::Start(self.job.id, Run { sent, ..run }));
        }
    }

    /// The planner of a run, and why it chose this node: the plan forgets both when the run is over.
    pub(super) fn sent(&self, run: &Planned) -> String {
        let Some(planner) = &self.draft.planner else { return String::new() };
        let right = match self.ctx.view.settings().planner {
            PlannerKind::Beat => "in beat",
            PlannerKind::Leader => "by epoch",
        };
        let planned = format!("planned by {} {right} {}", planner.member, planner.number);
        format!("{planned}: {}", run.choice())
    }

    /// Removes an accepted run that has not started from the plan, in favour of a later fire.
    pub(super) fn cancel(&self, run: &Planned, out: &mut RuleOutput) {
        let (ctx, job, terms, plan) = (self.ctx, self.job, self.terms, self.plan);
        let mut writer =
            DispatchedRuns { ctx, job, terms, plan, draft: self.draft.clone(), kind: None, next: None };
        writer.draft.runs.retain(|other| other.fire != run.fire);
        writer.give_up(run, SUPERSEDED);
        writer.commit(CommitKind::GiveUp, out);
    }

    pub(super) fn confirm(&self, run: &Planned, now: Wall, out: &mut RuleOutput) {
        if !is_within_pace(self.ctx.local, out) {
            return out.add(RuleAction::JobAfter(
                self.job.id,
                self.ctx.now.mono + crate::rules::firing::PACE_AGAIN,
            ));
        }
        let mut draft = self.draft.clone();
        if let Some(mine) = draft.runs.iter_mut().find(|r| r.fire == run.fire) {
            mine.from = Some(now.max(self.moment(run)));
        }
        let (ctx, job, terms, plan) = (self.ctx, self.job, self.terms, self.plan);
        DispatchedRuns { ctx, job, terms, plan, draft, kind: None, next: None }
            .commit(CommitKind::Confirm, out);
    }
}
