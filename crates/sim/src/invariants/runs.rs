//! Checks physical starts and ends against the registry at the same moment.

use evenkeel_core::effect::{Run, Verdict};
use evenkeel_core::ids::{Fire, Member, NodeName, RunId};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::Delivery;
use evenkeel_core::keys;
use evenkeel_core::record::{Plan, RunState, decode};
use evenkeel_core::store::Store;
use evenkeel_core::time::Now;

use super::{Invariant, InvariantChecker, JobTrack};
use crate::world::clock::START;

/// How long after its deletion a job's claimed fire may start: the lead, the start window, and the unnoticed skew of a
/// node's clock.
pub(super) const AFTER_DELETE: i64 = 1_000 + 1_000 + UNNOTICED;
/// The allowed skew of a node's wall clock.
pub(super) const ALLOWED: i64 = 500;
/// The skew that a node may not notice: the allowed one, and the round trip of an answer.
pub(super) const UNNOTICED: i64 = ALLOWED + crate::world::TIMEOUT;

impl InvariantChecker {
    pub(crate) fn started(
        &mut self,
        at: i64,
        name: &NodeName,
        member: Option<Member>,
        now: Now,
        run: &Run,
        store: &Store,
    ) {
        self.starts += 1;
        if self.sentinel {
            self.findings.test(at, Invariant::Sentinel, false, || "this one always breaks".to_owned());
        }
        let trust = member.as_ref().and_then(|m| self.trust(name, m.incarnation));
        self.check_fit(at, name, run);
        self.check_limits(at, name, run);
        self.check_past(at, run);
        let Self { findings, jobs, past, .. } = self;
        let book = jobs.entry(run.id.job.clone()).or_default();
        let id = || format!("{} attempt {} on {name}", run.id, run.attempt);
        findings.test(at, Invariant::I3, trust.is_some_and(|until| now.mono < until), || {
            format!("{} started without trust", id())
        });
        book.check_not_cancelled(at, &run.id, findings);
        if book.is_sharded() {
            if let Some(member) = &member {
                let claim = |seq| past.token(seq);
                book.shard_started((at, name), member, run, (store, &claim), findings);
            }
            return;
        }
        let claimed =
            claim_of(store, book, run, member.as_ref()).map(|seq| past.token(seq)) == Some(run.token);
        findings.test(at, Invariant::I18, claimed, || format!("{} started without a claim", id()));
        let claimed = book.fires.get(&run.id.fire).map_or(1, |fire| fire.concurrent);
        let beside = book.overlap().max_concurrent_runs().max(claimed);
        let room = book.running.len() < beside && !book.running.contains_key(&run.id.fire);
        findings.test(at, Invariant::I15, room, || format!("{} runs beside {:?}", id(), book.running));
        book.running.insert(run.id.fire.clone(), (run.attempt, name.clone()));
        let last = book.tokens.insert((beside > 1).then(|| run.id.fire.clone()), run.token);
        findings.test(at, Invariant::I2, last.is_none_or(|last| last < run.token), || {
            format!("{} has token {} after {last:?}", id(), run.token)
        });
        book.follows_its_last(at, &run.id, findings);
        if let Fire::Due(due) = run.id.fire {
            let early = START.0 + at + UNNOTICED < due.0;
            findings.test(at, Invariant::I17, !early, || format!("{} started early", id()));
        }
        if let Some(deleted) = book.deleted {
            findings.test(at, Invariant::I41, at <= deleted + AFTER_DELETE, || {
                format!("{} started after its job was deleted", id())
            });
        }
        self.note_start(at, run);
    }

    fn note_start(&mut self, at: i64, run: &Run) {
        let Self { findings, jobs, .. } = self;
        let Some(book) = jobs.get_mut(&run.id.job) else { return };
        let (delivery, retry) = (book.delivery, book.retry.clone());
        let Some(fire) = book.fires.get_mut(&run.id.fire) else { return };
        let Some(attempt) = fire.attempts.get_mut(&run.attempt) else { return };
        let again = attempt.started.replace(at);
        let id = || format!("{} attempt {}", run.id, run.attempt);
        findings.test(at, Invariant::I14, again.is_none(), || format!("{} started twice", id()));
        let starts = fire.doubtful_starts(retry.as_ref());
        let once = delivery == Delivery::AtLeastOnce || starts == 1;
        findings.test(at, Invariant::I19, once, || format!("{} started again, but is at_most_once", id()));
        if matches!(run.id.fire, Fire::Asked(_)) && delivery == Delivery::AtMostOnce {
            findings.test(at, Invariant::I24, starts == 1, || format!("{} ran twice", id()));
        }
    }

    pub(crate) fn ended(&mut self, at: i64, name: &NodeName, run: &RunId, attempt: u32, ended: RunOutcome) {
        let Some(book) = self.jobs.get_mut(&run.job) else { return };
        if book.is_sharded() {
            return book.sharding.ended(at, name, run, attempt, ended);
        }
        if book.running.get(&run.fire).is_some_and(|(of, on)| *of == attempt && on == name) {
            book.running.remove(&run.fire);
        }
        if let Some(attempt) = book.attempt(&run.fire, attempt) {
            (attempt.ended, attempt.over) = (Some(ended), Some(at));
        }
    }

    /// Records a verdict that reached the history, which may have it already.
    pub(crate) fn recorded(&mut self, at: i64, verdict: &Verdict, before: Option<&Verdict>) {
        let same = before.is_none_or(|b| b.state == verdict.state && b.due == verdict.due);
        self.findings.test(at, Invariant::I22, same, || {
            format!("{} attempt {} was recorded as {before:?}", verdict.run, verdict.attempt)
        });
    }
}

/// The token under which this member may start this attempt, if the registry has it.
fn claim_of(store: &Store, book: &JobTrack, run: &Run, member: Option<&Member>) -> Option<u64> {
    let entry = |key| store.entry(&key);
    let (by, seq) = if book.is_dispatched() {
        let plan = entry(keys::plan(&run.id.job)).and_then(|entry| decode::<Plan>(&entry.value));
        let runs = plan.into_iter().flat_map(|plan| plan.runs);
        let mut open = runs.filter(|r| r.is_claimed() && r.fire == run.id.fire && r.attempt == run.attempt);
        let open = open.next()?;
        (open.by, open.seq)
    } else {
        let run_state =
            entry(keys::run_state(&run.id.job)).and_then(|entry| decode::<RunState>(&entry.value));
        let open = run_state.and_then(|run_state| run_state.open_of(&run.id.fire).cloned());
        let open = open.filter(|open| open.attempt == run.attempt)?;
        (open.by, open.seq)
    };
    (Some(&by) == member).then_some(seq)
}
