//! Retries of a claimed job: between two attempts its run stays open, and waits without a slot.
//!
//! A waiting run is never in doubt: after a takeover the new owner goes on waiting, whatever the job's delivery says.
//! The next attempt is claimed like a fire, in a commit of its own, when its moment has come.

use alloc::format;
use alloc::string::String;

use super::{ClaimedRuns, cancel};
use crate::commit_kind::CommitKind;
use crate::effect::{Verdict, VerdictState};
use crate::ids::RunId;
use crate::job::Job;
use crate::local::Given;
use crate::overlap::SUPERSEDED;
use crate::record::{Open, RetryWait};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::shards::ShardSet;
use crate::takeover;
use crate::time::{Millis, Mono, Wall};

/// The wait for the next attempt of a run that has ended; `None` when none follows.
pub(super) fn wait_after(given: &Given) -> Option<Millis> {
    let (ended, _) = given.ended?;
    given.retry.as_ref()?.delay_after(&given.run, given.attempt, ended)
}

/// A wait of this length that begins now. With a wrong clock its end would be unknown, so it goes by the registry's.
pub(super) fn wait_of(ctx: &RuleContext<'_>, length: Millis) -> RetryWait {
    RetryWait { until: ctx.moment() + length, length }
}

/// The verdict for the history, which expects another attempt: there will be none.
pub(crate) fn given_up(run: RunId, attempt: u32, due: Wall, node: &str, why: &str) -> Verdict {
    let reason = if attempt > 1 { format!("not attempted again: {why}") } else { String::from(why) };
    let shards = ShardSet::empty();
    Verdict {
        run,
        attempt,
        due,
        state: VerdictState::Skipped,
        reason,
        node: String::from(node),
        from: due,
        shards,
    }
}

impl ClaimedRuns<'_> {
    /// Keeps a failed run that is to be attempted again open, without a slot.
    pub(super) fn retry(
        &self,
        open: &Open,
        given: &Given,
        (length, over): (Millis, Mono),
        out: &mut RuleOutput,
    ) {
        let mut run_state = self.run_state();
        run_state.seq += 1;
        let wait = wait_of(self.ctx, length);
        let by_hand = cancel::cancel_reason(self.ctx.local, given);
        if let Some(why) = by_hand.or_else(|| self.no_retry_reason(open, wait.until)) {
            run_state.close(&open.fire);
            run_state.verdicts.push(self.given_up(open, open.attempt + 1, &why));
            self.make_way(&mut run_state, (open.from, over));
            self.count_from(&mut run_state, over);
            return self.commit(CommitKind::Finish, run_state, out);
        }
        self.make_way(&mut run_state, (open.from, over));
        let (attempt, began) = (open.attempt + 1, Some(open.began()));
        run_state.put_open(Open { attempt, from: wait.until, wait: Some(wait), began, ..open.clone() });
        self.commit(CommitKind::WaitForRetry, run_state, out);
    }

    /// Waits for the moment of the next attempt, and claims it.
    pub(super) fn await_retry(&self, open: &Open, wait: RetryWait, out: &mut RuleOutput) {
        let (ctx, now) = (self.ctx, self.ctx.now);
        if let Some(why) = self.no_retry_reason(open, now.wall) {
            return self.cancel(open, &why, out);
        }
        if self.is_superseded(open, out) {
            return self.cancel(open, SUPERSEDED, out);
        }
        if let Some(until) = wait.left(now.wall) {
            return out.add(RuleAction::JobAt(self.job.id, until));
        }
        if !ctx.takes(&self.job) {
            return;
        }
        if !self.clock_agrees(out) {
            return;
        }
        if !self.has_slot(open.due, out) {
            return;
        }
        let mut run_state = self.run_state();
        run_state.seq += 1;
        // A run that was only set aside was in no fire's way.
        if wait.length > Millis::ZERO {
            self.make_way(&mut run_state, (wait.since(), now.mono));
        }
        run_state.put_open(Open { from: now.wall, seq: run_state.seq, wait: None, ..open.clone() });
        self.commit(CommitKind::Retry, run_state, out);
        out.claim(ctx.view, self.job.id);
    }

    /// Makes a claimed run that may not start on this node wait for one on which it may, as between two attempts.
    pub(super) fn set_aside(&self, open: &Open, out: &mut RuleOutput) {
        let mut run_state = self.run_state();
        run_state.seq += 1;
        let wait = Some(wait_of(self.ctx, Millis::ZERO));
        run_state.put_open(Open { wait, ..open.clone() });
        self.commit(CommitKind::SetAside, run_state, out);
    }

    /// The verdict that this attempt will not be made, though the history expects it.
    pub(super) fn cancel(&self, open: &Open, why: &str, out: &mut RuleOutput) {
        let mut run_state = self.run_state();
        run_state.seq += 1;
        // It executed until now, in the way of fires that came due. A run that was only set aside was in no fire's way.
        if let Some(wait) = open.wait.filter(|wait| wait.length > Millis::ZERO) {
            self.make_way(&mut run_state, (wait.since(), self.ctx.now.mono));
        }
        run_state.close(&open.fire);
        run_state.verdicts.push(self.given_up(open, open.attempt, why));
        // Only now is the run over.
        self.count_from(&mut run_state, self.ctx.now.mono);
        self.commit(CommitKind::GiveUp, run_state, out);
    }

    /// Why no attempt follows, even if the history expects one.
    fn no_retry_reason(&self, open: &Open, at: Wall) -> Option<String> {
        match self.job.spec() {
            None => Some("its job was deleted".into()),
            Some(spec) if !spec.job.enabled => Some("its job was disabled".into()),
            Some(spec) => {
                let forgot = open.wait.and_then(|wait| self.ctx.forgot(spec.job.delivery, wait.since()));
                let begun = open.began.is_some() || open.wait.is_none();
                // With a wrong clock this is unknown.
                let over =
                    || spec.job.time_is_over(open.began(), at).filter(|_| begun && self.ctx.clock_agrees());
                forgot.map(String::from).or_else(over)
            }
        }
    }

    /// Why a claimed attempt is not made after all: the ones before took all the time of the run.
    pub(super) fn time_is_over(&self, declared: &Job, open: &Open) -> Option<String> {
        declared.time_is_over(open.began.filter(|_| open.attempt > 1)?, self.ctx.now.wall)
    }

    fn given_up(&self, open: &Open, attempt: u32, why: &str) -> Verdict {
        let run = takeover::run_id(&self.job, open);
        given_up(run, attempt, open.due, self.ctx.member.node.as_str(), why)
    }
}
