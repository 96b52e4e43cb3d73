//! Resharding of broadcast jobs: each node that takes part has one shard, and no other node can run it.
//!
//! A node keeps its number while there are as many, and continues where it was. A number that changes hands begins
//! where the furthest is: what its last holder did is not done again, and what it had not begun no other node can catch
//! up. Such fires get verdicts here. A number whose run still executes is not reassigned; so while an excluded node
//! still runs, there is one more number than there are nodes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::effect::{Verdict, VerdictState};
use crate::ids::{Fire, Member, NodeName, RunId, Shard};
use crate::lifecycle::missed;
use crate::placement::sharded_job::ShardedJob;
use crate::record::{ShardAssignment, ShardGroup, ShardMap, ShardRunState, TriggerRecord, regroup};
use crate::shards::ShardSet;
use crate::time::Wall;

/// Why no node begins what another node was to begin.
pub(in crate::placement) const MOVED: &str = "its node took part no more, or got another number";

/// A reshard of a broadcast job.
pub(super) struct BroadcastReshard {
    pub(super) total: u32,
    pub(super) assignments: Vec<ShardAssignment>,
    /// The draining numbers, whose runs go on where they do not belong.
    pub(super) draining: ShardSet,
    /// The verdicts on fires and manual runs that no node begins any more.
    pub(super) missed: Vec<Verdict>,
    /// The triggers, where a number that changed hands changes what they wait for.
    pub(super) triggers: Option<TriggerRecord>,
}

/// The number of each node, and the draining numbers.
struct BroadcastShards {
    total: u32,
    own: BTreeMap<Member, Shard>,
    draining: BTreeMap<Member, ShardSet>,
}

/// How many shards have a watermark, with removed shards: a node of an earlier version may withdraw their fires.
pub(super) fn counted(shard_map: &ShardMap, run_states: &BTreeMap<&Member, ShardRunState>) -> u32 {
    let groups = run_states.values().flat_map(|run_state| &run_state.groups);
    let last = groups.filter_map(|group| group.shards.iter().last()).max();
    last.map_or(0, |shard| shard.0 + 1).max(shard_map.total).max(1)
}

/// Assigns the numbers. `state` has the watermark of each previous shard.
pub(super) fn distribute(
    sharded: &ShardedJob<'_>,
    among: &[Member],
    run_states: &BTreeMap<&Member, ShardRunState>,
    state: &[ShardGroup],
) -> BroadcastReshard {
    let old = &sharded.sharding.shard_map;
    let numbers = BroadcastShards::of(old, among, run_states);
    let furthest = super::watermarks::furthest(old, run_states.values()).unwrap_or(Wall::MIN);
    let stays = |holder: &Member, shard: Shard| {
        let had = old.holder(shard).is_some_and(|had| had.node == holder.node);
        had || numbers.draining.get(holder).is_some_and(|draining| draining.contains(shard))
    };
    let watermark = |holder: &Member, shard: Shard| {
        let kept = state.iter().find(|group| group.shards.contains(shard) && stays(holder, shard));
        kept.map_or(furthest, |group| group.watermark)
    };
    let own = numbers.own.iter().map(|(holder, shard)| (holder, *shard));
    let draining =
        numbers.draining.iter().flat_map(|(holder, all)| all.iter().map(move |shard| (holder, shard)));
    let mut assignments: BTreeMap<&Member, Vec<ShardGroup>> = BTreeMap::new();
    for (holder, shard) in own.chain(draining) {
        let groups = assignments.entry(holder).or_default();
        regroup(groups, &ShardSet::one(shard), watermark(holder, shard));
    }
    let assignments: Vec<ShardAssignment> = assignments
        .into_iter()
        .map(|(holder, groups)| ShardAssignment { holder: holder.clone(), groups })
        .collect();
    let goes_on = |shard: &Shard| {
        let now = assignments.iter().find(|assignment| assignment.shards().contains(*shard));
        now.is_some_and(|assignment| stays(&assignment.holder, *shard))
    };
    let counted = state.iter().flat_map(|group| group.shards.iter());
    let given_up: ShardSet = counted.filter(|shard| !goes_on(shard)).collect();
    let mut left = missed_fires(sharded, &given_up, state, furthest);
    let asked = update_triggers(sharded, &numbers, &mut left);
    let draining = numbers.draining.values().fold(ShardSet::empty(), |all, shards| all.or(shards));
    BroadcastReshard { total: numbers.total, assignments, draining, missed: left, triggers: asked }
}

impl BroadcastShards {
    /// As many as there are nodes; more by those that are taken by runs of others.
    fn of(old: &ShardMap, among: &[Member], run_states: &BTreeMap<&Member, ShardRunState>) -> Self {
        let mut total = u32::try_from(among.len().max(1)).unwrap_or(u32::MAX);
        // A node's own number is the lowest that it runs; each further number that it runs adds one, within the limit.
        let on_top = run_states.iter().flat_map(|(member, run_state)| {
            run_state.unfinished().iter().skip(usize::from(among.contains(member))).collect::<Vec<_>>()
        });
        let mut on_top: Vec<Shard> = on_top.collect();
        on_top.sort_unstable();
        for shard in on_top {
            total += u32::from(shard.0 < total);
        }
        Self::within(total, old, among, run_states)
    }

    /// The number of a node: the one that it runs, or else the one that it had, or else the lowest free one.
    fn within(
        total: u32,
        old: &ShardMap,
        among: &[Member],
        run_states: &BTreeMap<&Member, ShardRunState>,
    ) -> Self {
        let all = ShardSet::all(total);
        let (mut own, mut draining, mut taken) = (BTreeMap::new(), BTreeMap::new(), ShardSet::empty());
        for (member, run_state) in run_states {
            let mut runs = run_state.unfinished().and(&all);
            taken = taken.or(&runs);
            if let Some(shard) = runs.first().filter(|_| among.contains(member)) {
                own.insert((*member).clone(), shard);
                runs = runs.minus(&ShardSet::one(shard));
            }
            if !runs.is_empty() {
                draining.insert((*member).clone(), runs);
            }
        }
        let had = |member: &Member| {
            let mut of_node =
                old.assignments.iter().filter(|assignment| assignment.holder.node == member.node);
            of_node.find_map(|assignment| assignment.shards().minus(&old.draining).and(&all).first())
        };
        for member in among {
            if let Some(shard) = had(member).filter(|shard| !taken.contains(*shard))
                && !own.contains_key(member)
            {
                taken.insert(shard);
                own.insert(member.clone(), shard);
            }
        }
        let free = all.minus(&taken);
        let without: Vec<&Member> = among.iter().filter(|member| !own.contains_key(*member)).collect();
        own.extend(without.into_iter().cloned().zip(free.iter()));
        Self { total, own, draining }
    }
}

/// The verdicts on the fires by which these shards are behind the furthest.
fn missed_fires(
    sharded: &ShardedJob<'_>,
    shards: &ShardSet,
    state: &[ShardGroup],
    furthest: Wall,
) -> Vec<Verdict> {
    let Some((terms, declared)) = sharded.terms else { return Vec::new() };
    let Some(schedule) = &terms.schedule else { return Vec::new() };
    let shards = shards.minus(&declared.off);
    let of_group = |group: &ShardGroup| {
        let from = schedule.next(group.watermark.max(terms.since)).filter(|from| *from <= furthest)?;
        let shards = group.shards.and(&shards);
        Some(
            by_holder(&sharded.sharding.shard_map, &shards)
                .into_iter()
                .map(move |(node, shards)| (node, shards, from)),
        )
    };
    let shares = state.iter().filter_map(of_group).flatten();
    shares
        .filter_map(|(node, shards, from)| {
            let reason = missed(from, furthest, MOVED);
            verdict(sharded, Fire::Due(furthest), (from, furthest), &shards, node, reason)
        })
        .collect()
}

/// Shards by the nodes that had them.
fn by_holder<'a>(old: &'a ShardMap, shards: &ShardSet) -> BTreeMap<&'a str, ShardSet> {
    let mut all: BTreeMap<&str, ShardSet> = BTreeMap::new();
    for assignment in &old.assignments {
        let its = assignment.shards().and(shards);
        if !its.is_empty() {
            let had = all.entry(assignment.holder.node.as_str()).or_default();
            *had = had.or(&its);
        }
    }
    let known = all.values().fold(ShardSet::empty(), |known, its| known.or(its));
    let unassigned = shards.minus(&known);
    if !unassigned.is_empty() {
        all.insert("", unassigned);
    }
    all
}

fn verdict(
    sharded: &ShardedJob<'_>,
    fire: Fire,
    (from, due): (Wall, Wall),
    shards: &ShardSet,
    node: &str,
    reason: String,
) -> Option<Verdict> {
    let run = RunId { job: sharded.job.name().clone(), fire, shard: shards.first()? };
    let (state, node, shards) = (VerdictState::Skipped, node.into(), shards.clone());
    Some(Verdict { run, attempt: 0, due, state, reason, node, from, shards })
}

/// Updates the waiting triggers. Shards answer them by number, and a number may change hands. So a trigger now waits
/// for nodes that keep theirs, and for newcomers with numbers that were free, unless they had another one since it was
/// made; the history gets a verdict for every other node that had not answered.
fn update_triggers(
    sharded: &ShardedJob<'_>,
    numbers: &BroadcastShards,
    verdicts: &mut Vec<Verdict>,
) -> Option<TriggerRecord> {
    let old = &sharded.sharding.shard_map;
    if old.number == 0 || !old.is_one_each() {
        return None;
    }
    let known = sharded.job.triggers()?.value.as_ref()?;
    let keeps = |node: &NodeName, shard: Shard| {
        old.holder(shard).is_some_and(|before| before.node == *node) && !old.draining.contains(shard)
    };
    let (stay, others): (Vec<_>, Vec<_>) =
        numbers.own.iter().map(|(m, s)| (&m.node, *s)).partition(|(node, shard)| keeps(node, *shard));
    let kept: ShardSet = stay.iter().map(|(_, shard)| *shard).collect();
    let stays = |node: &NodeName| stay.iter().any(|(who, _)| *who == node);
    let gave_up: BTreeSet<&NodeName> = old
        .assignments
        .iter()
        .map(|assignment| &assignment.holder.node)
        .filter(|node| !stays(node))
        .collect();
    let all = ShardSet::all(numbers.total).or(&ShardSet::all(old.total));
    let mut record = known.clone();
    for request in record.requests.iter_mut().filter(|request| !request.taken && request.node.is_none()) {
        let unanswered = ShardSet::all(old.total).minus(&old.draining).minus(&kept).minus(&request.shards);
        let fire = Fire::Asked(request.id.clone());
        for (node, shards) in by_holder(old, &unanswered) {
            let at = (request.at, request.at);
            verdicts.extend(verdict(sharded, fire.clone(), at, &shards, node, MOVED.into()));
        }
        request.former.extend(gave_up.iter().copied().cloned());
        let is_fresh =
            |(node, shard): &&(&NodeName, Shard)| shard.0 >= old.total && !request.former.contains(*node);
        let fresh: ShardSet = others.iter().filter(is_fresh).map(|(_, shard)| *shard).collect();
        request.shards = request.shards.or(&all.minus(&kept.or(&fresh)));
    }
    (record != *known).then_some(record)
}
