//! The waits of a claimed job's runs: between two attempts, and for a node that fits.

use super::ClaimedRuns;
use crate::commit_kind::CommitKind;
use crate::lifecycle::{self, StartReadiness};
use crate::overlap::SUPERSEDED;
use crate::record::{Attempt, RetryWait, RunState};
use crate::rule_context::RuleOutput;
use crate::time::{Millis, Mono, Wall};

impl ClaimedRuns<'_> {
    /// Keeps a failed run that is to be attempted again open, without a slot.
    pub(super) fn wait_for_retry(
        &self,
        mut run_state: RunState,
        span: (Wall, Mono),
        next: Attempt,
        out: &mut RuleOutput,
    ) {
        self.make_way(&mut run_state, span);
        run_state.put_open(next);
        self.commit(CommitKind::WaitForRetry, run_state, out);
    }

    /// Waits for the moment of the next attempt, and claims it.
    pub(super) fn await_retry(&self, attempt: &Attempt, wait: RetryWait, out: &mut RuleOutput) {
        let (ctx, runs) = (self.ctx(), &self.runs);
        if let Some(why) = runs.no_retry_reason(attempt, ctx.now.wall) {
            return self.give_up(attempt, &why, out);
        }
        if runs.is_replaced(attempt, self.watermark(), out) {
            return self.give_up(attempt, SUPERSEDED, out);
        }
        if runs.readiness(attempt, out) == StartReadiness::NotYet
            || !ctx.takes(&runs.job)
            || !runs.has_slot(attempt.due, out)
        {
            return;
        }
        let mut run_state = self.next_run_state();
        self.stop_waiting(&mut run_state, wait);
        run_state.put_open(runs.confirmed(attempt, run_state.seq));
        self.commit(CommitKind::Retry, run_state, out);
        out.claim(ctx.view, runs.job.id, CommitKind::Retry);
    }

    /// Makes a claimed run that may not start on this node wait for one on which it may, as between two attempts.
    pub(super) fn set_aside(&self, attempt: &Attempt, out: &mut RuleOutput) {
        let mut run_state = self.next_run_state();
        let wait = Some(lifecycle::wait_of(self.ctx(), Millis::ZERO));
        run_state.put_open(Attempt { wait, ..attempt.clone() });
        self.commit(CommitKind::SetAside, run_state, out);
    }

    /// Closes a run whose attempt will not be made, though the history expects it.
    pub(super) fn give_up(&self, attempt: &Attempt, why: &str, out: &mut RuleOutput) {
        let mut run_state = self.next_run_state();
        if let Some(wait) = attempt.wait {
            self.stop_waiting(&mut run_state, wait);
        }
        run_state.close(&attempt.fire);
        run_state.verdicts.push(self.runs.not_attempted(attempt, attempt.attempt, why));
        // Only now is the run over.
        self.count_from(&mut run_state, self.ctx().now.mono);
        self.commit(CommitKind::GiveUp, run_state, out);
    }

    /// A run that waited until now was in the way of fires that came due, as if it had executed. One that was only set
    /// aside was in no fire's way.
    fn stop_waiting(&self, run_state: &mut RunState, wait: RetryWait) {
        if wait.length > Millis::ZERO {
            self.make_way(run_state, (wait.since(), self.ctx().now.mono));
        }
    }
}
