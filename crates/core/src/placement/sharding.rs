//! Sharding: a job's leader reshards it among the nodes that take part, never during a fire (S2-05, S2-07).
//!
//! The shard map names the terms of its last reshard. When they change, the leader marks a reshard as pending, and from
//! then on no fire is claimed; so all runs come to an end. When the next fire is near and every run state is idle, one
//! commit writes the new assignments. A run that outlasts the wait keeps its shard where it is: it is draining. Where a
//! draining node has shards the next fire is not waited for: that node is to be free soon (S1-60).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::effect::Event;
use crate::ids::{Member, NodeName, Shard};
use crate::keys;
use crate::placement::sharded_job::ShardedJob;
use crate::record::{
    ReshardCause, ReshardPending, ShardAssignment, ShardGroup, ShardMap, ShardRunState, Sharding, encode,
    regroup,
};
use crate::registry::{Guard, Write};
use crate::rule_context::{CommitNotice, RuleAction, RuleContext, RuleOutput};
use crate::sharding_strategy;
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};
use crate::view::{JobId, ShardTerms};

use broadcast::BroadcastReshard;
pub(super) use broadcast::MOVED;
use watermarks::furthest;

mod broadcast;
mod cordoned;
mod delist;
mod watermarks;

/// How long before fires may be claimed the reshard for them happens.
const AHEAD: Millis = Millis::secs(1);
/// How often a run state that a reshard waits for is read again (S3-21).
const POLL: Millis = Millis(100);

/// Requests a reshard, does it, or cleans up a deleted job.
pub fn decide(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    let Some(sharded) = ShardedJob::of(ctx, id) else { return };
    let Some((_, terms)) = sharded.terms else { return retire(&sharded, out) };
    if delist::leave(&sharded, || among(&sharded, terms), out) {
        return;
    }
    let lacks_takers = cordoned::lacks_takers(&sharded, terms);
    if !sharded.is_enabled() || sharded.sharding.leader.as_ref() != Some(ctx.member) {
        if !lacks_takers {
            clear_draining(&sharded, out);
        }
        return;
    }
    if lacks_takers {
        return cordoned::withdraw_reshard(&sharded, out);
    }
    let among = among(&sharded, terms);
    match (&sharded.sharding.reshard_pending, cause(&sharded, terms, &among)) {
        (Some(mark), _) => prepare(&sharded, *mark, terms, &among, out),
        (None, Some(why)) => request_reshard(&sharded, why, out),
        (None, None) => clear_draining(&sharded, out),
    }
}

/// Whether runs have delayed a reshard for longer than the job allows.
pub(super) fn is_overdue(sharded: &ShardedJob<'_>) -> bool {
    let Some(((_, terms), mark)) = sharded.terms.zip(sharded.sharding.reshard_pending) else { return false };
    let leads = sharded.sharding.leader.as_ref() == Some(sharded.ctx.member);
    leads && sharded.ctx.now.wall >= mark.since + terms.reshard_timeout
}

/// The nodes that get the shards. Sticky shards stay with the names that got them first.
fn among(sharded: &ShardedJob<'_>, terms: &ShardTerms) -> Vec<Member> {
    let available = sharded.job.available();
    let shard_map = &sharded.sharding.shard_map;
    if !terms.sticky_shards || shard_map.number == 0 || Some(shard_map.total) != terms.total {
        return available.into_iter().take(delist::among_max(sharded)).cloned().collect();
    }
    let now = |old: &Member| available.iter().copied().find(|member| member.node == old.node).cloned();
    shard_map.among.iter().map(|old| now(old).unwrap_or_else(|| old.clone())).collect()
}

/// The reason for a reshard, if there is one.
fn cause(sharded: &ShardedJob<'_>, terms: &ShardTerms, among: &[Member]) -> Option<ReshardCause> {
    let shard_map = &sharded.sharding.shard_map;
    let shares = || shard_map.assignments.iter().flat_map(|assignment| &assignment.groups);
    let dealt = shares().fold(ShardSet::empty(), |all, group| all.or(&group.shards));
    // Draining shards may stay with a member that takes no part any more, but not with a dead one.
    let runs = |assignment: &ShardAssignment| {
        !sharded.is_dead(&assignment.holder)
            && assignment.groups.iter().all(|group| group.shards.minus(&shard_map.draining).is_empty())
    };
    let stray =
        |assignment: &ShardAssignment| !shard_map.among.contains(&assignment.holder) && !runs(assignment);
    let whole = dealt == ShardSet::all(shard_map.total)
        && shares().map(|group| group.shards.len()).sum::<usize>() == shard_map.total as usize
        && !shard_map.assignments.iter().any(stray);
    match shard_map {
        _ if shard_map.among != among => Some(ReshardCause::Nodes),
        _ if terms.total.is_some_and(|total| shard_map.total != total) => Some(ReshardCause::Shards),
        _ if terms.total.is_none() && !shard_map.is_one_each() => Some(ReshardCause::Shards),
        _ if (shard_map.strategy, shard_map.order) != (terms.strategy, terms.order) => {
            Some(ReshardCause::Strategy)
        }
        _ if !whole => Some(ReshardCause::Repair),
        _ => None,
    }
}

fn request_reshard(sharded: &ShardedJob<'_>, why: ReshardCause, out: &mut RuleOutput) {
    let mark = ReshardPending { since: sharded.ctx.now.wall, why };
    let sharding = Sharding { reshard_pending: Some(mark), ..sharded.sharding.clone() };
    out.commit(
        sharded.scope(),
        CommitKind::RequestReshard,
        sharded.txn(None, [sharded.put(sharding)].into()),
    );
}

/// Requests a reshard once this node's draining shards have ended: then they go where they belong.
fn clear_draining(sharded: &ShardedJob<'_>, out: &mut RuleOutput) {
    let Some(run_state) = sharded.run_state(sharded.ctx.member) else { return };
    // Also shards that were taken over from the member that was draining them.
    let draining = sharded.sharding.shard_map.draining.and(&run_state.shards());
    if !draining.is_empty()
        && sharded.sharding.reshard_pending.is_none()
        && !run_state.unfinished().meets(&draining)
    {
        request_reshard(sharded, ReshardCause::Draining, out);
    }
}

/// Waits until a fire is near and the run states are idle, then reshards.
fn prepare(
    sharded: &ShardedJob<'_>,
    mark: ReshardPending,
    terms: &ShardTerms,
    among: &[Member],
    out: &mut RuleOutput,
) {
    let (ctx, id) = (sharded.ctx, sharded.job.id);
    let unread = sharded.sharding.run_states.iter().filter(|member| sharded.known(member).is_none());
    let unread: Vec<_> = unread.map(|member| keys::shard_run_state(sharded.job.name(), member)).collect();
    if !unread.is_empty() {
        return out.add(RuleAction::Read(id, unread));
    }
    let run_states = active_run_states(sharded);
    if !delist::makes_room(sharded, &run_states, out) {
        return watch(sharded, &run_states, out);
    }
    let furthest = furthest(&sharded.sharding.shard_map, run_states.values());
    let total = terms.total.unwrap_or_else(|| broadcast::counted(&sharded.sharding.shard_map, &run_states));
    let state = collect(&run_states, total, furthest);
    let near = sharded.next_due(state.iter()).into_iter().chain(sharded.triggered_at()).min();
    let start = match near {
        _ if frees_a_node(sharded, terms) => mark.since,
        Some(near) => near - ctx.local.settings.lead_max - AHEAD,
        None => return,
    };
    if ctx.now.wall < start {
        return out.add(RuleAction::JobAt(id, start));
    }
    let running = run_states.values().any(|run_state| !run_state.open.is_empty());
    let until = mark.since.max(start) + terms.reshard_timeout;
    if running && ctx.now.wall < until {
        out.add(RuleAction::JobAt(id, until));
        return watch(sharded, &run_states, out);
    }
    // The running shards of dead members are settled first, by failover; it looks again at the same run states.
    if run_states.iter().any(|(member, run_state)| sharded.is_dead(member) && !run_state.open.is_empty()) {
        return watch(sharded, &run_states, out);
    }
    reshard(sharded, terms, among, &run_states, &state, out);
}

/// Whether a reshard takes shards from a living node that is draining.
fn frees_a_node(sharded: &ShardedJob<'_>, terms: &ShardTerms) -> bool {
    let drains =
        |holder: &Member| !sharded.is_dead(holder) && sharded.ctx.view.intent(&holder.node).is_some();
    let mut assignments = sharded.sharding.shard_map.assignments.iter();
    !terms.sticky_shards
        && assignments.any(|assignment| !assignment.groups.is_empty() && drains(&assignment.holder))
}

/// The run states that are not empty: those of listed members, and the kept ones of removed members.
fn active_run_states<'t>(sharded: &ShardedJob<'t>) -> BTreeMap<&'t Member, ShardRunState> {
    let sharding = sharded.sharding;
    let kept = sharding.kept.iter().map(|kept| (&kept.holder, sharding.run_state_of(&kept.holder, None)));
    let listed = sharding.run_states.iter().filter_map(|member| Some((member, sharded.run_state(member)?)));
    kept.chain(listed).collect()
}

/// Reads the run states that are waited for again, if it is time.
fn watch(sharded: &ShardedJob<'_>, run_states: &BTreeMap<&Member, ShardRunState>, out: &mut RuleOutput) {
    let now = sharded.ctx.now;
    let open = run_states
        .iter()
        .filter(|(member, run_state)| !run_state.open.is_empty() && **member != sharded.ctx.member);
    let heard = open.filter_map(|(member, _)| Some((member, sharded.job.run_state_of(member)?.heard)));
    let (stale, fresh): (Vec<_>, Vec<_>) = heard.partition(|(_, heard)| *heard + POLL <= now.mono);
    if !stale.is_empty() {
        let keys =
            stale.iter().map(|(member, _)| keys::shard_run_state(sharded.job.name(), member)).collect();
        out.add(RuleAction::Read(sharded.job.id, keys));
    } else if let Some(heard) = fresh.iter().map(|(_, heard)| *heard).min() {
        out.add(RuleAction::JobAfter(sharded.job.id, heard + POLL));
    }
}

/// The watermark of every shard. A new shard begins at the furthest.
fn collect(
    run_states: &BTreeMap<&Member, ShardRunState>,
    total: u32,
    furthest: Option<Wall>,
) -> Vec<ShardGroup> {
    let mut found: Vec<&ShardGroup> = run_states.values().flat_map(|run_state| &run_state.groups).collect();
    found.sort_by_key(|group| group.watermark);
    let (mut state, all) = (Vec::new(), ShardSet::all(total));
    regroup(&mut state, &all, furthest.unwrap_or(Wall::MIN));
    for group in found {
        regroup(&mut state, &group.shards.and(&all), group.watermark);
    }
    state
}

fn reshard(
    sharded: &ShardedJob<'_>,
    terms: &ShardTerms,
    among: &[Member],
    run_states: &BTreeMap<&Member, ShardRunState>,
    state: &[ShardGroup],
    out: &mut RuleOutput,
) {
    let old = &sharded.sharding.shard_map;
    let BroadcastReshard { total, assignments, draining, missed: left, triggers: asked } =
        plan_assignments(sharded, terms, among, run_states, state);
    // The first reshard begins above the job's count of claims, as an earlier life of it may have been claimed.
    let first = u64::try_from(sharded.terms.map_or(0, |(t, _)| t.since.0)).unwrap_or(0);
    let seq = run_states.values().map(|run_state| run_state.seq).chain([old.seq, first]).max().unwrap_or(0);
    let (leaves, mut listed): (Vec<&Member>, Vec<&Member>) =
        sharded.sharding.run_states.iter().partition(|member| delist::may_go(sharded, member, run_states));
    listed.extend(assignments.iter().map(|assignment| &assignment.holder));
    listed.extend((!left.is_empty()).then_some(sharded.ctx.member));
    listed.sort();
    listed.dedup();
    let sharding = Sharding {
        leader: sharded.sharding.leader.clone(),
        reshard_pending: None,
        run_states: listed.into_iter().cloned().collect(),
        kept: Vec::new(),
        shard_map: ShardMap {
            number: sharded.job.assignment().epoch + 1,
            seq,
            furthest: furthest(old, run_states.values()),
            total,
            strategy: terms.strategy,
            order: terms.order,
            among: among.to_vec(),
            assignments,
            draining: draining.clone(),
        },
    };
    let mut writes = Vec::from([sharded.put(sharding)]);
    let present = |member: &&&Member| sharded.known(member).is_some_and(|known| known.value.is_some());
    writes.extend(
        leaves
            .iter()
            .filter(present)
            .map(|member| Write::Delete { key: keys::shard_run_state(sharded.job.name(), member) }),
    );
    let gone = leaves.iter().map(|member| Guard::Absent(keys::node(member)));
    let held = sharded.sharding.run_states.iter().filter_map(|member| sharded.run_state_guard(member));
    let mut guards: Vec<_> = held.chain(gone).collect();
    if let Some(mut own) = sharded.run_state(sharded.ctx.member).filter(|_| !left.is_empty()) {
        if !sharded.sharding.run_states.contains(sharded.ctx.member) {
            guards.extend(sharded.run_state_guard(sharded.ctx.member));
        }
        (own.seq, own.verdicts) = (seq + 1, [own.verdicts, left].concat());
        writes.push(sharded.put_run_state(sharded.ctx.member, &own));
    }
    if let (Some(record), Some(known)) = (asked, sharded.job.triggers()) {
        let key = keys::triggers(sharded.job.name());
        guards.push(known.guard(key.clone()));
        writes.push(Write::Put { key, value: encode(&record), owner: None });
    }
    if !draining.is_empty() {
        let event = Event::ShardsDraining(sharded.job.name().clone(), draining);
        out.notices.push(CommitNotice { scope: sharded.scope(), sent: false, event });
    }
    out.commit(sharded.scope(), CommitKind::Reshard, sharded.txn(guards, writes));
}

/// The shards of each member, by the placement of the job.
fn plan_assignments(
    sharded: &ShardedJob<'_>,
    terms: &ShardTerms,
    among: &[Member],
    run_states: &BTreeMap<&Member, ShardRunState>,
    state: &[ShardGroup],
) -> BroadcastReshard {
    let Some(total) = terms.total else { return broadcast::distribute(sharded, among, run_states, state) };
    let (assignments, draining) = assignments(sharded, terms, total, among, run_states, state);
    BroadcastReshard { total, assignments, draining, missed: Vec::new(), triggers: None }
}

/// The assignment of each member, and the draining shards.
fn assignments(
    sharded: &ShardedJob<'_>,
    terms: &ShardTerms,
    total: u32,
    among: &[Member],
    run_states: &BTreeMap<&Member, ShardRunState>,
    state: &[ShardGroup],
) -> (Vec<ShardAssignment>, ShardSet) {
    let all = ShardSet::all(total);
    let still: BTreeMap<&Member, ShardSet> =
        run_states.iter().map(|(member, run_state)| (*member, run_state.unfinished().and(&all))).collect();
    let draining = still.values().fold(ShardSet::empty(), |all, shards| all.or(shards));
    let mut dealt: BTreeMap<Member, ShardSet> = distribute(sharded, terms, total, among);
    dealt.values_mut().for_each(|shards| *shards = shards.minus(&draining));
    for (member, shards) in still.into_iter().filter(|(_, shards)| !shards.is_empty()) {
        let assignment = dealt.entry(member.clone()).or_default();
        *assignment = assignment.or(&shards);
    }
    let groups = |shards: &ShardSet| {
        let group = |g: &ShardGroup| ShardGroup { watermark: g.watermark, shards: g.shards.and(shards) };
        state.iter().map(group).filter(|group| !group.shards.is_empty()).collect()
    };
    let dealt = dealt.into_iter().filter(|(_, shards)| !shards.is_empty());
    let assignments =
        dealt.map(|(holder, shards)| ShardAssignment { groups: groups(&shards), holder }).collect();
    (assignments, draining)
}

/// The member that should have each shard.
fn distribute(
    sharded: &ShardedJob<'_>,
    terms: &ShardTerms,
    total: u32,
    among: &[Member],
) -> BTreeMap<Member, ShardSet> {
    let old = &sharded.sharding.shard_map;
    if terms.sticky_shards && old.number > 0 && old.total == total {
        let had = |node: &NodeName| {
            let assignments = old.assignments.iter().filter(|assignment| assignment.holder.node == *node);
            let groups = assignments.flat_map(|assignment| &assignment.groups);
            groups.fold(ShardSet::empty(), |all, group| all.or(&group.shards))
        };
        let dealt: BTreeMap<Member, ShardSet> =
            among.iter().map(|member| (member.clone(), had(&member.node))).collect();
        // Unless it had to stay with a name that takes no part: then no other member has it yet.
        if dealt.values().fold(ShardSet::empty(), |all, shards| all.or(shards)) == ShardSet::all(total) {
            return dealt;
        }
    }
    // Cordoned members keep their shards; the others get the rest, as if there were no more.
    let (mut dealt, takers) = cordoned::keep(sharded, total, among);
    let kept = dealt.values().fold(ShardSet::empty(), |all, shards| all.or(shards));
    let rest: Vec<Shard> = ShardSet::all(total).minus(&kept).iter().collect();
    let names: Vec<&str> = takers.iter().map(|member| member.node.as_str()).collect();
    let (strategy, order) = (terms.strategy, terms.order);
    let total = u32::try_from(rest.len()).unwrap_or(total);
    let assignments = sharding_strategy::assign_shards(strategy, order, sharded.job.name(), total, &names);
    let nth = |at: Shard| rest.get(at.0 as usize).copied();
    let assignments = assignments.iter().map(|shards| shards.iter().filter_map(nth).collect());
    dealt.extend(takers.into_iter().cloned().zip(assignments));
    dealt
}

/// Removes the run states of a deleted job, each once it is empty; the count of its tokens stays.
fn retire(sharded: &ShardedJob<'_>, out: &mut RuleOutput) {
    let me = sharded.ctx.member;
    let done = |member: &&Member| {
        let settles = *member == me || (sharded.is_dead(member) && sharded.is_steward());
        settles && sharded.run_state(member).is_some_and(|run_state| run_state.is_empty())
    };
    let busy = sharded.ctx.local.runs.of_job(sharded.job.id).next().is_some();
    let Some(member) = sharded.sharding.run_states.iter().filter(|m| *m != me || !busy).find(done) else {
        return;
    };
    let (Some(run_state), Some(guard)) = (sharded.run_state(member), sharded.run_state_guard(member)) else {
        return;
    };
    let written = sharded.known(member).and_then(|known| known.value);
    let mut sharding = sharded.sharding.clone();
    sharding.run_states.retain(|other| other != member);
    let ShardMap { number, seq, mut assignments, .. } = sharding.shard_map.clone();
    // The others' run states stay, as their members may still withdraw fires; this one is not begun again.
    assignments.retain(|assignment| assignment.holder != *member);
    sharding.kept.clear();
    sharding.shard_map = ShardMap {
        number,
        seq: seq.max(run_state.seq),
        // The watermarks must not be forgotten, for the job may be created again.
        furthest: furthest(&sharding.shard_map, written.iter().chain([&run_state])),
        assignments,
        ..ShardMap::default()
    };
    let mut writes = Vec::from([sharded.put(sharding)]);
    if written.is_some() {
        writes.push(Write::Delete { key: keys::shard_run_state(sharded.job.name(), member) });
    }
    let gone = sharded.is_dead(member).then(|| Guard::Absent(keys::node(member)));
    out.commit(sharded.scope(), CommitKind::Retire, sharded.txn([guard].into_iter().chain(gone), writes));
}
