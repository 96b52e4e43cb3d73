//! Failover: surviving members take over the running shards of a dead member at once, shard by shard.
//!
//! Where doubt means another attempt, each survivor moves as many of the dead member's unfinished shards into its own
//! run state as it has slots for, but no more than its part. Where it means no repetition, one of the survivors closes
//! them as lost. Either way a shard's state is in one run state before and in one after, in one commit that is guarded
//! by the member's absence; so another node that tries too, or dies halfway, changes nothing (I21).

use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::ids::Member;
use crate::job::Delivery;
use crate::keys;
use crate::lifecycle::{JobRuns, free_slots};
use crate::placement::sharded_job::ShardedJob;
use crate::placement::sharding;
use crate::record::{Attempt, ShardRunState, Sharding};
use crate::registry::Guard;
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::shards::ShardSet;
use crate::time::Millis;
use crate::view::JobId;

/// How long a node that took its part leaves the rest to the others.
const PATIENCE: Millis = Millis(100);

/// Looks for run states whose member is gone, and settles what is open in them.
pub fn decide(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    let Some(sharded) = ShardedJob::of(ctx, id) else { return };
    let dead: Vec<&Member> =
        sharded.sharding.run_states.iter().filter(|member| sharded.is_dead(member)).collect();
    let unread = dead.iter().filter(|member| sharded.known(member).is_none());
    let unread: Vec<_> = unread.map(|member| keys::shard_run_state(sharded.job.name(), member)).collect();
    if !unread.is_empty() {
        out.add(RuleAction::Read(id, unread));
    }
    for member in dead {
        let Some(run_state) = sharded.run_state(member).filter(|run_state| !run_state.is_empty()) else {
            continue;
        };
        let legacy = DeadMemberRuns { sharded: &sharded, member, run_state };
        if legacy.settle(out) {
            return;
        }
    }
}

/// The open runs of a dead member.
struct DeadMemberRuns<'a> {
    sharded: &'a ShardedJob<'a>,
    member: &'a Member,
    run_state: ShardRunState,
}

impl DeadMemberRuns<'_> {
    /// Moves this node's part into its own run state. Returns whether there was anything.
    fn settle(&self, out: &mut RuleOutput) -> bool {
        let sharded = self.sharded;
        let steward = sharded.is_steward();
        let repeats = sharded.terms.is_some_and(|(t, _)| t.enabled && t.delivery == Delivery::AtLeastOnce);
        // Nothing executes between two attempts, so whatever the delivery nothing is in doubt. But each shard of a
        // broadcast job belongs to one node, and no other node continues it.
        let alone = sharded.is_broadcast();
        let (goes_on, doubtful): (Vec<_>, Vec<_>) =
            self.run_state.open.iter().partition(|open| !alone && (repeats || open.wait.is_some()));
        let [goes_on, doubtful] = [goes_on, doubtful].map(|open| shards_of(&open));
        let take = self.part(&goes_on, out);
        let lost = if steward { doubtful } else { ShardSet::empty() };
        let tells = steward && !self.run_state.verdicts.is_empty();
        if take.is_empty() && lost.is_empty() && !tells {
            return false;
        }
        let Some(mut own) = sharded.run_state(sharded.ctx.member) else { return false };
        let mut left = self.run_state.clone();
        own.seq = own.seq.max(left.seq) + 1;
        left.seq += 1;
        if steward {
            own.verdicts.append(&mut left.verdicts);
        }
        for open in &self.run_state.open {
            self.settle_open(&mut own, open, open.shards.and(&take));
            self.settle_open(&mut own, open, open.shards.and(&lost));
        }
        for group in &self.run_state.groups {
            own.set_watermark(&group.shards.and(&take), group.watermark);
        }
        left.remove(&take);
        left.close(&lost);
        out.claimed += take.len();
        self.commit(
            &own,
            &left,
            if take.is_empty() { CommitKind::Settle } else { CommitKind::FailOver },
            out,
        );
        true
    }

    /// As many unfinished shards as this node has slots for, but no more than its part; the leader takes shards that no
    /// node had a slot for in all the time that a reshard waits. A cordoned node takes none.
    fn part(&self, unfinished: &ShardSet, out: &mut RuleOutput) -> ShardSet {
        let (sharded, ctx) = (self.sharded, self.sharded.ctx);
        if unfinished.is_empty() || !sharded.may_take_part() {
            return ShardSet::empty();
        }
        let mut takers = sharded.job.available();
        takers.retain(|member| !ctx.view.is_cordoned(&member.node));
        if !takers.contains(&ctx.member) {
            return ShardSet::empty();
        }
        if sharding::is_overdue(sharded) {
            return unfinished.clone();
        }
        let free = free_slots(ctx.view, ctx.local).saturating_sub(out.claimed);
        if free == 0 {
            let due = self.run_state.open.iter().map(|open| open.due).min().unwrap_or(ctx.now.wall);
            out.add(ctx.awaits_slot(&sharded.job, due));
        }
        let most = if self.is_left_over(out) { free } else { free.min(self.fair(unfinished, takers.len())) };
        unfinished.lowest(most)
    }

    /// This node's part of what the dead member left, with what it has of it already.
    fn fair(&self, unfinished: &ShardSet, nodes: usize) -> usize {
        let Some(own) = self.sharded.run_state(self.sharded.ctx.member) else { return 0 };
        let left = |open: &Attempt| {
            self.run_state.open.iter().any(|o| o.fire == open.fire && o.attempt < open.attempt)
        };
        let mine: usize = own.open.iter().filter(|open| left(open)).map(|open| open.shards.len()).sum();
        (unfinished.len() + mine).div_ceil(nodes).saturating_sub(mine)
    }

    /// Whether the others have had time to take theirs.
    fn is_left_over(&self, out: &mut RuleOutput) -> bool {
        let now = self.sharded.ctx.now;
        let Some(known) = self.sharded.job.run_state_of(self.member) else { return false };
        let ripe = known.heard + PATIENCE;
        if now.mono < ripe {
            out.add(RuleAction::JobAfter(self.sharded.job.id, ripe));
        }
        now.mono >= ripe
    }

    /// Settles these shards of an open attempt: they go on with this node, or are closed, with verdicts for the history.
    fn settle_open(&self, own: &mut ShardRunState, open: &Attempt, shards: ShardSet) {
        if shards.is_empty() {
            return;
        }
        let runs = JobRuns::new(self.sharded.ctx, self.sharded.job);
        let attempt = Attempt { shards, ..open.clone() };
        if self.sharded.is_broadcast() {
            return runs.lose(
                &attempt,
                "its node is gone; it is not repeated: no other node runs its part",
                own.outcomes(),
            );
        }
        if let Some(again) = runs.settle(&attempt, "its node is gone", own.outcomes()) {
            let begins = again.wait.is_none();
            let taken = runs.taken_over(again, own.seq);
            own.began = taken.from.filter(|_| begins).or(own.began);
            own.add_open(taken);
        }
    }

    fn commit(&self, own: &ShardRunState, left: &ShardRunState, kind: CommitKind, out: &mut RuleOutput) {
        let (sharded, me) = (self.sharded, self.sharded.ctx.member);
        let gone = Guard::Absent(keys::node(self.member));
        let guards =
            sharded.run_state_guard(self.member).into_iter().chain(sharded.run_state_guard(me)).chain([gone]);
        let mut writes =
            Vec::from([sharded.put_run_state(self.member, left), sharded.put_run_state(me, own)]);
        // Every member with a run state is listed, so that it is looked for should that member die in turn.
        if !sharded.sharding.run_states.contains(me) {
            let mut sharding: Sharding = sharded.sharding.clone();
            sharding.run_states.push(me.clone());
            writes.push(sharded.put(sharding));
        }
        out.commit(sharded.scope(), kind, sharded.txn(guards, writes));
    }
}

fn shards_of(open: &[&Attempt]) -> ShardSet {
    open.iter().fold(ShardSet::empty(), |all, open| all.or(&open.shards))
}
