//! Checks accepted writes of a sharded job: its assignment, its members' run states, and the effect on each shard.
//!
//! Assignment and run states are compared before and after each transaction. The effect of a transaction is derived
//! from that, shard by shard; the sender's name for it is only reported.

use std::collections::BTreeSet;

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, JobName, Member, RunId, Shard};
use evenkeel_core::record::{Assignment, ShardRunState, Sharding};
use evenkeel_core::time::Millis;

use super::{CommittedTxn, Invariant, InvariantChecker, InvariantResults, JobTrack, RecordedVerdicts};

mod open_runs;
mod quiet_job;
mod requests;
mod reshards;
mod sharded_track;
mod starts;

pub(super) use quiet_job::check_quiet_job;
use sharded_track::ShardPositions;
pub(super) use sharded_track::ShardedJobTrack;

/// A written run state, or `None` if it was deleted.
pub(super) type ShardRunStateWrite = Vec<(Member, Option<ShardRunState>)>;

/// One accepted transaction about a sharded job.
struct ShardedTxn<'a> {
    act: &'a CommittedTxn<'a>,
    job: &'a JobName,
    /// The leader, the pending reshard and the shard map, before and after it.
    old: Sharding,
    new: Sharding,
    /// The epochs of the assignment.
    epochs: (u64, u64),
    before: ShardPositions,
    after: ShardPositions,
    lives: &'a dyn Fn(&Member) -> bool,
    ttl: Millis,
}

impl InvariantChecker {
    /// Checks a transaction that wrote the assignment of a sharded job, its run states, or both.
    pub(super) fn sharding_written(
        &mut self,
        act: &CommittedTxn<'_>,
        job: &JobName,
        old: &Assignment,
        written: ShardRunStateWrite,
        lives: &dyn Fn(&Member) -> bool,
        history: &RecordedVerdicts,
    ) {
        let ttl = self.beliefs.get(act.node).map_or(Millis(0), |mind| mind.ttl);
        let Self { findings, jobs, .. } = self;
        let Some(book) = jobs.get_mut(job) else { return };
        let new = book.assignment.sharding.as_deref().cloned().unwrap_or_default();
        for (member, run_state) in written {
            shard_run_state_written(act, job, &member, run_state, book, lives, findings);
        }
        let after = ShardPositions::of(&new, &book.sharding.run_states);
        let turn = ShardedTxn {
            act,
            job,
            old: old.sharding.as_deref().cloned().unwrap_or_default(),
            new,
            epochs: (old.epoch, book.assignment.epoch),
            before: std::mem::take(&mut book.sharding.standing),
            after,
            lives,
            ttl,
        };
        turn.leader(book, findings);
        turn.check_reshard(book, findings);
        turn.verdicts(history, findings);
        let shards: BTreeSet<Shard> = turn.before.shards().union(&turn.after.shards()).copied().collect();
        for shard in shards {
            turn.check_ownership(shard, findings);
            turn.shard(shard, book, findings);
        }
        turn.refusals(book, findings);
        book.sharding.reshard_since = match (turn.old.reshard_pending, turn.new.reshard_pending) {
            (_, None) => None,
            (Some(_), Some(_)) => book.sharding.reshard_since,
            (None, Some(_)) => Some(act.at),
        };
        book.sharding.standing = turn.after;
    }
}

/// A run state is written only by its member, or by a member that settles for one that is gone.
fn shard_run_state_written(
    act: &CommittedTxn<'_>,
    job: &JobName,
    member: &Member,
    run_state: Option<ShardRunState>,
    book: &mut JobTrack,
    lives: &dyn Fn(&Member) -> bool,
    findings: &mut InvariantResults,
) {
    let (at, me, kind) = (act.at, act.member, act.kind);
    let by_right = me == Some(member) || !lives(member);
    findings.test(at, Invariant::I2, me.is_some() && by_right, || {
        format!("{me:?} wrote the lane of {job} that is {member}'s, who lives ({kind})")
    });
    let run_states = &mut book.sharding.run_states;
    let Some(run_state) = run_state else {
        run_states.remove(member);
        return;
    };
    let before = run_states.get(member).map_or(0, |run_state| run_state.seq);
    findings.test(at, Invariant::I1, run_state.seq > before, || {
        format!("{kind} wrote seq {} of {job} at {member} over {before}", run_state.seq)
    });
    run_states.insert(member.clone(), run_state);
}

impl ShardedTxn<'_> {
    fn at(&self) -> i64 {
        self.act.at
    }

    fn was_resharded(&self) -> bool {
        self.old.shard_map.number != self.new.shard_map.number
    }

    fn run(&self, fire: &Fire, shard: Shard) -> RunId {
        RunId { job: self.job.clone(), fire: fire.clone(), shard }
    }

    fn new_verdicts(&self, state: VerdictState) -> impl Iterator<Item = &Verdict> {
        let new = move |(key, v): &(&(RunId, u32), &Verdict)| {
            v.state == state && !self.before.verdicts.contains_key(*key)
        };
        self.after.verdicts.iter().filter(new).map(|(_, verdict)| verdict)
    }

    /// A verdict leaves the run states only once history has it.
    fn verdicts(&self, history: &RecordedVerdicts, findings: &mut InvariantResults) {
        for key in self.before.verdicts.keys().filter(|key| !self.after.verdicts.contains_key(*key)) {
            findings.test(self.at(), Invariant::I22, history.contains_key(key), || {
                format!("the verdict on {} was dropped before history had it", key.0)
            });
        }
    }

    /// A shard is in one run state. It moves with a reshard, while it rests; or by failover, from a dead member.
    fn check_ownership(&self, shard: Shard, findings: &mut InvariantResults) {
        let (at, job, kind) = (self.at(), self.job, self.act.kind);
        let doubled = self.after.doubled.contains(&shard);
        findings.test(at, Invariant::I28, !doubled, || {
            format!("shard {shard} of {job} is in two lanes after {kind}")
        });
        let (Some((from, _)), Some((to, _))) = (self.before.held.get(&shard), self.after.held.get(&shard))
        else {
            return;
        };
        let ran = self.before.open.get(&shard);
        if self.was_resharded() && ran.is_some() {
            findings.test(at, Invariant::I28, ran.is_some_and(|(by, _)| by == to), || {
                format!("shard {shard} of {job} went from {from} to {to} while it was open at {ran:?}")
            });
        }
        if from == to {
            return;
        }
        let rescued = self.after.open.get(&shard).is_some_and(|(by, _)| by == to) && !(self.lives)(from);
        findings.test(at, Invariant::I28, self.was_resharded() || rescued, || {
            format!("shard {shard} of {job} went from {from} to {to} by {kind}")
        });
    }
}
