//! Lanes in which nothing is left go ahead of a cut, when they are too many for it.
//!
//! A cut guards on every lane that is listed, and deletes those of the dead; an engine takes only so many operations in one
//! transaction. So when most of a large fleet was restarted between two fires, lanes go a few in a commit before it. How
//! far a lane's shards had come is kept in the place, out of which the cut takes it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::ids::Member;
use crate::keys;
use crate::record::{ShardAssignment, ShardRunState, Sharding};
use crate::registry::{Guard, Write};
use crate::rule_context::RuleOutput;
use crate::sharded_job::ShardedJob;

/// What a cut consists of beside the lanes: the guards on this node, the place and the requests by hand, these two written;
/// and this node's own lane, if it was not listed before.
const CUT: usize = 7;
/// What one lane adds: a guard.
const LANE: usize = 1;
/// What a lane adds beside its guard when it goes: its deletion, and the guard that its member is gone.
const GOES: usize = 2;
/// What a commit consists of that does nothing but take lanes off the list, beside these.
const BASE: usize = 3;
/// For how many lanes beside those it is cut among there is always room: of the dead, and of runs that go on elsewhere.
const SPARE: usize = 21;

/// Among how many nodes there may be a cut; an engine that takes little leaves half of it for lanes that go.
pub(super) fn among_max(table: &ShardedJob<'_>) -> usize {
    let room = table.scene.local.settings.operations_max.saturating_sub(CUT);
    super::AMONG_MAX.min(room.saturating_sub(SPARE)).max(room / 2)
}

/// Whether a lane can go: its member is gone, and nothing is left in it.
pub(super) fn may_go(
    table: &ShardedJob<'_>,
    member: &Member,
    lanes: &BTreeMap<&Member, ShardRunState>,
) -> bool {
    table.is_dead(member) && lanes.get(member).is_some_and(ShardRunState::is_empty)
}

/// Whether a cut fits into a transaction. If not, as many lanes as fit into one go first; where none can, some must come to
/// rest before.
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

/// Takes this node itself off the list, where a cut needs the room and gives it nothing. Returns whether it does.
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

/// Takes lanes off the list; their shards stay whose they were, where they were.
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
