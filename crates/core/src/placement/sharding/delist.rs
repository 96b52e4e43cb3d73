//! Delisting: empty run states are removed ahead of a reshard that has no room for all of them.
//!
//! A reshard guards on every listed run state, and deletes those of dead members; an engine takes only so many
//! operations in one transaction. So when most of a large fleet was restarted between two fires, a few run states are
//! removed in commits before it. The watermarks of their shards are kept in the assignment, which the reshard reads.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::ids::Member;
use crate::keys;
use crate::placement::sharded_job::ShardedJob;
use crate::record::{ShardAssignment, ShardRunState, Sharding};
use crate::registry::{Guard, Write};
use crate::rule_context::RuleOutput;

/// The most nodes of a reshard, if the engine allows that: the commit guards on all their run states.
pub(super) const AMONG_MAX: usize = 100;

/// The operations of a reshard beside the run states: the guards on this node, the assignment and the triggers, the
/// writes of these two; and this node's own run state, if it was not listed before.
const CUT: usize = 7;
/// The operations for one run state: a guard.
const LANE: usize = 1;
/// The additional operations for a removed run state: its deletion, and the guard that its member is gone.
const GOES: usize = 2;
/// The operations of a commit that only delists run states, beside these.
const BASE: usize = 3;
/// For how many run states beside those of the nodes there is always room: of dead members, and of draining shards.
const SPARE: usize = 21;

/// The most nodes of a reshard; an engine that takes few operations keeps half of them for removals.
pub(super) fn among_max(sharded: &ShardedJob<'_>) -> usize {
    let room = sharded.ctx.local.settings.operations_max.saturating_sub(CUT);
    AMONG_MAX.min(room.saturating_sub(SPARE)).max(room / 2)
}

/// Whether a run state can be removed: its member is gone, and nothing is left in it.
pub(super) fn may_go(
    sharded: &ShardedJob<'_>,
    member: &Member,
    run_states: &BTreeMap<&Member, ShardRunState>,
) -> bool {
    sharded.is_dead(member) && run_states.get(member).is_some_and(ShardRunState::is_empty)
}

/// Whether a reshard fits into a transaction. If not, as many run states as fit into one are removed first; where none
/// can be, some must become idle before.
pub(super) fn makes_room(
    sharded: &ShardedJob<'_>,
    run_states: &BTreeMap<&Member, ShardRunState>,
    out: &mut RuleOutput,
) -> bool {
    let go: Vec<&Member> =
        sharded.sharding.run_states.iter().filter(|m| may_go(sharded, m, run_states)).collect();
    let fits = is_room_for(sharded, sharded.sharding.run_states.len(), go.len());
    if !fits && !go.is_empty() {
        let most = sharded.ctx.local.settings.operations_max.saturating_sub(BASE) / (LANE + GOES);
        delist(sharded, &go[..go.len().min(most.max(1))], out);
    }
    fits
}

/// Delists this node itself, where a reshard needs the room and gives it no shard. Returns whether it does.
pub(super) fn leave(
    sharded: &ShardedJob<'_>,
    among: impl FnOnce() -> Vec<Member>,
    out: &mut RuleOutput,
) -> bool {
    let me = sharded.ctx.member;
    let listed = &sharded.sharding.run_states;
    let living = || listed.iter().filter(|member| !sharded.is_dead(member)).count();
    let wanted = sharded.sharding.reshard_pending.is_some()
        && listed.contains(me)
        && !is_room_for(sharded, living(), 0);
    let rests = || {
        let runs = sharded.ctx.local.runs.of_job(sharded.job.id).next().is_some();
        !runs && sharded.run_state(me).is_some_and(|run_state| run_state.is_empty())
    };
    let goes = wanted && rests() && !among().contains(me);
    if goes {
        delist(sharded, &[me], out);
    }
    goes
}

fn is_room_for(sharded: &ShardedJob<'_>, run_states: usize, go: usize) -> bool {
    CUT + LANE * run_states + GOES * go <= sharded.ctx.local.settings.operations_max
}

/// Delists run states; their shards keep their assignment.
fn delist(sharded: &ShardedJob<'_>, members: &[&Member], out: &mut RuleOutput) {
    let mut sharding: Sharding = sharded.sharding.clone();
    let (mut guards, mut writes) = (Vec::new(), Vec::new());
    for member in members {
        let (Some(run_state), Some(known)) = (sharded.run_state(member), sharded.known(member)) else {
            continue;
        };
        guards.extend(sharded.run_state_guard(member));
        guards.extend(sharded.is_dead(member).then(|| Guard::Absent(keys::node(member))));
        if known.value.is_some() {
            writes.push(Write::Delete { key: keys::shard_run_state(sharded.job.name(), member) });
        }
        sharding.shard_map.seq = sharding.shard_map.seq.max(run_state.seq);
        sharding.shard_map.furthest =
            super::watermarks::furthest(&sharding.shard_map, core::iter::once(&run_state));
        sharding.kept.retain(|kept| kept.holder != **member);
        if !run_state.groups.is_empty() {
            sharding.kept.push(ShardAssignment { holder: (*member).clone(), groups: run_state.groups });
        }
    }
    sharding.run_states.retain(|member| !members.contains(&member));
    writes.insert(0, sharded.put(sharding));
    out.commit(sharded.scope(), CommitKind::Delist, sharded.txn(guards, writes));
}
