//! Election: each sharded job has a leader, which reshards it (S3-02 … S3-04).
//!
//! The leadership is an entry in the job's assignment that names a member. A member that takes part in the job and
//! finds no leader, or a dead one, claims the leadership; the registry lets one of them through. A leader that takes
//! part no more, because it leaves, drains or is excluded, or because the job is disabled or deleted, releases it; a
//! dead one is replaced in a commit guarded by its absence. No node waits for an election: without a leader no reshard
//! happens, and every candidate looks again at each change.

use crate::commit_kind::CommitKind;
use crate::effect::Event;
use crate::keys;
use crate::placement::sharded_job::ShardedJob;
use crate::record::{ReshardCause, ReshardPending, Sharding};
use crate::registry::Guard;
use crate::rule_context::{CommitNotice, RuleContext, RuleOutput};
use crate::view::JobId;

/// Claims the leadership, or releases it.
pub fn decide(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    let Some(sharded) = ShardedJob::of(ctx, id) else { return };
    let leader = sharded.sharding.leader.as_ref();
    let mine = leader == Some(ctx.member);
    if leader.is_some_and(|leader| !mine && !sharded.is_dead(leader)) {
        return;
    }
    let eligible =
        sharded.is_enabled() && sharded.may_take_part() && sharded.job.available().contains(&ctx.member);
    match (eligible, leader) {
        (true, _) if mine => {}
        (true, gone) => {
            let guard = gone.map(|gone| Guard::Absent(keys::node(gone)));
            let mark = ReshardPending { since: ctx.now.wall, why: ReshardCause::Elected };
            let sharding = Sharding {
                leader: Some(ctx.member.clone()),
                reshard_pending: Some(sharded.sharding.reshard_pending.unwrap_or(mark)),
                ..sharded.sharding.clone()
            };
            let (scope, name) = (sharded.scope(), sharded.job.name().clone());
            out.notices.extend([
                CommitNotice { scope: scope.clone(), sent: true, event: Event::Electing(name.clone()) },
                CommitNotice { scope: scope.clone(), sent: false, event: Event::Elected(name) },
            ]);
            out.commit(scope, CommitKind::Elect, sharded.txn(guard, [sharded.put(sharding)].into()));
        }
        (false, Some(_)) if mine => resign(&sharded, None, CommitKind::Resign, out),
        // A disabled job ends without a leader, also if its leader ended first (S3-15).
        (false, Some(gone)) if !sharded.is_enabled() && sharded.is_steward() => {
            resign(&sharded, Some(Guard::Absent(keys::node(gone))), CommitKind::Depose, out);
        }
        (false, _) => {}
    }
}

fn resign(sharded: &ShardedJob<'_>, guard: Option<Guard>, kind: CommitKind, out: &mut RuleOutput) {
    let sharding = Sharding { leader: None, ..sharded.sharding.clone() };
    out.commit(sharded.scope(), kind, sharded.txn(guard, [sharded.put(sharding)].into()));
}
