//! Reshards with cordoned members: they keep their shards and get no others.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::ids::Member;
use crate::placement::sharded_job::ShardedJob;
use crate::record::Sharding;
use crate::rule_context::RuleOutput;
use crate::shards::ShardSet;
use crate::view::ShardTerms;

/// Whether no reshard is of use, as shards would have to go to cordoned nodes: all that take part are. The shards stay
/// where they are, those of dead members too. In a broadcast job each node has a shard of its own; sticky shards have
/// their nodes.
pub(super) fn lacks_takers(sharded: &ShardedJob<'_>, terms: &ShardTerms) -> bool {
    let shard_map = &sharded.sharding.shard_map;
    let have_nodes = terms.sticky_shards && shard_map.number > 0 && Some(shard_map.total) == terms.total;
    let available = sharded.job.available();
    terms.total.is_some()
        && !have_nodes
        && !available.is_empty()
        && available.iter().all(|member| sharded.ctx.view.is_cordoned(&member.node))
}

/// Takes a requested reshard back, since no fire is claimed while it is pending.
pub(super) fn withdraw_reshard(sharded: &ShardedJob<'_>, out: &mut RuleOutput) {
    if sharded.sharding.reshard_pending.is_some() {
        let sharding = Sharding { reshard_pending: None, ..sharded.sharding.clone() };
        out.commit(
            sharded.scope(),
            CommitKind::WithdrawReshard,
            sharded.txn(None, [sharded.put(sharding)].into()),
        );
    }
}

/// The shards that cordoned members keep, and the other members, which get the rest. A draining shard is not kept: it
/// goes where it belongs once its run has ended.
pub(super) fn keep<'a>(
    sharded: &ShardedJob<'_>,
    total: u32,
    among: &'a [Member],
) -> (BTreeMap<Member, ShardSet>, Vec<&'a Member>) {
    let old = &sharded.sharding.shard_map;
    let all = ShardSet::all(total).minus(&old.draining);
    let had = |member: &Member| {
        let assignment = old.assignments.iter().find(|assignment| assignment.holder == *member);
        assignment.map_or_else(ShardSet::empty, |assignment| assignment.shards().and(&all))
    };
    let (cordoned, takers): (Vec<&Member>, Vec<&Member>) =
        among.iter().partition(|member| sharded.ctx.view.is_cordoned(&member.node));
    (cordoned.into_iter().map(|member| (member.clone(), had(member))).collect(), takers)
}
