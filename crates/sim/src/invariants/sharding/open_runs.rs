//! Checks the effect of an accepted transaction on one shard: its watermark, and its open run before and after.

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, Member, RunId, Shard};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::{CatchUp, Delivery};
use evenkeel_core::record::{Attempt, RetryWait};
use evenkeel_core::time::{Millis, Wall};

use super::super::cancels::is_manual;
use super::super::retries::RetryWrite;
use super::super::runs::{ALLOWED, UNNOTICED};
use super::super::tracks::{AttemptTrack, FireClosure};
use super::super::{Invariant, InvariantResults, JobTrack};
use super::ShardedTxn;
use super::reshards::declared_total;
use crate::world::TIMEOUT;
use crate::world::clock::START;

/// The reason of runs that a node may no longer start.
const FITS_NO_MORE: &str = "its node fits the job no more";

/// The fate of an open run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenRunFate {
    /// It is still open, in the same run state.
    Unchanged,
    /// Another attempt is open in its place.
    Retried,
    /// It is recorded as lost.
    Lost,
    /// It was started, and is closed.
    Finished,
    /// It was not started, and is closed.
    Withdrawn,
    /// It was not started, and is closed, because an operator cancelled it.
    CalledOff,
}

impl ShardedTxn<'_> {
    pub(super) fn shard(&self, shard: Shard, book: &mut JobTrack, findings: &mut InvariantResults) {
        let (old, new) = (self.before.open.get(&shard), self.after.open.get(&shard));
        let fate = old.map(|old| self.fate(shard, old, new, book));
        self.watermark(shard, fate, book, findings);
        match (old, fate) {
            (Some(old), Some(OpenRunFate::Unchanged)) => {
                if let Some(new) = new {
                    match (old.1.wait, new.1.wait) {
                        (None, None) => self.claim_kept(shard, old, new, findings),
                        (Some(wait), None) => self.tried(shard, new, wait, book, findings),
                        (_, Some(_)) => self.waits_on(shard, old, new, findings),
                    }
                }
            }
            (Some((by, old)), Some(OpenRunFate::Retried))
                if new.is_some_and(|(_, new)| new.wait.is_some()) =>
            {
                let run = self.run(&old.fire, shard);
                let next = new.is_some_and(|(to, new)| to == by && new.attempt == old.attempt + 1);
                let by_its_node = next && Some(by) == self.act.member;
                self.trial(&run, old, book).waits(by_its_node, findings);
            }
            (Some(old), Some(OpenRunFate::Retried)) => {
                if let Some(new) = new {
                    self.attempted_again(shard, old, new, book, findings);
                }
            }
            (Some(old), Some(fate)) => self.closed(shard, old, fate, book, findings),
            _ => {}
        }
        if let Some((by, open)) =
            new.filter(|_| !matches!(fate, Some(OpenRunFate::Unchanged | OpenRunFate::Retried)))
        {
            self.claimed(shard, by, open, book, findings);
        }
    }

    fn is_reported_lost(&self, shard: Shard, open: &Attempt) -> bool {
        self.new_verdicts(VerdictState::Lost)
            .any(|v| v.run.fire == open.fire && v.attempt == open.attempt && v.shards.contains(shard))
    }

    fn is_cancelled(&self, shard: Shard, open: &Attempt) -> bool {
        let of_it = |v: &&Verdict| v.run.fire == open.fire && v.shards.contains(shard);
        self.new_verdicts(VerdictState::Skipped).filter(of_it).any(is_manual)
    }

    fn fate(
        &self,
        shard: Shard,
        (_, old): &(Member, Attempt),
        new: Option<&(Member, Attempt)>,
        book: &mut JobTrack,
    ) -> OpenRunFate {
        match new {
            Some((_, new)) if new.fire == old.fire && new.attempt == old.attempt => {
                return OpenRunFate::Unchanged;
            }
            Some((_, new)) if new.fire == old.fire && new.attempt > old.attempt => {
                return OpenRunFate::Retried;
            }
            _ => {}
        }
        let fire = book.sharding.fire(&old.fire, shard);
        let started = fire.attempts.get(&old.attempt).is_some_and(|attempt| attempt.started.is_some());
        // A start of an unmonitored run is not awaited.
        let unmonitored = book.spec.as_ref().is_some_and(|spec| !spec.job.placement.is_monitored());
        // It went back also if the same commit then claims the next fire: the watermark is past that one, and its claim
        // says that it began below the withdrawn fire.
        let is_due = |open: &Attempt| matches!(open.fire, Fire::Due(_));
        let anew = new.is_some_and(|(_, new)| is_due(old) && is_due(new) && new.back < old.due);
        let backwards = anew || self.after.watermark(shard) < self.before.watermark(shard);
        match () {
            () if self.is_reported_lost(shard, old) => OpenRunFate::Lost,
            () if !started && old.wait.is_none() && self.is_cancelled(shard, old) => OpenRunFate::CalledOff,
            // A run that waited for its retry had begun.
            () if old.wait.is_some() || started || (unmonitored && !backwards) => OpenRunFate::Finished,
            () => OpenRunFate::Withdrawn,
        }
    }

    /// The watermark moves past claimed, skipped or ignored fires, and back only to withdraw a fire.
    fn watermark(
        &self,
        shard: Shard,
        fate: Option<OpenRunFate>,
        book: &JobTrack,
        findings: &mut InvariantResults,
    ) {
        let (Some(from), Some(to)) = (self.before.watermark(shard), self.after.watermark(shard)) else {
            return;
        };
        let (at, job, kind) = (self.at(), self.job, self.act.kind);
        let old = self.before.open.get(&shard).map(|(_, open)| open);
        let taken = |open: &&Attempt| open.attempt == 1 && matches!(open.fire, Fire::Due(_));
        let back = old.filter(taken).filter(|_| fate == Some(OpenRunFate::Withdrawn)).map(|open| open.back);
        let backwards = to < from && back.is_none_or(|back| to < back);
        findings.test(at, Invariant::I14, !backwards, || {
            format!("the watermark of shard {shard} of {job} went back from {from} to {to} by {kind}")
        });
        let (Some(spec), Some(schedule)) = (&book.spec, &book.schedule) else { return };
        let by = self.after.held.get(&shard).map(|(by, _)| &by.node);
        if spec.off.contains(shard) || by.is_some_and(|node| book.sharding.paused.contains(node)) {
            return;
        }
        let opened = self.after.open.get(&shard).map(|(_, open)| &open.fire);
        let missed = old.filter(|_| fate != Some(OpenRunFate::Unchanged)).map(|open| open.starts_at());
        let mut fire = from.min(back.unwrap_or(from)).max(spec.since);
        while let Some(due) = schedule.next(fire).filter(|due| *due <= to) {
            fire = due;
            let claimed = opened == Some(&Fire::Due(due));
            let mut skips = self.new_verdicts(VerdictState::Skipped);
            let covers = |v: &Verdict| v.attempt == 0 && v.from <= due && due <= v.due;
            let skipped = skips.find(|v| covers(v) && v.shards.contains(shard));
            findings.test(at, Invariant::I16, claimed || skipped.is_some(), || {
                format!("the fire of {job} due at {due} was passed over for shard {shard} by {kind}")
            });
            if skipped.is_some_and(|verdict| !book.forgets(at, verdict, due, findings)) {
                let old = due + book.grace(self.ttl) < Wall(START.0 + at + UNNOTICED);
                let came = due < Wall(START.0 + at + UNNOTICED);
                let ran = missed.is_some_and(|ran| ran < due) && came;
                let went = self.was_resharded() && spec.job.placement.is_broadcast();
                findings.test(at, Invariant::I23, old || ran || went, || {
                    format!("the fire of {job} due at {due} was skipped for shard {shard} without a reason")
                });
            }
        }
    }

    fn claimed(
        &self,
        shard: Shard,
        by: &Member,
        open: &Attempt,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
    ) {
        let (at, job) = (self.at(), self.job);
        let run = self.run(&open.fire, shard);
        let marked = self.old.reshard_pending.is_some() || self.new.reshard_pending.is_some();
        findings.test(at, Invariant::I30, !marked, || format!("{run} was claimed while {job} is marked"));
        let shard_map = &self.old.shard_map;
        let total = book.spec.as_ref().map_or(0, |spec| declared_total(&spec.job, shard_map));
        findings.test(at, Invariant::I33, shard_map.total == total && shard.0 < total, || {
            format!("{run} was claimed under a cut into {}, there are {total} shards", shard_map.total)
        });
        let off = book.spec.as_ref().is_some_and(|spec| spec.off.contains(shard));
        let known = match &open.fire {
            Fire::Due(due) => book.is_due_at(*due) && book.fires_by_schedule(),
            Fire::Asked(id) => book.requested.contains_key(id),
        };
        findings.test(at, Invariant::I18, known && !off, || format!("{run} was claimed, but nothing is due"));
        let mine = Some(by) == self.act.member && self.before.held.get(&shard).is_some_and(|(h, _)| h == by);
        findings
            .test(at, Invariant::I2, mine, || format!("{run} was claimed by {by}, who has not the shard"));
        let run_state = book.sharding.run_states.get(by).map_or(0, |run_state| run_state.seq);
        findings.test(at, Invariant::I20, open.attempt == 1 && open.seq == run_state, || {
            format!("{run} was opened as {open:?}")
        });
        let beside = book
            .sharding
            .running
            .get(&shard)
            .filter(|_| book.spec.as_ref().is_some_and(|s| s.job.placement.is_monitored()));
        findings
            .test(at, Invariant::I15, beside.is_none(), || format!("{run} was claimed beside {beside:?}"));
        let young = book.is_young_enough(&open.fire, open.starts_at(), self.ttl);
        findings.test(at, Invariant::I23, young, || format!("{run} was made up though too old: {open:?}"));
        self.caught_up(shard, open, book, findings);
        let broadcast = book.spec.as_ref().is_some_and(|spec| spec.job.placement.is_broadcast());
        if let Fire::Asked(id) = &open.fire
            && broadcast
        {
            let first = book.sharding.requested_on.insert((id.clone(), by.node.clone()));
            findings.test(at, Invariant::I24, first, || {
                format!("{} runs the request {id} of {job} twice", by.node)
            });
        }
        let fire = book.sharding.fire(&open.fire, shard);
        let again = fire.claimed || fire.closed.is_some();
        let once = if matches!(open.fire, Fire::Due(_)) { Invariant::I14 } else { Invariant::I24 };
        findings.test(at, once, !again, || format!("{run} was claimed twice"));
        fire.claimed = true;
        fire.attempts.insert(1, AttemptTrack::of(by));
        book.sharding.totals.insert((open.fire.clone(), shard), total);
    }

    /// Of the fires that came due while a shard ran, the job's policy decides how many are caught up.
    fn caught_up(&self, shard: Shard, open: &Attempt, book: &mut JobTrack, findings: &mut InvariantResults) {
        let (Fire::Due(due), Some(spec)) = (&open.fire, &book.spec) else { return };
        let Some((closed, version, count)) = book.sharding.missed.get_mut(&shard) else { return };
        if *version != book.edition || due >= closed {
            return;
        }
        *count += 1;
        let most = match spec.job.misfire.catch_up {
            CatchUp::Skip => 0,
            CatchUp::Latest => 1,
            CatchUp::All(n) => n,
        };
        findings.test(self.at(), Invariant::I23, *count <= most, || {
            format!(
                "{} is the fire number {count} that shard {shard} missed and makes up",
                self.run(&open.fire, shard)
            )
        });
    }

    /// A claim may be renewed while it has not started; and others may join it.
    fn claim_kept(
        &self,
        shard: Shard,
        (by, old): &(Member, Attempt),
        (to, new): &(Member, Attempt),
        findings: &mut InvariantResults,
    ) {
        let same = by == to && old.due == new.due && old.seq <= new.seq;
        findings.test(self.at(), Invariant::I28, same, || {
            format!("{} was {old:?} at {by} and is {new:?} at {to}", self.run(&old.fire, shard))
        });
    }

    fn trial<'a>(&self, run: &'a RunId, open: &Attempt, book: &'a JobTrack) -> RetryWrite<'a> {
        let fire = book.sharding.fires.get(&(open.fire.clone(), run.shard));
        RetryWrite { at: self.at(), run, attempt: open.attempt, fire, retry: book.retry.as_ref() }
    }

    /// Checks the claim of a waiting retry.
    fn tried(
        &self,
        shard: Shard,
        (by, open): &(Member, Attempt),
        wait: RetryWait,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
    ) {
        let run = self.run(&open.fire, shard);
        let run_state = book.sharding.run_states.get(by).map_or(0, |run_state| run_state.seq);
        let mine = Some(by) == self.act.member && open.seq == run_state;
        findings.test(self.at(), Invariant::I2, mine, || format!("{run} was opened as {open:?}"));
        self.trial(&run, open, book).begins(wait, findings);
        book.sharding.fire(&open.fire, shard).attempts.insert(open.attempt, AttemptTrack::of(by));
    }

    /// A shard that waits for its retry goes on waiting, also with the member that took it over from a dead one.
    fn waits_on(
        &self,
        shard: Shard,
        (by, old): &(Member, Attempt),
        (to, new): &(Member, Attempt),
        findings: &mut InvariantResults,
    ) {
        let moved = Some(to) == self.act.member && !(self.lives)(by);
        let same = old.wait == new.wait && old.due == new.due && (by == to || moved);
        findings.test(self.at(), Invariant::I28, same, || {
            format!("{} was {old:?} at {by} and is {new:?} at {to}", self.run(&old.fire, shard))
        });
    }

    fn attempted_again(
        &self,
        shard: Shard,
        (by, old): &(Member, Attempt),
        (to, new): &(Member, Attempt),
        book: &mut JobTrack,
        findings: &mut InvariantResults,
    ) {
        let (at, run) = (self.at(), self.run(&new.fire, shard));
        let next = new.attempt == old.attempt + 1 && Some(to) == self.act.member;
        findings.test(at, Invariant::I20, next, || format!("{run}: {new:?} follows {old:?}"));
        findings.test(at, Invariant::I1, new.seq > old.seq, || {
            format!("{run}: attempt {} has the token of attempt {}", new.attempt, old.attempt)
        });
        let repeats = book.delivery == Delivery::AtLeastOnce;
        findings
            .test(at, Invariant::I19, repeats, || format!("{run} is at_most_once and is attempted again"));
        let said = self.is_reported_lost(shard, old);
        findings.test(at, Invariant::I16, said, || format!("{run}: no verdict says that it is lost"));
        self.lost(shard, (by, old), book, findings);
        if by != to {
            let first = book.sharding.rescued.insert((shard, by.clone()));
            findings.test(at, Invariant::I21, first, || format!("{run} was taken over from {by} twice"));
        }
        book.sharding.fire(&new.fire, shard).attempts.insert(new.attempt, AttemptTrack::of(to));
    }

    /// An attempt is lost only if its node is, or if trust ran out under it.
    fn lost(
        &self,
        shard: Shard,
        (by, old): (&Member, &Attempt),
        book: &mut JobTrack,
        findings: &mut InvariantResults,
    ) {
        let (at, run) = (self.at(), self.run(&old.fire, shard));
        let running = book.sharding.running.get(&shard);
        let running = running.is_some_and(|(f, a, _)| *f == old.fire && *a == old.attempt);
        findings.test(at, Invariant::I20, !running, || format!("{run} is lost while it still runs"));
        let attempt = book.sharding.fire(&old.fire, shard).attempts.get(&old.attempt);
        let fenced = attempt.is_some_and(|a| matches!(a.ended, Some(RunOutcome::Stopped(_))));
        let gone = !(self.lives)(by);
        findings.test(at, Invariant::I21, gone || fenced, || {
            format!("{run} was given up while {by} lives and has it")
        });
    }

    fn closed(
        &self,
        shard: Shard,
        (by, old): &(Member, Attempt),
        fate: OpenRunFate,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
    ) {
        let (at, run, kind) = (self.at(), self.run(&old.fire, shard), self.act.kind);
        let monitored = book.spec.as_ref().is_none_or(|spec| spec.job.placement.is_monitored());
        let of_it = |v: &&Verdict| v.run.fire == old.fire && v.shards.contains(shard);
        let told = || self.new_verdicts(VerdictState::Skipped).filter(of_it);
        if self.is_cancelled(shard, old) {
            book.check_requested(at, &run, findings);
        }
        if old.wait.is_some() {
            self.trial(&run, old, book).dropped(told(), findings);
            book.sharding.fire(&old.fire, shard).closed = Some(FireClosure::Finished);
            return;
        }
        let closed = match fate {
            OpenRunFate::Lost => {
                self.lost(shard, (by, old), book, findings);
                FireClosure::Lost
            }
            OpenRunFate::Finished => {
                let attempt = book.sharding.fire(&old.fire, shard).attempts.get(&old.attempt);
                let ended = attempt.is_some_and(|attempt| attempt.ended.is_some()) || !monitored;
                findings.test(at, Invariant::I22, ended, || format!("{run} was closed while it still runs"));
                self.trial(&run, old, book).ends(told(), findings);
                let closed = book.sharding.run_states.get(by).and_then(|run_state| run_state.ended);
                self.note_missed(shard, old, closed, book);
                FireClosure::Finished
            }
            OpenRunFate::CalledOff => {
                self.trial(&run, old, book).dropped(told(), findings);
                FireClosure::Dropped
            }
            // The check of the watermark covers whether its fire is ignored now.
            _ if old.attempt == 1 && matches!(old.fire, Fire::Due(_)) => {
                if let Some((_, _, count)) = book.sharding.missed.get_mut(&shard).filter(|m| old.due < m.0) {
                    *count = count.saturating_sub(1);
                }
                let fire = book.sharding.fire(&old.fire, shard);
                fire.claimed = false;
                fire.attempts.clear();
                return;
            }
            _ => {
                // It may go without a verdict only with its job, and with one if its node is no longer eligible.
                let bound = book.spec.as_ref().is_some_and(|spec| !spec.job.node_selector.is_everywhere());
                let may = book.spec.is_none() || (bound && told().any(|v| v.reason.contains(FITS_NO_MORE)));
                findings.test(at, Invariant::I16, may, || {
                    format!("{run} was closed by {kind} without a start and without a word")
                });
                FireClosure::Dropped
            }
        };
        book.sharding.fire(&old.fire, shard).closed = Some(closed);
    }

    /// Counts from here on the fires that the shard missed while it ran. A fire that was late before does not count.
    fn note_missed(&self, shard: Shard, old: &Attempt, closed: Option<Wall>, book: &mut JobTrack) {
        book.sharding.missed.remove(&shard);
        let (Some(closed), Some(spec), Some(schedule)) = (closed, &book.spec, &book.schedule) else { return };
        // The writer's clock may be ahead, and it may be written long after.
        let over = book
            .sharding
            .fires
            .get(&(old.fire.clone(), shard))
            .and_then(|fire| fire.attempts.get(&old.attempt)?.over);
        let truly = Wall(START.0 + over.unwrap_or(self.at()));
        // A node with a clock known to be off uses the registry's time, which is behind by the round trip of an answer.
        let off = (closed - truly).0.abs() > ALLOWED;
        let closed = closed.min(truly - Millis(if off { TIMEOUT } else { 0 }));
        let Some(watermark) = self.before.watermark(shard) else { return };
        let late = schedule.next(watermark.max(spec.since)).is_some_and(|due| due <= old.starts_at());
        if !late && book.fires_by_schedule() {
            book.sharding.missed.insert(shard, (closed, book.edition, 0));
        }
    }
}
