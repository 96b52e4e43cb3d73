//! Firing of a claimed job: its owner claims its fires a little ahead, starts them on time, and closes them when they
//! end.
//!
//! A fire is claimed by moving the watermark past it in the same commit that names the node of the run, so it is
//! claimed at most once, by whichever node.

use crate::cluster::drain;
use crate::commit_kind::CommitKind;
use crate::ids::{Fire, Shard};
use crate::keys;
use crate::lifecycle::{
    self, ClaimSlot, Ending, JobRuns, MANUAL, PACE_AGAIN, StartReadiness, is_within_pace,
};
use crate::local::{CommitScope, Given};
use crate::overlap::SUPERSEDED;
use crate::placement::takeover;
use crate::record::{Attempt, RunState, TriggerRecord, TriggerRequest, encode};
use crate::registry::{Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::time::{Mono, Wall};
use crate::view::{JobView, KnownEntry};
use alloc::boxed::Box;

mod claim;
mod overlap;
mod retry;

/// Handles one job.
pub(super) fn decide(ctx: &RuleContext<'_>, job: &JobView<'_>, out: &mut RuleOutput) {
    if !ctx.holds(job) {
        return;
    }
    let Some(held) = job.held() else { return };
    let Some(known) = &held.run_state else {
        if !ctx.local.reads.is_reading(job.id) {
            out.add(RuleAction::Read(job.id, [keys::run_state(job.name())].into()));
        }
        return;
    };
    let writer = ClaimedRuns { runs: JobRuns::new(ctx, *job), known };
    lifecycle::hand_over(ctx, known.value.iter().flat_map(|run_state| &run_state.verdicts), out);
    if writer.cancel_trigger(out) {
        return;
    }
    let mut going = ctx.local.runs.of_job(job.id).count();
    for attempt in writer.open() {
        let before = out.actions.len();
        writer.attend(attempt, going, out);
        if out.commits_since(before, &CommitScope::Job(job.id)) {
            return;
        }
        going += out.starts_since(before);
    }
    writer.rest(out);
}

/// Whether a job that waits to claim a fire, due then, claims the same one when the next comes due: nothing is open that
/// the next could replace, and the fire is not too late yet.
pub(super) fn only_waits(ctx: &RuleContext<'_>, job: &JobView<'_>, due: Wall) -> bool {
    let known = job.held().and_then(|held| held.run_state.as_ref());
    let policy = job.job_terms().map(|terms| ctx.policy(terms));
    known.is_some_and(|known| known.value.as_ref().is_none_or(|run_state| run_state.open.is_empty()))
        && policy.is_some_and(|policy| {
            !policy.newest && policy.lost < Some(due) && due >= ctx.now.wall - policy.grace
        })
}

/// A job that this node owns, with its claimed runs and all data at hand.
struct ClaimedRuns<'a> {
    runs: JobRuns<'a>,
    known: &'a KnownEntry<Box<RunState>>,
}

impl<'a> ClaimedRuns<'a> {
    fn ctx(&self) -> &'a RuleContext<'a> {
        self.runs.ctx
    }

    /// The open attempts.
    fn open(&self) -> &[Attempt] {
        self.known.value.as_ref().map_or(&[], |run_state| &run_state.open)
    }

    /// The watermark, as far as it is known.
    fn watermark(&self) -> Wall {
        self.known.value.as_ref().map_or(Wall::MIN, |run_state| run_state.watermark)
    }

    /// The run state to write next: without the verdicts that the history has.
    fn run_state(&self) -> RunState {
        let mut run_state = self.known.value.as_deref().cloned().unwrap_or_default();
        run_state.verdicts.retain(|verdict| !lifecycle::is_recorded(self.ctx(), verdict));
        run_state
    }

    /// The same, with the next number.
    fn next_run_state(&self) -> RunState {
        let run_state = self.run_state();
        RunState { seq: run_state.seq + 1, ..run_state }
    }

    fn commit(&self, kind: CommitKind, run_state: RunState, out: &mut RuleOutput) {
        self.commit_with(kind, run_state, None, out);
    }

    fn commit_with(
        &self,
        kind: CommitKind,
        run_state: RunState,
        triggers: Option<TriggerRecord>,
        out: &mut RuleOutput,
    ) {
        let job = self.runs.job;
        let name = job.name();
        let key = keys::run_state(name);
        let value = encode(&run_state);
        out.run_states.insert(job.id, (value.clone(), run_state));
        let guards = [self.known.guard(key.clone()), job.assignment_guard()];
        let mut txn = Txn {
            guards: self.ctx().born().into_iter().chain(guards).chain(job.calendar_guards()).collect(),
            writes: [Write::Put { key, value, owner: None }].into(),
        };
        if let (Some(record), Some(known)) = (triggers, job.triggers()) {
            let key = keys::triggers(name);
            txn.guards.push(known.guard(key.clone()));
            txn.writes.push(Write::Put { key, value: encode(&record), owner: None });
        }
        out.commit(CommitScope::Job(job.id), kind, txn);
    }

    /// Handles an open attempt: started, or closed, in every pass (law 3).
    fn attend(&self, attempt: &Attempt, going: usize, out: &mut RuleOutput) {
        let ctx = self.ctx();
        if attempt.by != *ctx.member {
            // Only the owner writes the run state: this is left over from an owner that was replaced without it.
            return self.settle(|other| other.by != *ctx.member, "its holder is gone", out);
        }
        let Some(given) = self.given_to(attempt) else {
            return match attempt.wait {
                _ if ctx.local.commands.is_cancelled(&self.runs.id(attempt)) => {
                    self.give_up(attempt, MANUAL, out)
                }
                // Also fires that were open before the job's overlap limit was lowered.
                _ if going >= self.runs.job.max_concurrent_runs() => {}
                Some(wait) => self.await_retry(attempt, wait, out),
                None => self.start(attempt, out),
            };
        };
        if given.attempt != attempt.attempt {
            return;
        }
        let Some((_, over)) = given.ended else {
            if !given.stopping {
                self.runs.give_way(attempt, given, self.watermark(), out);
            }
            return;
        };
        let mut run_state = self.next_run_state();
        let span = (attempt.starts_at(), over);
        match self.runs.ending(attempt, given, run_state.outcomes()) {
            Some(Ending::InDoubt) => {
                self.settle(|other| other.fire == attempt.fire, "ended when trust ran out", out);
            }
            Some(Ending::Retry(next)) => self.wait_for_retry(run_state, span, next, out),
            Some(Ending::Over) | None => {
                self.make_way(&mut run_state, span);
                self.finish(run_state, attempt, Some(over), out);
            }
        }
    }

    /// The run of an open attempt that was given to an executor.
    fn given_to(&self, attempt: &Attempt) -> Option<&Given> {
        self.ctx().local.runs.get(self.runs.job.id, &self.runs.id(attempt))
    }

    fn settle(&self, is_doubtful: impl Fn(&Attempt) -> bool, why: &str, out: &mut RuleOutput) {
        let settled = takeover::settle(&self.runs, &self.run_state(), is_doubtful, why);
        self.commit(CommitKind::Settle, settled, out);
    }

    fn start(&self, attempt: &Attempt, out: &mut RuleOutput) {
        let (ctx, job) = (self.ctx(), self.runs.job);
        let fits = job.fits(ctx.member);
        if attempt.attempt == 1 && (self.is_stale(attempt) || !fits) {
            match drain::withdraw(ctx, &job, attempt) {
                Some(txn) => return out.commit(CommitScope::Job(job.id), CommitKind::Withdraw, txn),
                // A later fire was claimed after it, so the watermark cannot go back for it.
                None if self.is_stale(attempt) => {
                    return self.give_up(attempt, "its job was changed before it could start", out);
                }
                None => {}
            }
        }
        if !fits {
            return self.set_aside(attempt, out);
        }
        if ctx.local.checks.is_put_off(job.id) {
            return;
        }
        if self.runs.is_replaced(attempt, self.watermark(), out) {
            return self.give_up(attempt, SUPERSEDED, out);
        }
        let readiness = self.runs.readiness(attempt, out);
        if readiness == StartReadiness::NotYet {
            return;
        }
        let (spec, run) = (job.spec(), self.runs.id(attempt));
        let declared = spec.as_ref().map(|spec| &spec.job);
        if self.runs.admitted(declared, [run].into(), self.runs.wanted_since(attempt), out).is_empty() {
            return;
        }
        let StartReadiness::Start(not_after) = readiness else { return self.confirm(attempt, out) };
        let Some(declared) = declared else {
            // The declaration went between claim and start; nothing is left to run.
            return if attempt.attempt > 1 {
                self.give_up(attempt, "its job was deleted", out)
            } else {
                self.finish(self.next_run_state(), attempt, None, out)
            };
        };
        if let Some(why) = self.runs.no_start_reason(declared, attempt) {
            return self.give_up(attempt, &why, out);
        }
        out.add(RuleAction::Start(job.id, self.runs.run(attempt, Shard(0), declared, not_after)));
    }

    /// Moves the start window of a claim that is too old to start from (law 2).
    fn confirm(&self, attempt: &Attempt, out: &mut RuleOutput) {
        if !is_within_pace(self.ctx().local, out) {
            let again = self.ctx().now.mono + PACE_AGAIN;
            return out.add(RuleAction::JobAfter(self.runs.job.id, again));
        }
        let mut run_state = self.next_run_state();
        run_state.put_open(self.runs.confirmed(attempt, run_state.seq));
        self.commit(CommitKind::Confirm, run_state, out);
    }

    /// Whether a fire claimed ahead is no longer due: the job was paused, disabled, deleted or rescheduled, also by
    /// a calendar.
    fn is_stale(&self, attempt: &Attempt) -> bool {
        let paused = self.runs.terms.is_none_or(|terms| terms.paused);
        matches!(attempt.fire, Fire::Due(_)) && (paused || !self.runs.is_scheduled(attempt))
    }

    /// Closes an open attempt, which ended at this moment if it ran; the next claim is part of the commit when it is near.
    fn finish(&self, mut run_state: RunState, attempt: &Attempt, over: Option<Mono>, out: &mut RuleOutput) {
        run_state.close(&attempt.fire);
        let mut slot = ClaimSlot::Free;
        if let Some(over) = over {
            self.count_from(&mut run_state, over);
            slot = ClaimSlot::OfEndedRun;
        }
        if !self.claim(&run_state, slot, out) {
            self.commit(CommitKind::Finish, run_state, out);
        }
    }

    /// Where fires follow runs, the next one is counted from this end.
    fn count_from(&self, run_state: &mut RunState, over: Mono) {
        let schedule = self.runs.terms.and_then(|terms| terms.schedule.as_ref());
        let end = schedule
            .filter(|schedule| schedule.follows_runs())
            .and_then(|_| lifecycle::time_of(self.ctx(), over));
        run_state.watermark = end.map_or(run_state.watermark, |end| end.max(run_state.watermark));
    }

    /// Whether another fire may be open beside the open ones. Of several only the last may be unstarted: no watermark
    /// could be taken back for one before it.
    fn has_room(&self, beside: &[Attempt]) -> bool {
        let is_begun = |attempt: &Attempt| attempt.wait.is_some() || self.given_to(attempt).is_some();
        let most = self.runs.job.max_concurrent_runs();
        beside.is_empty() || (beside.len() < most && beside.iter().all(is_begun))
    }

    /// Claims the next fire where no open one needs anything.
    fn rest(&self, out: &mut RuleOutput) {
        if !self.has_room(self.open()) {
            return;
        }
        let run_state = self.run_state();
        if self.claim(&run_state, ClaimSlot::Free, out) || !run_state.open.is_empty() {
            return;
        }
        if self.known.value.as_ref().is_some_and(|known| known.verdicts.len() != run_state.verdicts.len()) {
            self.commit(CommitKind::ClearVerdicts, RunState { seq: run_state.seq + 1, ..run_state }, out);
        }
    }

    /// Drops a cancelled trigger that has no run yet. Returns whether there was one.
    fn cancel_trigger(&self, out: &mut RuleOutput) -> bool {
        let local = self.ctx().local;
        if !local.commands.has_cancelled() {
            return false;
        }
        let run = |request: &TriggerRequest| self.runs.run_id(&Fire::Asked(request.id.clone()), Shard(0));
        let Some(record) = self.runs.job.triggers().and_then(|known| known.value.as_ref()) else {
            return false;
        };
        let called = |request: &TriggerRequest| !request.taken && local.commands.is_cancelled(&run(request));
        let Some(index) = record.requests.iter().position(called) else { return false };
        let (mut record, mut run_state) = (record.clone(), self.next_run_state());
        let request = &mut record.requests[index];
        request.take();
        let node = self.ctx().member.node.as_str();
        run_state.verdicts.push(lifecycle::not_attempted(run(request), 1, request.at, node, MANUAL));
        self.commit_with(CommitKind::GiveUp, run_state, Some(record), out);
        true
    }
}
