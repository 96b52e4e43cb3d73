//! Faults with sharded jobs: leaders, pending reshards, reshards, failover, and the fires of single shards.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Effect;
use evenkeel_core::ids::{JobName, Member};
use evenkeel_core::input::Input;
use evenkeel_core::job::CatchUp;
use evenkeel_core::keys::{ParsedKey, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{Assignment, Sharding, SpecRecord, TriggerRecord, decode, encode};
use evenkeel_core::registry::{Change, Guard, Txn, TxnOutcome, Write};
use evenkeel_core::rule_context::Rule;
use evenkeel_core::rules::{
    BEAT, CLAIMS, CONTROL, DISPATCH, DRAIN, ELECTION, FIRING, HEALTH, LOCKS, MEMBERSHIP, POOLS, PROMOTION,
    SHARDING,
};
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::{Now, Wall};

use super::commits::commits;
use crate::mutation::Mutation;

/// All changes of entries that a node receives.
pub(super) fn heard_changes(input: &mut Input) -> &mut [Change] {
    match input {
        Input::Listed(Some(batch)) | Input::Changed(batch) => &mut batch.changes,
        Input::Committed { outcome: TxnOutcome::Refused(found), .. } => found,
        _ => &mut [],
    }
}

/// Changes the assignments of sharded jobs that a node receives.
fn change_heard_assignments(input: &mut Input, change: impl Fn(&mut Sharding)) {
    for entry in
        heard_changes(input).iter_mut().filter(|c| matches!(parse(&c.key), Some(ParsedKey::Assignment(_))))
    {
        if let Some(entry) = &mut entry.entry
            && let Some(mut place) = decode::<Assignment>(&entry.value)
            && let Some(sharding) = &mut place.sharding
        {
            change(sharding);
            entry.value = encode(&place);
        }
    }
}

/// Changes the assignments in transactions of these kinds.
pub(super) fn change_written_assignments(
    effects: &mut [Effect],
    kinds: &[CommitKind],
    change: impl Fn(&JobName, &mut Sharding),
) {
    for write in commits(effects, kinds).flat_map(|txn| &mut txn.writes) {
        if let Write::Put { key, value, .. } = write
            && let Some(ParsedKey::Assignment(job)) = parse(key)
            && let Some(mut place) = decode::<Assignment>(value)
            && let Some(sharding) = &mut place.sharding
        {
            change(&job, sharding);
            *value = encode(&place);
        }
    }
}

fn change_written_run_state(txn: &Txn) -> bool {
    txn.writes.iter().any(|write| matches!(parse(write.key()), Some(ParsedKey::ShardRunState(..))))
}

/// Claims fires while a reshard is pending: it does not receive pending reshards.
pub(super) struct IgnoresReshardPending;

impl Mutation for IgnoresReshardPending {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        change_heard_assignments(input, |sharding| sharding.reshard_pending = None);
    }
}

/// Acts as the leader of a job that another member leads.
pub(super) struct AssumesLeadership;

impl Mutation for AssumesLeadership {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        let me = node.member();
        change_heard_assignments(input, |sharding| sharding.leader = sharding.leader.take().and(me.clone()));
    }
}

/// Stands for election although there is a leader.
pub(super) struct ElectsSecondLeader;

impl Mutation for ElectsSecondLeader {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        let me = node.member();
        change_heard_assignments(input, |sharding| {
            sharding.leader = sharding.leader.take().filter(|l| Some(l) == me.as_ref())
        });
    }
}

/// Drops the pending reshard when it becomes the leader.
pub(super) struct DropsReshardPending;

impl Mutation for DropsReshardPending {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        change_written_assignments(effects, &[CommitKind::Elect], |_, sharding| {
            sharding.reshard_pending = None
        });
    }
}

/// Reshards without a guard on what it read: it clears the pending reshard too early.
pub(super) struct ReshardsUnguarded;

impl Mutation for ReshardsUnguarded {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        commits(effects, &[CommitKind::Reshard])
            .for_each(|txn| txn.guards.retain(|guard| !matches!(guard, Guard::At(..))));
    }
}

/// Drops the watermarks of dead members in a reshard.
pub(super) struct DropsDeadWatermarks;

impl Mutation for DropsDeadWatermarks {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        let view = node.view();
        change_written_assignments(effects, &[CommitKind::Reshard], |job, sharding| {
            let Some(old) = view.id(job).and_then(|id| view.job(id).sharding()) else { return };
            let gone = old
                .shard_map
                .assignments
                .iter()
                .filter(|assignment| view.member(&assignment.holder).is_none());
            let gone = gone.flat_map(|assignment| &assignment.groups);
            let gone = gone.fold(ShardSet::empty(), |all, group| all.or(&group.shards));
            let groups =
                sharding.shard_map.assignments.iter_mut().flat_map(|assignment| &mut assignment.groups);
            groups.filter(|group| group.shards.meets(&gone)).for_each(|group| group.watermark = Wall::MIN);
        });
    }
}

/// Restarts tokens with each reshard.
pub(super) struct RestartsTokensOnReshard;

impl Mutation for RestartsTokensOnReshard {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        change_written_assignments(effects, &[CommitKind::Reshard], |_, sharding| sharding.shard_map.seq = 0);
    }
}

/// Reshards under a run: draining shards go to another node.
pub(super) struct MovesDrainingShards;

impl Mutation for MovesDrainingShards {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        change_written_assignments(effects, &[CommitKind::Reshard], |_, sharding| {
            let shard_map = &mut sharding.shard_map;
            if !shard_map.draining.is_empty() {
                let mut holders: Vec<Member> =
                    shard_map.assignments.iter().map(|p| p.holder.clone()).collect();
                let by = usize::from(holders.len() > 1);
                holders.rotate_left(by);
                shard_map
                    .assignments
                    .iter_mut()
                    .zip(holders)
                    .for_each(|(assignment, holder)| assignment.holder = holder);
            }
        });
    }
}

/// Assigns shards in the order in which nodes came.
pub(super) struct AssignsByArrival;

impl Mutation for AssignsByArrival {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        change_written_assignments(effects, &[CommitKind::Reshard], |_, sharding| {
            let shard_map = &mut sharding.shard_map;
            if shard_map.draining.is_empty() {
                let mut holders: Vec<Member> =
                    shard_map.assignments.iter().map(|p| p.holder.clone()).collect();
                holders.sort_by_key(|member| member.incarnation);
                shard_map
                    .assignments
                    .iter_mut()
                    .zip(holders)
                    .for_each(|(assignment, holder)| assignment.holder = holder);
            }
        });
    }
}

/// Never reshards again after the first time.
pub(super) struct ReshardsOnce;

impl Mutation for ReshardsOnce {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        let view = node.view();
        let again = |write: &Write| {
            let Some(ParsedKey::Assignment(job)) = parse(write.key()) else { return false };
            view.id(&job).and_then(|id| view.job(id).sharding()).is_some_and(|s| s.shard_map.number > 0)
        };
        let kept = |effect: &Effect| match effect {
            Effect::Commit { kind: CommitKind::Reshard, txn, .. } => !txn.writes.iter().any(again),
            _ => true,
        };
        effects.retain(kept);
    }
}

/// Removes run states from the list, with all that they held.
pub(super) struct DelistsWithState;

impl Mutation for DelistsWithState {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        change_written_assignments(effects, &[CommitKind::Delist], |_, sharding| sharding.kept.clear());
    }
}

/// Takes no shards over.
pub(super) struct SkipsShardFailover;

impl Mutation for SkipsShardFailover {
    fn rules(&self) -> &'static [Rule] {
        const {
            &[
                MEMBERSHIP, PROMOTION, CONTROL, LOCKS, BEAT, HEALTH, CLAIMS, DRAIN, ELECTION, SHARDING,
                DISPATCH, FIRING, POOLS,
            ]
        }
    }
}

/// Takes shards over without the guard that their node is absent, or against a second takeover.
pub(super) struct FailoverUnguarded;

impl Mutation for FailoverUnguarded {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let born = |guard: &Guard| matches!(guard, Guard::Born(..));
        commits(effects, &[CommitKind::FailOver, CommitKind::Settle])
            .filter(|txn| change_written_run_state(txn))
            .for_each(|txn| txn.guards.retain(born));
    }
}

/// Takes shards over and leaves them where they were as well.
pub(super) struct FailoverDuplicates;

impl Mutation for FailoverDuplicates {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        let me = node.member();
        let kept = |write: &Write| !matches!(parse(write.key()), Some(ParsedKey::ShardRunState(_, m)) if Some(&m) != me.as_ref());
        commits(effects, &[CommitKind::FailOver]).for_each(|txn| txn.writes.retain(kept));
    }
}

/// Records the end of a shard's run without a guard against changes in the meantime.
pub(super) struct EndsUnguarded;

impl Mutation for EndsUnguarded {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        commits(effects, &[CommitKind::Finish])
            .filter(|txn| change_written_run_state(txn))
            .for_each(|txn| txn.guards.clear());
    }
}

/// Catches up every fire that a shard missed, whatever its job's policy.
pub(super) struct CatchesUpEverything;

impl Mutation for CatchesUpEverything {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        for change in
            heard_changes(input).iter_mut().filter(|c| matches!(parse(&c.key), Some(ParsedKey::Spec(_))))
        {
            if let Some(entry) = &mut change.entry
                && let Some(SpecRecord::Live(mut spec)) = decode(&entry.value)
                && spec.job.placement.is_sharded()
                && let Ok(job) = spec.job.changed(|job| job.catch_up = CatchUp::All(1_000))
            {
                spec.job = job;
                entry.value = encode(&SpecRecord::Live(spec));
            }
        }
    }
}

/// Claims a requested run, and does not write for which shards.
pub(super) struct SkipsRequestedShards;

impl Mutation for SkipsRequestedShards {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for write in commits(effects, &[CommitKind::ClaimShards]).flat_map(|txn| &mut txn.writes) {
            if let Write::Put { key, value, .. } = write
                && let Some(ParsedKey::Triggers(_)) = parse(key)
                && let Some(mut record) = decode::<TriggerRecord>(value)
            {
                for request in &mut record.requests {
                    (request.taken, request.shards) = (false, ShardSet::empty());
                }
                *value = encode(&record);
            }
        }
    }
}

/// Gives each run the present number of shards, and not that of its fire.
pub(super) struct UsesCurrentTotal;

impl Mutation for UsesCurrentTotal {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        for effect in effects {
            if let Effect::Start(run) = effect
                && let Some(spec) = node.view().find(&run.id.job).and_then(|job| job.spec())
            {
                run.shards = spec.job.placement.shards();
            }
        }
    }
}

/// Counts its lease on a clock that stands still while the host sleeps.
pub(super) struct LeaseClockSleeps;

impl Mutation for LeaseClockSleeps {
    fn counts_suspend(&self) -> bool {
        false
    }
}
