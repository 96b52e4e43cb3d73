//! Accepting: a node takes a run planned for it, shortly before it is due, when no other run of the job goes first.

use alloc::vec::Vec;

use super::{DispatchedRuns, may_accept};
use crate::commit_kind::CommitKind;
use crate::eligibility;
use crate::ids::{Fire, Member};
use crate::lifecycle::{free_slots, is_within_pace};
use crate::local::OfferState;
use crate::record::{Attempt, PlannedNode};
use crate::rule_context::{RuleAction, RuleOutput};
use crate::time::{Millis, Wall};

/// How often a due run that another one of its job holds up checks whether that has ended.
const LOOK_AGAIN: Millis = Millis::secs(1);
/// How soon it checks before it is due: what is known of the others' runs is as old as the last offer.
const LOOK_AHEAD: Millis = Millis(100);
/// How long an earlier run of the job, which waits for a slot on some node, is let go first.
const PATIENCE: Millis = Millis::secs(1);

/// Whether this run counts against the overlap limit for `next`. A run that has begun goes on first.
fn holds_back(run: &Attempt, next: &Attempt) -> bool {
    run.is_claimed() || (run.wait.is_some() && next.attempt == 1)
}

impl DispatchedRuns<'_> {
    /// Accepts the run that is due next, or schedules the next look for when that may be done.
    pub(super) fn accept(&mut self, out: &mut RuleOutput) {
        let ctx = self.ctx();
        let Some(run) = self.candidate(out) else { return };
        if self.runs.terms.is_none_or(|terms| !terms.enabled || self.is_dropped_when_due(terms, &run)) {
            // Once it is due it is dropped, or the pause is over.
            if run.due > ctx.now.wall {
                out.add(RuleAction::JobAt(self.runs.job.id, run.due));
            }
            return;
        }
        let begins = run.attempt == 1 && matches!(run.fire, Fire::Due(_));
        if !ctx.takes(&self.runs.job) || (begins && !self.runs.may_claim_due(self.draft.failures)) {
            return;
        }
        let now = ctx.now.wall;
        if let Some(again) = self.attempt_before(&run) {
            return out.add(again);
        }
        let from = self.spread_start(&run);
        if !ctx.may_claim_before(from) {
            let policy = self.runs.terms.map(|terms| ctx.policy(terms));
            let schedule = self.runs.terms.and_then(|terms| terms.schedule.as_ref());
            let other =
                policy.zip(schedule).and_then(|(p, schedule)| p.spread_changes_at(schedule, run.due, now));
            return ctx.looks_before_fire(self.runs.job.id, from, other, out);
        }
        if self.is_behind_others(&run, out) {
            return;
        }
        if !self.runs.clock_agrees(out) || !self.runs.trusts_until(from, out) {
            return;
        }
        let is_full = free_slots(ctx.view, ctx.local) <= out.claimed;
        if is_full || !is_within_pace(ctx.local, out) {
            out.add(ctx.awaits_slot(&self.runs.job, self.runs.wanted_since(&run)));
            if is_full && run.by == *ctx.member {
                self.offer_elsewhere(&run, from, out);
            }
            return;
        }
        out.claim(ctx.view, self.runs.job.id, CommitKind::Accept);
        if let Some(wait) = run.wait {
            self.make_way((wait.since(), ctx.now.mono));
        }
        let seq = self.draft.seq + 1;
        if let Some(mine) = self.draft.runs.iter_mut().find(|r| r.fire == run.fire) {
            let planned_for = (run.by != *ctx.member).then(|| run.by.clone());
            let choice = Some(PlannedNode { free: run.free(), planned_for }.into());
            let (by, from) = (ctx.member.clone(), Some(from.max(now)));
            *mine = Attempt { by, choice, seq, from, wait: None, ..run.clone() };
        }
        if let Fire::Due(due) = run.fire {
            self.draft.reached = self.draft.reached.max(due);
            let reached = self.draft.reached;
            self.draft.passed.retain(|passed| passed.until > reached);
        }
        // It outweighs the rest: waits for slots count it.
        self.kind = Some(CommitKind::Accept);
    }

    /// When to look again at a run that another run's next attempt precedes: a run goes on until its last attempt, and
    /// until then no other one of the job begins.
    fn attempt_before(&self, run: &Attempt) -> Option<RuleAction> {
        let now = self.ctx().now.wall;
        let waits = |other: &&Attempt| {
            other.fire == run.fire || (run.attempt == 1 && self.runs.job.max_concurrent_runs() == 1)
        };
        let wait = self.draft.runs.iter().filter(waits).find_map(|other| other.wait)?;
        match wait.left(now) {
            Some(until) => Some(RuleAction::JobAt(self.runs.job.id, until)),
            None => (run.attempt == 1).then(|| self.reread_at(now + LOOK_AGAIN)),
        }
    }

    /// Whether a run that this node accepted beside others has not begun; no other is accepted before it has.
    fn is_unstarted(&self) -> bool {
        let given = |run: &Attempt| self.ctx().local.runs.get(self.runs.job.id, &self.runs.id(run)).is_some();
        self.runs.job.max_concurrent_runs() > 1 && self.own_runs().any(|run| run.is_claimed() && !given(run))
    }

    /// Offers a due run that this node has no slot for to one node after the other, the least loaded first: a node that
    /// has a slot takes it. It waits until a plan that must be read again is read.
    fn offer_elsewhere(&self, run: &Attempt, from: Wall, out: &mut RuleOutput) {
        let (ctx, now) = (self.ctx(), self.ctx().now.wall);
        if now < from {
            return out.add(RuleAction::JobAt(self.runs.job.id, from));
        }
        let offers = &ctx.local.offers;
        if offers.reread_at(self.runs.job.id).is_some() || ctx.local.reads.is_reading(self.runs.job.id) {
            return;
        }
        let sent = offers.sent(self.runs.job.id, &run.fire);
        let elsewhere = sent.filter(|sent| sent.to != *ctx.member);
        if elsewhere.is_some_and(|sent| matches!(sent.state, OfferState::Asked | OfferState::Taken)) {
            return;
        }
        if !ctx.knows_loads(self.plan.as_of) {
            return out.add(RuleAction::ReadLoads(Some(self.runs.job.id)));
        }
        let busy = sent.map(|sent| sent.busy.as_slice()).unwrap_or_default();
        let beat = ctx.view.settings().beat_of(now);
        let may_take = |member: &&Member| {
            *member != ctx.member
                && self.runs.job.fits(member)
                && !busy.contains(member)
                && !ctx.local.peers.is_unreachable(member, beat)
                && ctx.view.member(member).is_some_and(|state| !state.info.address.is_empty())
        };
        let others = eligibility::candidates(ctx).into_iter().filter(may_take);
        if let Some(to) =
            others.min_by_key(|member| ctx.view.score(member)).filter(|_| eligibility::has_address(ctx))
        {
            out.add(RuleAction::Offer(self.runs.job.id, self.runs.id(run), to.clone(), false));
        }
    }

    /// The run that is to be accepted next. A run that has begun goes on first.
    fn candidate(&self, out: &mut RuleOutput) -> Option<Attempt> {
        let order = |run: &&Attempt| (run.attempt == 1, self.runs.moment(run));
        let may_accept = |run: &&Attempt| !run.is_claimed() && may_accept(self.ctx(), self.runs.job.id, run);
        let mut open: Vec<&Attempt> = self.draft.runs.iter().filter(may_accept).collect();
        if self.runs.job.max_concurrent_runs() > 1 {
            // A run that waits for its next attempt delays no other one.
            let until = |run: &Attempt| run.wait.and_then(|wait| wait.left(self.ctx().now.wall));
            let moments = open.iter().filter_map(|run| until(run));
            out.actions.extend(moments.map(|at| RuleAction::JobAt(self.runs.job.id, at)));
            open.retain(|run| until(run).is_none());
        }
        open.into_iter().min_by_key(order).cloned()
    }

    /// Whether others of the job go before this run, now that it is due; then schedules the next look.
    fn is_behind_others(&self, run: &Attempt, out: &mut RuleOutput) -> bool {
        let (now, moment) = (self.ctx().now.wall, self.runs.moment(run));
        if self.is_unstarted() {
            return true;
        }
        let held = self.draft.runs.iter().filter(|other| holds_back(other, run)).count();
        if held >= self.runs.job.max_concurrent_runs() {
            // Of several the end of any makes room, and other nodes' ends are not reported for certain.
            if self.runs.job.max_concurrent_runs() > 1 || !self.own_runs().any(Attempt::is_claimed) {
                let soon = if now < moment { LOOK_AHEAD } else { LOOK_AGAIN };
                out.add(self.reread_at(now + soon));
            }
            return true;
        }
        let alive = |run: &&Attempt| self.ctx().view.member(&run.by).is_some();
        let goes_before = |other: &&Attempt| {
            self.runs.moment(other) < moment && other.by != run.by && !holds_back(other, run)
        };
        let ahead = self.draft.runs.iter().filter(alive).filter(goes_before).count();
        let earlier = held + ahead >= self.runs.job.max_concurrent_runs();
        // The node that closed a run would take the next one each time, and runs that wait elsewhere would never start.
        let turn = self.draft.freed.map_or(moment, |freed| moment.max(freed)) + PATIENCE;
        if earlier && now < turn {
            // Once it is due, a run triggered by a clock ahead of ours is no earlier any more.
            let own = if now < moment { moment } else { turn };
            out.add(self.reread_at((now + LOOK_AHEAD).min(own)));
        }
        earlier && now < turn
    }

    /// When it may start: at its moment, or at the job's moment in the spread when it is caught up.
    fn spread_start(&self, run: &Attempt) -> Wall {
        let now = self.ctx().now.wall;
        if run.wait.is_some() {
            return now;
        }
        let first = run.attempt == 1 && matches!(run.fire, Fire::Due(_));
        let terms = self.runs.terms.filter(|_| first && self.ctx().clock_agrees());
        let turn = terms.and_then(|terms| {
            Some(self.ctx().policy(terms).spread_start(terms.schedule.as_ref()?, run.due, now))
        });
        turn.unwrap_or_else(|| self.runs.moment(run))
    }

    /// Has the plan read again at this moment, and not in this one.
    fn reread_at(&self, at: Wall) -> RuleAction {
        RuleAction::Reread(self.runs.job.id, at.max(self.ctx().now.wall + Millis(1)))
    }
}
