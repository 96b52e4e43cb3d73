//! Firing: a job's owner claims its fires a little ahead, starts them on time, and closes them when they end.
//!
//! A fire is claimed by moving the watermark past it in the same commit that names the node of the run, so it is
//! claimed at most once, by whichever node. Starting is the one act that the registry cannot refuse; so it happens only
//! within a second of the moment named in the claim, and later only after another commit.

use alloc::boxed::Box;
use alloc::string::String;

use crate::commit_kind::CommitKind;
use crate::effect::{Run, StopReason, Verdict};
use crate::ids::{Fire, RunId, Token};
use crate::input::RunOutcome;
use crate::job::Job;
use crate::keys;
use crate::local::{CommitScope, Given};
use crate::overlap::SUPERSEDED;
use crate::record::{Open, RunState, TriggerRecord, encode};
use crate::registry::{Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::rules::drain;
use crate::takeover;
use crate::time::{Millis, Mono, Wall};
use crate::view::{JobId, JobView, KnownEntry, OwnedJob};

mod cancel;
mod claim;
mod dispatched;
mod overlap;
mod retry;
mod room;
mod shards;

pub use cancel::{MANUAL, awaits, is_cancelled, is_request, is_unclaimed, taken_back};
pub use dispatched::is_open as is_open_planned;
pub(crate) use retry::given_up;
pub use room::free_slots;
use room::{PACE_AGAIN, is_admitted, is_within_pace};
pub use shards::{closed as closed_shards, gather_delay};

/// How long after its moment a claimed fire may start without another commit.
const START_WINDOW: Millis = Millis::secs(1);
/// How many verdicts may wait for history before the job claims no more: what cannot be recorded is not run.
const VERDICTS_MAX: usize = 100;

/// Looks at one job.
pub fn decide(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    let job = ctx.job(id);
    if job.is_sharded() {
        return shards::decide(ctx, &job, out);
    }
    if job.is_dispatched() {
        return dispatched::decide(ctx, &job, out);
    }
    stop_orphans(ctx, &job, out);
    if ctx.me.is_none() || !ctx.holds(&job) || !job.is_consistent() || !ctx.is_idle(&CommitScope::Job(id)) {
        return;
    }
    let Some(held) = job.held() else { return };
    let Some(known) = &held.run_state else {
        if !ctx.local.reading.contains(&id) {
            out.add(RuleAction::Read(id, [keys::run_state(job.name())].into()));
        }
        return;
    };
    let writer = ClaimedRuns { ctx, job, held, known };
    writer.record(out);
    if writer.cancel_trigger(out) {
        return;
    }
    let mut going = ctx.local.given_of(id).count();
    for open in writer.open() {
        let before = out.actions.len();
        writer.attend(open, going, out);
        if out.commits_since(before, &CommitScope::Job(id)) {
            return;
        }
        going += out.starts_since(before);
    }
    writer.rest(out);
}

/// Ends a run whose entry in the registry is gone, whatever became of it.
fn stop_orphans(ctx: &RuleContext<'_>, job: &JobView<'_>, out: &mut RuleOutput) {
    for (_, given) in ctx.local.given_of(job.id).filter(|(_, g)| g.ended.is_none() && !g.stopping) {
        stop_orphan(ctx, job, given, out);
    }
}

fn stop_orphan(ctx: &RuleContext<'_>, job: &JobView<'_>, given: &Given, out: &mut RuleOutput) {
    let open = job.open_of(&given.run.fire);
    let ours = open.is_some_and(|open| open.by == *ctx.member && open.attempt == given.attempt);
    if !(ours && ctx.holds(job)) {
        out.add(RuleAction::Stop(job.id, given.run.clone(), StopReason::Fenced));
    }
}

/// The moment before which a fire must not start. A manual run may start by now at the latest, whatever the clock of
/// the trigger showed.
fn moment(fire: &Fire, due: Wall, now: Wall) -> Wall {
    if matches!(fire, Fire::Asked(_)) { due.min(now) } else { due }
}

/// Whether a claim names a moment far ahead that is not its due one: a clock that was off made it at a takeover.
fn is_misdated(from: Wall, due: Wall, now: Wall) -> bool {
    from > due && from > now + START_WINDOW
}

/// The attempt at a run of a job with one shard, as its executor gets it.
fn run_of(
    ctx: &RuleContext<'_>,
    id: RunId,
    due: Wall,
    (attempt, seq): (u32, u64),
    (declared, began): (&Job, Wall),
    not_after: Mono,
) -> Run {
    Run {
        id,
        due,
        priority: declared.priority,
        again: None,
        shards: declared.shards,
        parameter: declared.shard_parameters.first().cloned().unwrap_or_default(),
        job_parameter: declared.parameter.clone(),
        attempt,
        token: Token::new(ctx.local.settings.generation, seq),
        sent: String::new(),
        work: declared.work(),
        setting: declared.launch_settings().into(),
        retry: declared.backoff().map(Box::new),
        timeout: declared.attempt_time(began, ctx.now.wall),
        not_after,
    }
}

/// A job that this node owns, with its claimed runs and all data at hand.
struct ClaimedRuns<'a> {
    ctx: &'a RuleContext<'a>,
    job: JobView<'a>,
    held: &'a OwnedJob,
    known: &'a KnownEntry<RunState>,
}

impl ClaimedRuns<'_> {
    /// The open fires.
    fn open(&self) -> &[Open] {
        self.known.value.as_ref().map_or(&[], |run_state| &run_state.open)
    }

    /// The run state to write next: without the verdicts that the history has.
    fn run_state(&self) -> RunState {
        let mut run_state = self.known.value.clone().unwrap_or_default();
        let recorded = |v: &Verdict| self.ctx.local.recording.get(&(v.run.clone(), v.attempt)) == Some(&true);
        run_state.verdicts.retain(|v| !recorded(v));
        run_state
    }

    fn commit(&self, kind: CommitKind, run_state: RunState, out: &mut RuleOutput) {
        self.commit_with(kind, run_state, None, out);
    }

    fn commit_with(
        &self,
        kind: CommitKind,
        run_state: RunState,
        asked: Option<TriggerRecord>,
        out: &mut RuleOutput,
    ) {
        let name = self.job.name();
        let (key, place) =
            self.held.keys.clone().unwrap_or_else(|| (keys::run_state(name), keys::assignment(name)));
        let value = encode(&run_state);
        out.run_states.insert(self.job.id, (value.clone(), run_state));
        let mut txn = Txn {
            guards: self
                .ctx
                .born()
                .into_iter()
                .chain([self.known.guard(key.clone()), self.job.assignment_guard_at(place)])
                .chain(self.job.calendar_guards())
                .collect(),
            writes: [Write::Put { key, value, owner: None }].into(),
        };
        if let (Some(record), Some(known)) = (asked, self.job.triggers()) {
            let key = keys::triggers(self.job.name());
            txn.guards.push(known.guard(key.clone()));
            txn.writes.push(Write::Put { key, value: encode(&record), owner: None });
        }
        out.commit(CommitScope::Job(self.job.id), kind, txn);
    }

    /// Hands new verdicts to the history.
    fn record(&self, out: &mut RuleOutput) {
        for verdict in self.known.value.iter().flat_map(|run_state| &run_state.verdicts) {
            if !self.ctx.local.recording.contains_key(&(verdict.run.clone(), verdict.attempt)) {
                out.add(RuleAction::Record(verdict.clone()));
            }
        }
    }

    /// Handles an open fire: started, or closed, in every pass (law 3).
    fn attend(&self, open: &Open, going: usize, out: &mut RuleOutput) {
        if open.by != *self.ctx.member {
            // Only the owner writes the run state: this is left over from an owner that was replaced without it.
            let left = |open: &Open| open.by != *self.ctx.member;
            return self.settle(left, "its holder is gone", out);
        }
        let Some(given) = self.given_to(open) else {
            return match open.wait {
                _ if self.ctx.local.is_cancelled(&takeover::run_id(&self.job, open)) => {
                    self.cancel(open, MANUAL, out);
                }
                // Also fires that were open before the job's overlap limit was lowered.
                _ if going >= self.job.max_concurrent_runs() => {}
                Some(wait) => self.await_retry(open, wait, out),
                None => self.start(open, out),
            };
        };
        let ours = given.attempt == open.attempt;
        match given.ended {
            Some((RunOutcome::Stopped(StopReason::Fenced), _)) if ours => {
                self.settle(|other| other.fire == open.fire, "ended when trust ran out", out);
            }
            Some((_, over)) if ours => match retry::wait_after(given) {
                Some(length) => self.retry(open, given, (length, over), out),
                None => self.finish(open, Some((open.from, over)), out),
            },
            None if ours && !given.stopping => self.give_way(open, given, out),
            Some(_) | None => {}
        }
    }

    /// The run of an open fire that was given to an executor.
    fn given_to(&self, open: &Open) -> Option<&Given> {
        self.ctx.local.given_to(self.job.id, &takeover::run_id(&self.job, open))
    }

    fn settle(&self, is_doubtful: impl Fn(&Open) -> bool, why: &str, out: &mut RuleOutput) {
        let settled = takeover::settle(self.ctx, &self.job, &self.run_state(), is_doubtful, why);
        self.commit(CommitKind::Settle, settled, out);
    }

    fn start(&self, open: &Open, out: &mut RuleOutput) {
        let now = self.ctx.now;
        let fits = self.job.fits(self.ctx.member);
        if open.attempt == 1 && (self.is_stale(open) || !fits) {
            match drain::withdraw(self.ctx, &self.job, open) {
                Some(txn) => return out.commit(CommitScope::Job(self.job.id), CommitKind::Withdraw, txn),
                // A later fire was claimed after it, so the watermark cannot go back for it.
                None if self.is_stale(open) => {
                    return self.cancel(open, "its job was changed before it could start", out);
                }
                None => {}
            }
        }
        if !fits {
            return self.set_aside(open, out);
        }
        if self.ctx.local.put_off.contains_key(&self.job.id) {
            return;
        }
        if self.is_superseded(open, out) {
            return self.cancel(open, SUPERSEDED, out);
        }
        let moment = moment(&open.fire, open.due, now.wall);
        let misdated = is_misdated(open.from, moment, now.wall);
        if now.wall < open.from && !misdated {
            return out.add(RuleAction::JobAt(self.job.id, open.from));
        }
        if !self.clock_agrees(out) {
            return;
        }
        let (id, spec) = (takeover::run_id(&self.job, open), self.job.spec());
        if !is_admitted(self.ctx, self.job.id, (spec.as_ref(), &id, open.due), out) {
            return;
        }
        let latest = open.from + START_WINDOW;
        if now.wall > latest || misdated {
            if !is_within_pace(self.ctx.local, out) {
                return out.add(RuleAction::JobAfter(self.job.id, now.mono + PACE_AGAIN));
            }
            let mut run_state = self.run_state();
            run_state.seq += 1;
            run_state.put_open(Open { from: now.wall.max(moment), ..open.clone() });
            return self.commit(CommitKind::Confirm, run_state, out);
        }
        let Some(spec) = spec else {
            // The declaration went between claim and start; nothing is left to run.
            return if open.attempt > 1 {
                self.cancel(open, "its job was deleted", out)
            } else {
                self.finish(open, None, out)
            };
        };
        if let Some(why) = self.time_is_over(&spec.job, open) {
            return self.cancel(open, &why, out);
        }
        let not_after = self.ctx.lease.until().min(now.mono + (latest - now.wall));
        let declared = (&spec.job, open.began());
        let run = run_of(self.ctx, id, open.due, (open.attempt, open.seq), declared, not_after);
        out.add(RuleAction::Start(self.job.id, run));
    }

    /// Whether a fire claimed ahead is no longer due: the job was paused, disabled, deleted or rescheduled, also by
    /// a calendar.
    fn is_stale(&self, open: &Open) -> bool {
        let Fire::Due(due) = open.fire else { return false };
        let Some(terms) = &self.held.terms else { return true };
        let counted = terms.schedule.as_ref().map(|s| s.counted_from(open.back.max(terms.since)));
        let scheduled = || counted.and_then(|schedule| schedule.next(due - Millis(1)));
        terms.paused || !terms.enabled || due <= terms.since || scheduled() != Some(due)
    }

    /// Closes an open fire, which ran in this `span` if it did; the next claim is part of the commit when it is near.
    fn finish(&self, open: &Open, span: Option<(Wall, Mono)>, out: &mut RuleOutput) {
        let mut run_state = self.run_state();
        run_state.seq += 1;
        run_state.close(&open.fire);
        if let Some(span) = span {
            self.make_way(&mut run_state, span);
            self.count_from(&mut run_state, span.1);
        }
        if !self.claim(&run_state, out) {
            self.commit(CommitKind::Finish, run_state, out);
        }
    }

    /// Where fires follow runs, the next one is counted from this end.
    fn count_from(&self, run_state: &mut RunState, over: Mono) {
        let schedule = self.held.terms.as_ref().and_then(|terms| terms.schedule.as_ref());
        let end = schedule.filter(|schedule| schedule.follows_runs()).and_then(|_| self.time_of(over));
        run_state.watermark = end.map_or(run_state.watermark, |end| end.max(run_state.watermark));
    }

    /// Claims the next fire where no open one needs anything.
    fn rest(&self, out: &mut RuleOutput) {
        if !self.has_room(self.open()) {
            return;
        }
        let run_state = self.run_state();
        if self.claim(&run_state, out) || !run_state.open.is_empty() {
            return;
        }
        if self.known.value.as_ref().is_some_and(|known| known.verdicts.len() != run_state.verdicts.len()) {
            self.commit(CommitKind::ClearVerdicts, RunState { seq: run_state.seq + 1, ..run_state }, out);
        }
    }
}
