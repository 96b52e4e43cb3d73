//! Checks accepted writes of run states: the watermark, the open fire and the verdicts.

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, JobName, RunId, Shard};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::{Delivery, Overlap};
use evenkeel_core::record::{Assignment, Attempt, RetryWait, RunState};
use evenkeel_core::time::{Millis, Wall};

use super::cancels::is_manual;
use super::overlap::is_by_overlap;
use super::retries::RetryWrite;
use super::runs::UNNOTICED;
use super::tracks::{AttemptTrack, FireClosure};
use super::{CommittedTxn, Invariant, InvariantChecker, InvariantResults, JobTrack, RecordedVerdicts};
use crate::world::clock::START;

/// One accepted write of a run state.
struct RunStateWrite<'a> {
    act: &'a CommittedTxn<'a>,
    job: &'a JobName,
    before: RunState,
    after: RunState,
    /// The assignment before the transaction.
    assignment: Assignment,
    /// Whether the previous owner is an online member.
    holder_lives: bool,
    ttl: Millis,
}

impl InvariantChecker {
    pub(super) fn run_state_written(
        &mut self,
        act: &CommittedTxn<'_>,
        job: &JobName,
        after: RunState,
        place: Assignment,
        holder_lives: bool,
        history: &RecordedVerdicts,
    ) {
        let ttl = self.beliefs.get(act.node).map_or(Millis(0), |mind| mind.ttl);
        let Self { findings, jobs, gone, .. } = self;
        let book = jobs.entry(job.clone()).or_default();
        let before = book.run_state.clone().unwrap_or_default();
        let turn = RunStateWrite { act, job, before, after, assignment: place, holder_lives, ttl };
        turn.by_the_holder(book, findings);
        turn.watermark(book, findings);
        turn.verdicts(history, findings);
        book.note_given_up(act.at, turn.new_verdicts(VerdictState::Skipped), findings);
        book.note_cancelled(act.at, turn.new_verdicts(VerdictState::Skipped), findings);
        turn.open(book, findings, |member| !gone.contains(member));
        book.run_state = Some(turn.after);
    }
}

impl RunStateWrite<'_> {
    fn by_the_holder(&self, book: &JobTrack, findings: &mut InvariantResults) {
        let (at, me) = (self.act.at, self.act.member);
        findings.test(at, Invariant::I1, self.after.seq > self.before.seq, || {
            format!("{} wrote seq {} of {} over {}", self.act.kind, self.after.seq, self.job, self.before.seq)
        });
        let holder = self.assignment.owner.as_ref() == me || book.assignment.owner.as_ref() == me;
        let heir = !self.holder_lives;
        findings.test(at, Invariant::I2, me.is_some() && (holder || heir), || {
            format!(
                "{me:?} wrote the lane of {} that {:?} holds ({})",
                self.job, self.assignment.owner, self.act.kind
            )
        });
    }

    /// The watermark moves forward past claimed or skipped fires, and back only to withdraw a fire.
    fn watermark(&self, book: &JobTrack, findings: &mut InvariantResults) {
        let (from, to) = (self.before.watermark, self.after.watermark);
        let at = self.act.at;
        if to < from {
            let withdrawn = self.before.open.iter().find(|open| self.takes_back(open));
            let holds = withdrawn.is_some() && self.after.open.len() + 1 == self.before.open.len();
            return findings.test(at, Invariant::I14, holds, || {
                format!("the watermark of {} went back from {from} to {to}", self.job)
            });
        }
        let (Some(spec), Some(schedule)) = (&book.spec, &book.schedule) else { return };
        let grace = book.grace(self.ttl);
        let skips: Vec<&Verdict> =
            self.new_verdicts(VerdictState::Skipped).filter(|v| v.attempt == 0).collect();
        if book.delay().is_some() {
            let skipped = skips.iter().any(|verdict| verdict.due == to);
            let holds = book.follows_to(&self.before, &self.after, skipped);
            return findings.test(at, Invariant::I16, holds, || {
                format!("the watermark of {} went from {from} to {to} by {}", self.job, self.act.kind)
            });
        }
        let mut fire = from.max(spec.since);
        while let Some(due) = schedule.next(fire).filter(|due| *due <= to) {
            fire = due;
            let skipped = skips.iter().find(|v| v.from <= due && due <= v.due);
            let known =
                skipped.is_some() || self.after.open_of(&Fire::Due(due)).is_some() || book.is_given_up(due);
            findings.test(at, Invariant::I16, known, || {
                format!("the fire of {} due at {due} was passed over by {}", self.job, self.act.kind)
            });
            if skipped
                .is_some_and(|verdict| !is_by_overlap(verdict) && !book.forgets(at, verdict, due, findings))
            {
                let old = due + grace < Wall(START.0 + at + UNNOTICED);
                findings.test(at, Invariant::I23, old, || {
                    format!("the fire of {} due at {due} was skipped within its grace of {grace}", self.job)
                });
            }
        }
    }

    /// Whether a withdrawn open fire comes after all.
    fn takes_back(&self, open: &Attempt) -> bool {
        let last = open.fire == Fire::Due(self.before.watermark) && open.back == self.after.watermark;
        last && open.attempt == 1 && self.after.watermark < self.before.watermark
    }

    fn new_verdicts(&self, state: VerdictState) -> impl Iterator<Item = &Verdict> {
        let old = |v: &Verdict| self.before.verdicts.iter().any(|b| b.run == v.run && b.attempt == v.attempt);
        self.after.verdicts.iter().filter(move |v| v.state == state && !old(v))
    }

    /// A verdict leaves the run state only once history has it.
    fn verdicts(&self, history: &RecordedVerdicts, findings: &mut InvariantResults) {
        let kept = |v: &Verdict| self.after.verdicts.iter().any(|a| a.run == v.run && a.attempt == v.attempt);
        for verdict in self.before.verdicts.iter().filter(|v| !kept(v)) {
            let recorded = history.contains_key(&(verdict.run.clone(), verdict.attempt));
            findings.test(self.act.at, Invariant::I22, recorded, || {
                format!("the verdict on {} was dropped before history had it", verdict.run)
            });
        }
    }

    /// Checks the closed and the opened runs.
    fn open(
        &self,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
        lives: impl Fn(&evenkeel_core::ids::Member) -> bool,
    ) {
        for old in &self.before.open {
            match self.after.open_of(&old.fire) {
                None => self.closed(old, book, findings, &lives),
                Some(new) if new == old => {}
                Some(new) => self.moved(old, new, book, findings, &lives),
            }
        }
        let claimed = self.after.open.iter().filter(|new| self.before.open_of(&new.fire).is_none());
        for new in claimed {
            let beside = self.after.open.len();
            findings.test(
                self.act.at,
                Invariant::I15,
                beside <= book.overlap().max_concurrent_runs(),
                || format!("{beside} fires of {} are open at once", self.job),
            );
            self.claimed(new, book, findings);
        }
    }

    /// Checks a changed open run.
    fn moved(
        &self,
        old: &Attempt,
        new: &Attempt,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
        lives: impl Fn(&evenkeel_core::ids::Member) -> bool,
    ) {
        if old.attempt == new.attempt {
            return match (old.wait, new.wait) {
                (None, None) => self.confirmed(old, new, book, findings),
                (Some(wait), None) => self.tried(new, wait, book, findings),
                (None, Some(_)) => self.check_set_aside(old, new, book, findings),
                (_, Some(_)) => self.waits_on(old, new, findings),
            };
        }
        if new.wait.is_none() {
            return self.attempted_again(old, new, book, findings, lives);
        }
        let run = self.run(&old.fire);
        let next = new.attempt == old.attempt + 1 && new.by == old.by;
        let by_its_node = next && Some(&old.by) == self.act.member;
        self.trial(&run, old, book).waits(by_its_node, findings);
    }

    fn run(&self, fire: &Fire) -> RunId {
        RunId { job: self.job.clone(), fire: fire.clone(), shard: Shard(0) }
    }

    fn claimed(&self, open: &Attempt, book: &mut JobTrack, findings: &mut InvariantResults) {
        let at = self.act.at;
        let run = self.run(&open.fire);
        let known = match &open.fire {
            Fire::Due(due) => {
                let due_then = match book.delay() {
                    Some(_) => book.follows(*due, open.back),
                    None => book.is_due_at(*due),
                };
                due_then && book.fires_by_schedule()
            }
            Fire::Asked(id) => book.requested.contains_key(id),
        };
        findings
            .test(at, Invariant::I18, known, || format!("{run} was claimed, but nothing is due: {open:?}"));
        let mine = Some(&open.by) == self.act.member && open.attempt == 1 && open.seq == self.after.seq;
        findings.test(at, Invariant::I20, mine, || format!("{run} was opened as {open:?}"));
        let young = book.is_young_enough(&open.fire, open.starts_at(), self.ttl);
        findings.test(at, Invariant::I23, young, || format!("{run} was made up though too old: {open:?}"));
        let beside = book.overlap().max_concurrent_runs();
        let fire = book.fires.entry(open.fire.clone()).or_default();
        let again = fire.claimed || fire.closed.is_some();
        findings.test(at, Invariant::I14, !again, || format!("{run} was claimed twice"));
        (fire.claimed, fire.concurrent) = (true, beside);
        fire.attempts.insert(1, AttemptTrack::of(&open.by));
    }

    fn trial<'a>(&self, run: &'a RunId, open: &Attempt, book: &'a JobTrack) -> RetryWrite<'a> {
        let (at, attempt, fire) = (self.act.at, open.attempt, book.fires.get(&open.fire));
        RetryWrite { at, run, attempt, fire, retry: book.retry.as_ref() }
    }

    /// Checks the claim of a waiting retry.
    fn tried(&self, new: &Attempt, wait: RetryWait, book: &mut JobTrack, findings: &mut InvariantResults) {
        let run = self.run(&new.fire);
        let mine = Some(&new.by) == self.act.member && new.seq == self.after.seq;
        findings.test(self.act.at, Invariant::I2, mine, || format!("{run} was opened as {new:?}"));
        self.trial(&run, new, book).begins(wait, findings);
        let attempts = &mut book.fires.entry(new.fire.clone()).or_default().attempts;
        attempts.insert(new.attempt, AttemptTrack::of(&new.by));
    }

    /// A run that waits for its retry goes on waiting, with the present owner of the job.
    fn waits_on(&self, old: &Attempt, new: &Attempt, findings: &mut InvariantResults) {
        let same = old.wait == new.wait && old.due == new.due;
        let mine = new.by == old.by || Some(&new.by) == self.act.member;
        findings.test(self.act.at, Invariant::I22, same && mine, || {
            format!("{} was {old:?} and is {new:?}", self.run(&new.fire))
        });
    }

    /// A run claimed on a node that is no longer eligible, or by one that only reported a loss, waits for another node.
    fn check_set_aside(
        &self,
        old: &Attempt,
        new: &Attempt,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
    ) {
        let same = old.by == new.by && old.seq == new.seq && old.due == new.due;
        let mine = Some(&new.by) == self.act.member;
        let idle = book.attempt(&new.fire, new.attempt).is_none_or(|a| a.started.is_none());
        findings.test(self.act.at, Invariant::I22, same && mine && idle, || {
            format!("{} was {old:?} and is set aside as {new:?}", self.run(&new.fire))
        });
    }

    fn confirmed(&self, old: &Attempt, new: &Attempt, book: &mut JobTrack, findings: &mut InvariantResults) {
        let same = old.by == new.by && old.seq == new.seq && old.due == new.due;
        let started = book.attempt(&new.fire, new.attempt).is_none_or(|a| a.started.is_some());
        findings.test(self.act.at, Invariant::I22, same && !started, || {
            format!("{} was confirmed though it had started", self.run(&new.fire))
        });
    }

    fn attempted_again(
        &self,
        old: &Attempt,
        new: &Attempt,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
        lives: impl Fn(&evenkeel_core::ids::Member) -> bool,
    ) {
        let at = self.act.at;
        let run = self.run(&new.fire);
        let next = new.attempt == old.attempt + 1 && Some(&new.by) == self.act.member;
        findings.test(at, Invariant::I20, next, || format!("{run}: {new:?} follows {old:?}"));
        findings.test(at, Invariant::I1, new.seq > old.seq, || {
            format!("{run}: attempt {} has the token of attempt {}", new.attempt, old.attempt)
        });
        let repeats = book.delivery == Delivery::AtLeastOnce;
        findings
            .test(at, Invariant::I19, repeats, || format!("{run} is at_most_once and is attempted again"));
        self.lost(old, book, findings, lives);
        let attempts = &mut book.fires.entry(new.fire.clone()).or_default().attempts;
        attempts.insert(new.attempt, AttemptTrack::of(&new.by));
    }

    /// An attempt is lost only if its node is, or if trust ran out under it; and it is recorded so.
    fn lost(
        &self,
        old: &Attempt,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
        lives: impl Fn(&evenkeel_core::ids::Member) -> bool,
    ) {
        let at = self.act.at;
        let run = self.run(&old.fire);
        let said = self.new_verdicts(VerdictState::Lost).any(|v| v.run == run && v.attempt == old.attempt);
        findings.test(at, Invariant::I16, said, || format!("{run}: no verdict says that it is lost"));
        let running = book.is_running(&old.fire, old.attempt);
        findings.test(at, Invariant::I20, !running, || format!("{run} is lost while it still runs"));
        let Some(attempt) = book.attempt(&old.fire, old.attempt) else { return };
        let fenced = matches!(attempt.ended, Some(RunOutcome::Stopped(_)));
        let gone = !lives(&attempt.by);
        findings.test(at, Invariant::I19, gone || fenced, || {
            format!("{run} was given up while {} lives and holds it", attempt.by)
        });
    }

    fn closed(
        &self,
        old: &Attempt,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
        lives: impl Fn(&evenkeel_core::ids::Member) -> bool,
    ) {
        let at = self.act.at;
        let run = self.run(&old.fire);
        let told = || self.new_verdicts(VerdictState::Skipped).filter(|v| v.run == run);
        if old.wait.is_some() {
            self.trial(&run, old, book).dropped(told(), findings);
            if let Some(fire) = book.fires.get_mut(&old.fire) {
                fire.closed = Some(FireClosure::Finished);
            }
            return;
        }
        let (started, ended) = book
            .attempt(&old.fire, old.attempt)
            .map_or((false, false), |a| (a.started.is_some(), a.ended.is_some()));
        let lost = self.new_verdicts(VerdictState::Lost).any(|v| v.run == run && v.attempt == old.attempt);
        let withdrawn = self.takes_back(old);
        let closed = if lost {
            self.lost(old, book, findings, lives);
            FireClosure::Lost
        } else if started {
            findings.test(at, Invariant::I22, ended, || format!("{run} was closed while it still runs"));
            findings.test(at, Invariant::I14, !withdrawn, || format!("{run} was taken back after its start"));
            self.trial(&run, old, book).ends(told(), findings);
            book.check_waiting_limit(at, &run, old.attempt, findings);
            FireClosure::Finished
        } else if withdrawn {
            if let Some(fire) = book.fires.get_mut(&old.fire) {
                fire.claimed = false;
                fire.attempts.clear();
            }
            return;
        } else {
            // A fire may go without a verdict only with its job; with a verdict, for a later fire, or if its job
            // changed before the start and a later fire was claimed.
            let beside = book.fires.get(&old.fire).is_some_and(|fire| fire.concurrent > 1);
            let by_hand = told().any(is_manual);
            let may = book.spec.is_none() || book.overlap() == Overlap::Replace || beside || by_hand;
            findings.test(at, Invariant::I16, may, || {
                format!("{run} was closed by {} without a start and without a word", self.act.kind)
            });
            if old.attempt > 1 || book.spec.is_some() {
                self.trial(&run, old, book).dropped(told(), findings);
            }
            FireClosure::Dropped
        };
        if let Some(fire) = book.fires.get_mut(&old.fire) {
            fire.closed = Some(closed);
        }
    }
}
