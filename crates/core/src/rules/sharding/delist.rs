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
use crate::record::{ShardAssignment, ShardRunState, Sharding};
use crate::registry::{Guard, Write};
use crate::rule_context::RuleOutput;
use crate::sharded_job::ShardedJob;

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
pub(super) fn among_max(table: &ShardedJob<'_>) -> usize {
    let room = table.scene.local.settings.operations_max.saturating_sub(CUT);
    super::AMONG_MAX.min(room.saturating_sub(SPARE)).max(room / 2)
}

/// Whether a run state can be removed: its member is gone, and nothing is left in it.
pub(super) fn may_go(
    table: &ShardedJob<'_>,
    member: &Member,
    lanes: &BTreeMap<&Member, ShardRunState>,
) -> bool {
    table.is_dead(member) && lanes.get(member).is_some_and(ShardRunState::is_empty)
}

/// Whether a reshard fits into a transaction. If not, as many run states as fit into one are removed first; where none
/// can be, some must become idle before.
pub(super) fn makes_room(
    table: &ShardedJob<'_>,
    lanes: &BTreeMap<&Member, ShardRunState>,
    out: &mut RuleOutput,
) -> bool {
    let go: Vec<&Member> = table.sharding.lanes.iter().filter(|m| may_go(table, m, lanes)).collect();
    let fits = is_room_for(table, table.sharding.lanes.len(), go.len());
    if !fits && !go.is_empty() {
        let most = table.scene.local.settings.operations_max.saturating_sub(BASE) / (LANE + GOES);
        delist(table, &go[..go.len().min(most.max(1))], out);
    }
    fits
}

/// Delists this node itself, where a reshard needs the room and gives it no shard. Returns whether it does.
pub(super) fn leave(
    table: &ShardedJob<'_>,
    among: impl FnOnce() -> Vec<Member>,
    out: &mut RuleOutput,
) -> bool {
    let me = table.scene.member;
    let listed = &table.sharding.lanes;
    let living = || listed.iter().filter(|member| !table.is_dead(member)).count();
    let wanted = table.sharding.mark.is_some() && listed.contains(me) && !is_room_for(table, living(), 0);
    let rests = || {
        let runs = table.scene.local.given_of(table.job.id).next().is_some();
        !runs && table.run_state(me).is_some_and(|lane| lane.is_empty())
    };
    let goes = wanted && rests() && !among().contains(me);
    if goes {
        delist(table, &[me], out);
    }
    goes
}

fn is_room_for(table: &ShardedJob<'_>, lanes: usize, go: usize) -> bool {
    CUT + LANE * lanes + GOES * go <= table.scene.local.settings.operations_max
}

/// Delists run states; their shards keep their assignment.
fn delist(table: &ShardedJob<'_>, members: &[&Member], out: &mut RuleOutput) {
    let mut sharding: Sharding = table.sharding.clone();
    let (mut guards, mut writes) = (Vec::new(), Vec::new());
    for member in members {
        let (Some(lane), Some(known)) = (table.run_state(member), table.known(member)) else { continue };
        guards.extend(table.run_state_guard(member));
        guards.extend(table.is_dead(member).then(|| Guard::Absent(keys::node(member))));
        if known.value.is_some() {
            writes.push(Write::Delete { key: keys::shard_run_state(table.job.name(), member) });
        }
        sharding.cut.seq = sharding.cut.seq.max(lane.seq);
        sharding.cut.furthest = super::furthest(&sharding.cut, core::iter::once(&lane));
        sharding.kept.retain(|kept| kept.holder != **member);
        if !lane.groups.is_empty() {
            sharding.kept.push(ShardAssignment { holder: (*member).clone(), groups: lane.groups });
        }
    }
    sharding.lanes.retain(|member| !members.contains(&member));
    writes.insert(0, table.put(sharding));
    out.commit(table.scope(), CommitKind::Delist, table.txn(guards, writes));
}
