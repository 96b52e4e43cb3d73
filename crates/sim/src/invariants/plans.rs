//! Checks accepted writes of plans: the right to plan, and the fate of each planned run.

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, JobName, Member, RunId, Shard};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::{Delivery, Overlap};
use evenkeel_core::labels::Labels;
use evenkeel_core::record::{Attempt, Plan};
use evenkeel_core::store::Store;
use evenkeel_core::time::{Millis, Wall};

use super::cancels::is_manual;
use super::overlap::is_by_overlap;
use super::retries::RetryWrite;
use super::runs::UNNOTICED;
use super::tracks::{AttemptTrack, FireClosure};
use super::{CommittedTxn, Invariant, InvariantChecker, InvariantResults, JobTrack, RecordedVerdicts};
use crate::world::clock::START;

/// How long before it is due a run is accepted.
const LEAD: i64 = 1_000;

/// One accepted write of a plan.
struct PlanWrite<'a> {
    act: &'a CommittedTxn<'a>,
    job: &'a JobName,
    before: Plan,
    after: Plan,
    ttl: Millis,
    /// Whether the writer had the right to plan.
    plans: bool,
    now: Wall,
    /// The labels of the node that wrote it.
    labels: Option<Labels>,
}

impl InvariantChecker {
    pub(super) fn plan_written(
        &mut self,
        act: &CommittedTxn<'_>,
        job: &JobName,
        after: Plan,
        store: &Store,
        history: &RecordedVerdicts,
    ) {
        let ttl = self.beliefs.get(act.node).map_or(Millis(0), |mind| mind.ttl);
        let plans = self.may_plan(act, &after, store);
        let labels = self.beliefs.get(act.node).map(|mind| mind.labels.clone());
        let Self { findings, jobs, gone, .. } = self;
        let book = jobs.entry(job.clone()).or_default();
        let before = book.plan.clone().unwrap_or_default();
        let now = Wall(START.0 + act.at);
        let turn = PlanWrite { act, job, before, after, ttl, plans, now, labels };
        let lives = |member: &Member| !gone.contains(member);
        findings.test(act.at, Invariant::I1, turn.after.seq > turn.before.seq, || {
            format!("{} wrote seq {} of {job} over {}", act.kind, turn.after.seq, turn.before.seq)
        });
        turn.watermark(book, findings);
        turn.verdicts(history, findings);
        book.note_given_up(act.at, turn.new_verdicts(VerdictState::Skipped), findings);
        book.note_cancelled(act.at, turn.new_verdicts(VerdictState::Skipped), findings);
        turn.runs(book, findings, lives);
        book.plan = Some(turn.after);
    }
}

impl PlanWrite<'_> {
    fn old(&self, fire: &Fire) -> Option<&Attempt> {
        self.before.runs.iter().find(|run| run.fire == *fire)
    }

    fn left(&self, fire: &Fire) -> Option<&Attempt> {
        self.after.runs.iter().find(|run| run.fire == *fire)
    }

    fn run(&self, fire: &Fire) -> RunId {
        RunId { job: self.job.clone(), fire: fire.clone(), shard: Shard(0) }
    }

    fn new_verdicts(&self, state: VerdictState) -> impl Iterator<Item = &Verdict> {
        let old = |v: &Verdict| self.before.verdicts.iter().any(|b| b.run == v.run && b.attempt == v.attempt);
        self.after.verdicts.iter().filter(move |v| v.state == state && !old(v))
    }

    /// Whether the plan follows another declaration, or other calendars, from now on.
    fn follows(&self) -> bool {
        let of = |plan: &Plan| (plan.version, plan.calendars);
        of(&self.before) != of(&self.after)
    }

    /// The time from which fires may be planned anew: behind everything that was ever accepted or skipped.
    fn floor(&self, book: &JobTrack) -> Wall {
        let reached = self.before.reached;
        match &book.spec {
            Some(spec) if !self.follows() => self.before.watermark.max(spec.since),
            Some(spec) => self.before.watermark.min(reached.max(spec.since)).max(spec.since),
            None => self.before.watermark.min(reached),
        }
    }

    /// The watermark moves forward past planned or skipped fires, and back only to the last one that was ever accepted.
    fn watermark(&self, book: &JobTrack, findings: &mut InvariantResults) {
        let (at, from, to) = (self.act.at, self.before.watermark, self.after.watermark);
        findings.test(at, Invariant::I14, to >= from || to >= self.before.reached, || {
            format!("the watermark of {} went back from {from} to {to}", self.job)
        });
        findings.test(at, Invariant::I14, self.after.reached >= self.before.reached, || {
            format!("{} forgot how far {} had come", self.act.kind, self.job)
        });
        findings.test(at, Invariant::I14, self.after.reached <= to, || {
            format!("{} accepted of {} what the watermark {to} does not cover", self.act.node, self.job)
        });
        let ahead = self.after.runs.iter().find(|run| {
            !run.is_claimed() && run.attempt == 1 && matches!(run.fire, Fire::Due(due) if due > to)
        });
        findings.test(at, Invariant::I16, ahead.is_none(), || {
            format!("the watermark {to} of {} does not cover {ahead:?}", self.job)
        });
        findings.test(at, Invariant::I16, from == to || self.plans, || {
            format!("{} moved the watermark of {} and does not plan", self.act.node, self.job)
        });
        let (Some(spec), Some(schedule)) = (&book.spec, &book.schedule) else { return };
        if !spec.job.enabled || to <= from && !self.follows() {
            return;
        }
        let skips: Vec<&Verdict> =
            self.new_verdicts(VerdictState::Skipped).filter(|v| v.attempt == 0).collect();
        let mut fire = self.floor(book);
        while let Some(due) = schedule.next(fire).filter(|due| *due <= to) {
            fire = due;
            let skipped = skips.iter().find(|v| v.from <= due && due <= v.due);
            let known = skipped.is_some() || self.left(&Fire::Due(due)).is_some() || book.is_given_up(due);
            findings.test(at, Invariant::I16, known, || {
                format!("the fire of {} due at {due} was passed over by {}", self.job, self.act.kind)
            });
            if let Some(verdict) = skipped {
                self.skipped(due, verdict, book, findings);
            }
        }
    }

    fn skipped(&self, due: Wall, verdict: &Verdict, book: &JobTrack, findings: &mut InvariantResults) {
        if is_by_overlap(verdict) || book.forgets(self.act.at, verdict, due, findings) {
            return;
        }
        let grace = book.grace(self.ttl);
        let old = due + grace < self.now + Millis(UNNOTICED);
        findings.test(self.act.at, Invariant::I23, old, || {
            format!("the fire of {} due at {due} was skipped within its grace of {grace}", self.job)
        });
    }

    /// A verdict leaves the plan only once history has it.
    fn verdicts(&self, history: &RecordedVerdicts, findings: &mut InvariantResults) {
        let kept = |v: &Verdict| self.after.verdicts.iter().any(|a| a.run == v.run && a.attempt == v.attempt);
        for verdict in self.before.verdicts.iter().filter(|v| !kept(v)) {
            let recorded = history.contains_key(&(verdict.run.clone(), verdict.attempt));
            findings.test(self.act.at, Invariant::I22, recorded, || {
                format!("the verdict on {} was dropped before history had it", verdict.run)
            });
        }
    }

    fn runs(&self, book: &mut JobTrack, findings: &mut InvariantResults, lives: impl Fn(&Member) -> bool) {
        let at = self.act.at;
        let was = |run: &Attempt| self.old(&run.fire).is_some_and(Attempt::is_claimed);
        let accepted: Vec<&Attempt> = self.after.runs.iter().filter(|run| run.is_claimed()).collect();
        // A job that no longer allows concurrent runs does not end those that run.
        let room =
            accepted.iter().all(|run| was(run)) || accepted.len() <= book.overlap().max_concurrent_runs();
        findings.test(at, Invariant::I15, room, || {
            format!("{} runs of {} are accepted at once", accepted.len(), self.job)
        });
        for run in &self.after.runs {
            let twice = self.after.runs.iter().filter(|other| other.fire == run.fire).count();
            findings.test(at, Invariant::I14, twice == 1, || {
                format!("{} stands in the plan twice", self.run(&run.fire))
            });
            match self.old(&run.fire) {
                None => self.planned(run, book, findings),
                Some(old) if old.attempt != run.attempt && run.wait.is_some() => {
                    let id = self.run(&run.fire);
                    let next = run.attempt == old.attempt + 1 && !run.is_claimed() && old.is_claimed();
                    let by_its_node = next && Some(&old.by) == self.act.member;
                    self.trial(&id, old, book).waits(by_its_node, findings);
                }
                Some(old) if old.attempt != run.attempt => {
                    self.attempted_again(old, run, book, findings, &lives)
                }
                Some(old) => match (old.is_claimed(), run.is_claimed()) {
                    (false, false) => self.moved(old, run, findings),
                    (false, true) => self.accepted(old, run, book, findings),
                    (true, true) => self.confirmed(old, run, book, findings),
                    (true, false) => findings.test(at, Invariant::I22, false, || {
                        format!("{} was accepted and is not any more", self.run(&run.fire))
                    }),
                },
            }
        }
        let gone: Vec<&Attempt> =
            self.before.runs.iter().filter(|run| self.left(&run.fire).is_none()).collect();
        for run in gone {
            match run.is_claimed() {
                true => self.closed(run, book, findings, &lives),
                false => self.dropped(run, book, findings),
            }
        }
    }

    /// Checks a newly planned run: by an entitled planner, for a fire or a request that has no run yet.
    fn planned(&self, run: &Attempt, book: &mut JobTrack, findings: &mut InvariantResults) {
        let at = self.act.at;
        let id = self.run(&run.fire);
        let known = match &run.fire {
            Fire::Due(due) => book.is_due_at(*due) && book.fires_by_schedule(),
            Fire::Asked(request) => book.requested.contains_key(request),
        };
        findings.test(at, Invariant::I18, known, || format!("{id} was planned, but nothing is due"));
        let right = self.plans && run.attempt == 1 && !run.is_claimed();
        findings.test(at, Invariant::I6, right, || {
            format!("{} planned {id} as {run:?} ({})", self.act.node, self.act.kind)
        });
        let again = book.fires.get(&run.fire).is_some_and(|fire| fire.claimed || fire.closed.is_some());
        findings.test(at, Invariant::I14, !again, || format!("{id} was planned again after it was accepted"));
    }

    fn moved(&self, old: &Attempt, run: &Attempt, findings: &mut InvariantResults) {
        let at = self.act.at;
        let id = || self.run(&run.fire);
        if old.by != run.by {
            findings.test(at, Invariant::I6, self.plans, || {
                format!("{} planned {} again and does not plan", self.act.node, id())
            });
        }
        let same = old.due == run.due && old.wait == run.wait;
        findings.test(at, Invariant::I22, same, || format!("{} is due at another time", id()));
    }

    /// Checks an accepted run: by the node that it was planned for, while no other run of the job goes on.
    fn accepted(&self, old: &Attempt, run: &Attempt, book: &mut JobTrack, findings: &mut InvariantResults) {
        let at = self.act.at;
        let id = self.run(&run.fire);
        let is_due = !matches!(run.fire, Fire::Due(due) if due.0 - UNNOTICED > self.now.0);
        // A node may take a due run from one that has no slot for it.
        let right = old.by == run.by || (is_due && run.planned_for() == Some(&old.by));
        let mine = right && Some(&run.by) == self.act.member && run.seq == self.after.seq;
        findings.test(at, Invariant::I2, mine, || format!("{:?} accepted {id} as {run:?}", self.act.member));
        let early = matches!(run.fire, Fire::Due(due) if due.0 - LEAD - UNNOTICED > self.now.0);
        findings.test(at, Invariant::I17, !early, || format!("{id} was accepted long before it is due"));
        // A pause holds up a run that has not begun.
        let begun = run.attempt > 1 || matches!(run.fire, Fire::Asked(_));
        let stands = book.spec.as_ref().is_some_and(|spec| spec.job.enabled && (!spec.paused || begun));
        findings.test(at, Invariant::I18, stands, || format!("{id} was accepted, but its job does not fire"));
        let young =
            run.attempt > 1 || run.from.is_none_or(|from| book.is_young_enough(&run.fire, from, self.ttl));
        findings.test(at, Invariant::I23, young, || format!("{id} was made up though too old: {run:?}"));
        if let Fire::Due(due) = run.fire {
            findings.test(at, Invariant::I14, self.after.reached >= due, || {
                format!("{id} was accepted, and may be planned again")
            });
        }
        let fits = self.labels.as_ref().is_none_or(|labels| book.fits(&run.by.node, labels));
        findings.test(at, Invariant::I54, fits, || {
            format!("{id} was accepted by {}, which does not fit", run.by)
        });
        if let Some(wait) = old.wait {
            self.trial(&id, run, book).begins(wait, findings);
        }
        let beside = book.overlap().max_concurrent_runs();
        let fire = book.fires.entry(run.fire.clone()).or_default();
        let first = (fire.claimed == (run.attempt > 1)) && fire.closed.is_none();
        findings.test(at, Invariant::I14, first, || format!("{id} was accepted twice"));
        (fire.claimed, fire.concurrent) = (true, beside);
        let before = fire.attempts.insert(run.attempt, AttemptTrack::of(&run.by));
        findings.test(at, Invariant::I20, before.is_none(), || {
            format!("attempt {} of {id} was accepted twice", run.attempt)
        });
    }

    fn trial<'a>(&self, id: &'a RunId, run: &Attempt, book: &'a JobTrack) -> RetryWrite<'a> {
        let (at, attempt, fire) = (self.act.at, run.attempt, book.fires.get(&run.fire));
        RetryWrite { at, run: id, attempt, fire, retry: book.retry.as_ref() }
    }

    fn confirmed(&self, old: &Attempt, run: &Attempt, book: &mut JobTrack, findings: &mut InvariantResults) {
        if old == run {
            return;
        }
        let same = old.by == run.by && old.seq == run.seq && old.due == run.due;
        let started = book.attempt(&run.fire, run.attempt).is_none_or(|a| a.started.is_some());
        findings.test(self.act.at, Invariant::I22, same && !started, || {
            format!("{} was confirmed though it had started", self.run(&run.fire))
        });
    }

    /// Checks an attempt that follows a lost one.
    fn attempted_again(
        &self,
        old: &Attempt,
        run: &Attempt,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
        lives: impl Fn(&Member) -> bool,
    ) {
        let at = self.act.at;
        let id = self.run(&run.fire);
        let next = run.attempt == old.attempt + 1 && old.is_claimed();
        findings.test(at, Invariant::I20, next, || format!("{id}: {run:?} follows {old:?}"));
        let repeats = book.delivery == Delivery::AtLeastOnce;
        findings.test(at, Invariant::I19, repeats, || format!("{id} is at_most_once and is attempted again"));
        self.lost(old, book, findings, lives);
        if run.is_claimed() {
            self.accepted(run, run, book, findings);
        }
    }

    /// An attempt is lost only if its node is, or if trust ran out under it; and it is recorded so.
    fn lost(
        &self,
        old: &Attempt,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
        lives: impl Fn(&Member) -> bool,
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
        let may = gone && self.plans || fenced && Some(&attempt.by) == self.act.member;
        findings.test(at, Invariant::I19, may, || {
            format!("{run} was given up by {:?} while {} lives and has it", self.act.member, attempt.by)
        });
    }

    fn closed(
        &self,
        old: &Attempt,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
        lives: impl Fn(&Member) -> bool,
    ) {
        let at = self.act.at;
        let run = self.run(&old.fire);
        let lost = self.new_verdicts(VerdictState::Lost).any(|v| v.run == run && v.attempt == old.attempt);
        let closed = if lost {
            self.lost(old, book, findings, lives);
            FireClosure::Lost
        } else if self.is_stale(old, book)
            && book.attempt(&old.fire, old.attempt).is_some_and(|a| a.started.is_none())
        {
            FireClosure::Dropped
        } else {
            let attempt = book.attempt(&old.fire, old.attempt);
            let ended = attempt.as_ref().is_some_and(|a| a.ended.is_some());
            // If its job is deleted, it may go before it was started.
            let dropped = attempt.is_some_and(|a| a.started.is_none());
            findings.test(at, Invariant::I22, ended || dropped, || {
                format!("{run} was closed by {} before it ended", self.act.kind)
            });
            findings.test(at, Invariant::I2, Some(&old.by) == self.act.member, || {
                format!("{:?} closed {run} that {} accepted", self.act.member, old.by)
            });
            let told = || self.new_verdicts(VerdictState::Skipped).filter(|v| v.run == run);
            self.trial(&run, old, book).ends(told(), findings);
            if dropped && book.overlap() == Overlap::Replace {
                self.trial(&run, old, book).dropped(told(), findings);
            }
            book.check_waiting_limit(at, &run, old.attempt, findings);
            if dropped { FireClosure::Dropped } else { FireClosure::Finished }
        };
        if let Some(fire) = book.fires.get_mut(&old.fire) {
            fire.closed = Some(closed);
        }
    }

    /// An unaccepted run leaves the plan only with a reason.
    fn dropped(&self, run: &Attempt, book: &mut JobTrack, findings: &mut InvariantResults) {
        let at = self.act.at;
        let id = self.run(&run.fire);
        let by_schedule = matches!(run.fire, Fire::Due(_));
        if run.attempt > 1 {
            // It waited, or it followed a lost attempt: either way history had it as coming.
            let told = self.new_verdicts(VerdictState::Skipped).filter(|v| v.run == id);
            self.trial(&id, run, book).dropped(told, findings);
            if let Some(fire) = book.fires.get_mut(&run.fire) {
                fire.closed =
                    Some(if run.wait.is_some() { FireClosure::Finished } else { FireClosure::Dropped });
            }
            return;
        }
        let covers = |v: &Verdict| v.run == id || (by_schedule && v.from <= run.due && run.due <= v.due);
        if let Some(verdict) = self.new_verdicts(VerdictState::Skipped).find(|v| covers(v)) {
            if is_manual(verdict) {
                return;
            }
            return self.skipped(run.due, verdict, book, findings);
        }
        let off = book.spec.as_ref().is_none_or(|spec| !spec.job.enabled);
        // A fire that the watermark no longer covers is planned again.
        let uncovered = self.follows() && by_schedule && run.due > self.after.watermark;
        let goes = self.is_stale(run, book) || uncovered;
        findings.test(at, Invariant::I16, off || goes, || {
            format!("{id} left the plan by {} without a word", self.act.kind)
        });
    }

    /// Whether a run has no fire or request any more.
    fn is_stale(&self, run: &Attempt, book: &JobTrack) -> bool {
        let Some(spec) = &book.spec else { return true };
        let Fire::Due(due) = run.fire else { return !spec.job.enabled };
        let paused = spec.paused && due <= self.now + Millis(UNNOTICED);
        paused || !spec.job.enabled || due <= spec.since || !book.is_due_at(due)
    }
}
