//! Checks physical starts of shards against the registry at the same moment.

use evenkeel_core::effect::Run;
use evenkeel_core::ids::{Fire, Member, NodeName, Token};
use evenkeel_core::job::Delivery;
use evenkeel_core::keys;
use evenkeel_core::record::{ShardRunState, decode};
use evenkeel_core::store::Store;

use super::super::runs::{AFTER_DELETE, UNNOTICED};
use super::super::{Invariant, InvariantResults, JobTrack};
use crate::world::clock::START;

impl JobTrack {
    /// Checks the start of a run of a shard.
    pub(in crate::invariants) fn shard_started(
        &mut self,
        (at, name): (i64, &NodeName),
        member: &Member,
        run: &Run,
        (store, token): (&Store, &dyn Fn(u64) -> Token),
        findings: &mut InvariantResults,
    ) {
        let shard = run.id.shard;
        let id = || format!("{} attempt {} on {name}", run.id, run.attempt);
        let monitored = !self.unmonitored;
        let key = keys::shard_run_state(&run.id.job, member);
        let run_state: Option<ShardRunState> = store.entry(&key).and_then(|entry| decode(&entry.value));
        let open = run_state.as_ref().and_then(|run_state| run_state.open_of(shard));
        let claimed = open.is_some_and(|open| {
            open.fire == run.id.fire && open.attempt == run.attempt && run.token <= token(open.seq)
        });
        let noted = self.sharding.fires.get(&(run.id.fire.clone(), shard));
        let noted = noted.and_then(|fire| fire.attempts.get(&run.attempt)).is_some_and(|a| a.by == *member);
        findings.test(at, Invariant::I18, noted && (claimed || !monitored), || {
            format!("{} started without a claim", id())
        });
        let beside = self.sharding.running.get(&shard).filter(|(_, _, node)| monitored || node == name);
        findings.test(at, Invariant::I15, beside.is_none(), || format!("{} runs beside {beside:?}", id()));
        self.sharding.running.insert(shard, (run.id.fire.clone(), run.attempt, name.clone()));
        let last = self.sharding.tokens.get(&shard).cloned();
        // An unmonitored run is closed before it physically starts, so its shard may have run elsewhere by then.
        let overtaken = |by: &NodeName| !monitored && by != name;
        let rises = last.as_ref().is_none_or(|(token, _)| *token < run.token);
        let holds = rises || last.as_ref().is_some_and(|(_, by)| overtaken(by));
        if rises {
            self.sharding.tokens.insert(shard, (run.token, name.clone()));
        }
        findings
            .test(at, Invariant::I2, holds, || format!("{} has token {} after {last:?}", id(), run.token));
        if let Fire::Due(due) = run.id.fire {
            let early = START.0 + at + UNNOTICED < due.0;
            findings.test(at, Invariant::I17, !early, || format!("{} started early", id()));
        }
        if let Some(deleted) = self.deleted {
            findings.test(at, Invariant::I41, at <= deleted + AFTER_DELETE, || {
                format!("{} started after its job was deleted", id())
            });
        }
        let total = self.sharding.totals.get(&(run.id.fire.clone(), shard)).copied();
        findings.test(at, Invariant::I33, total.is_none_or(|total| total == run.shards), || {
            format!("{} was claimed as one of {total:?} shards and runs as one of {}", id(), run.shards)
        });
        self.note_shard_start(at, run, findings);
    }

    fn note_shard_start(&mut self, at: i64, run: &Run, findings: &mut InvariantResults) {
        let (delivery, retry) = (self.delivery, self.retry.clone());
        let fire = self.sharding.fire(&run.id.fire, run.id.shard);
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
}
