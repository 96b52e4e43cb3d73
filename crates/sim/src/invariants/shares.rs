//! Accepted writes of a sharded job: its place with the shares, its members' lanes; and what became of each shard by them.
//!
//! Place and lanes are looked at together, as they stand before and after each transaction. What a transaction means is
//! worked out again from that, shard by shard; what its sender called it is only told.

use std::collections::BTreeSet;

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::record::{Place, ShardLane, Sharding};
use evenkeel_core::time::Millis;
use evenkeel_core::words::{Fire, JobName, Member, RunId, Shard};

use super::{Act, Findings, Invariant, JobBook, Verdicts, Watch};

mod asked;
mod book;
mod cuts;
mod opens;
mod rest;
mod starts;

pub(super) use book::ShareBook;
use book::Standing;
pub(super) use rest::look;

/// A lane as it was written, or `None` when it was deleted.
pub(super) type Written = Vec<(Member, Option<ShardLane>)>;

/// One accepted transaction about a sharded job.
struct Turn<'a> {
    act: &'a Act<'a>,
    job: &'a JobName,
    /// Who leads, the mark and the cut before and after it.
    old: Sharding,
    new: Sharding,
    /// The place's epochs.
    epochs: (u64, u64),
    before: Standing,
    after: Standing,
    lives: &'a dyn Fn(&Member) -> bool,
    ttl: Millis,
}

impl Watch {
    /// A transaction wrote the place of a sharded job, lanes of it, or both.
    pub(super) fn shares_written(
        &mut self,
        act: &Act<'_>,
        job: &JobName,
        old: &Place,
        written: Written,
        lives: &dyn Fn(&Member) -> bool,
        history: &Verdicts,
    ) {
        let ttl = self.minds.get(act.node).map_or(Millis(0), |mind| mind.ttl);
        let Self { findings, jobs, .. } = self;
        let Some(book) = jobs.get_mut(job) else { return };
        let new = book.place.sharding.as_deref().cloned().unwrap_or_default();
        for (member, lane) in written {
            lane_written(act, job, &member, lane, book, lives, findings);
        }
        let after = Standing::of(&new, &book.shares.lanes);
        let turn = Turn {
            act,
            job,
            old: old.sharding.as_deref().cloned().unwrap_or_default(),
            new,
            epochs: (old.epoch, book.place.epoch),
            before: std::mem::take(&mut book.shares.standing),
            after,
            lives,
            ttl,
        };
        turn.leader(book, findings);
        turn.cut(book, findings);
        turn.verdicts(history, findings);
        let shards: BTreeSet<Shard> = turn.before.shards().union(&turn.after.shards()).copied().collect();
        for shard in shards {
            turn.hands(shard, findings);
            turn.shard(shard, book, findings);
        }
        turn.refusals(book, findings);
        book.shares.marked = match (turn.old.mark, turn.new.mark) {
            (_, None) => None,
            (Some(_), Some(_)) => book.shares.marked,
            (None, Some(_)) => Some(act.at),
        };
        book.shares.standing = turn.after;
    }
}

/// Only its member writes a lane, or whoever settles for a member that is gone.
fn lane_written(
    act: &Act<'_>,
    job: &JobName,
    member: &Member,
    lane: Option<ShardLane>,
    book: &mut JobBook,
    lives: &dyn Fn(&Member) -> bool,
    findings: &mut Findings,
) {
    let (at, me, kind) = (act.at, act.member, act.kind);
    let by_right = me == Some(member) || !lives(member);
    findings.test(at, Invariant::I2, me.is_some() && by_right, || {
        format!("{me:?} wrote the lane of {job} that is {member}'s, who lives ({kind})")
    });
    let lanes = &mut book.shares.lanes;
    let Some(lane) = lane else {
        lanes.remove(member);
        return;
    };
    let before = lanes.get(member).map_or(0, |lane| lane.seq);
    findings.test(at, Invariant::I1, lane.seq > before, || {
        format!("{kind} wrote seq {} of {job} at {member} over {before}", lane.seq)
    });
    lanes.insert(member.clone(), lane);
}

impl Turn<'_> {
    fn at(&self) -> i64 {
        self.act.at
    }

    fn was_cut(&self) -> bool {
        self.old.cut.number != self.new.cut.number
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

    /// A verdict leaves the lanes only once history has it.
    fn verdicts(&self, history: &Verdicts, findings: &mut Findings) {
        for key in self.before.verdicts.keys().filter(|key| !self.after.verdicts.contains_key(*key)) {
            findings.test(self.at(), Invariant::I22, history.contains_key(key), || {
                format!("the verdict on {} was dropped before history had it", key.0)
            });
        }
    }

    /// A shard is in one lane. It changes hands with a cut, while it rests; or by failover, out of a lane of the dead.
    fn hands(&self, shard: Shard, findings: &mut Findings) {
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
        if self.was_cut() && ran.is_some() {
            findings.test(at, Invariant::I28, ran.is_some_and(|(by, _)| by == to), || {
                format!("shard {shard} of {job} went from {from} to {to} while it was open at {ran:?}")
            });
        }
        if from == to {
            return;
        }
        let rescued = self.after.open.get(&shard).is_some_and(|(by, _)| by == to) && !(self.lives)(from);
        findings.test(at, Invariant::I28, self.was_cut() || rescued, || {
            format!("shard {shard} of {job} went from {from} to {to} by {kind}")
        });
    }
}
