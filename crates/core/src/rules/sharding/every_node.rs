//! Shards of a job that runs on every node: each node that takes part has one, and nobody else can run it.
//!
//! A node keeps its number while there are as many, and goes on where it was. A number that comes into other hands begins
//! where the furthest is: what its last holder did is not done again, and what it had not begun nobody else can make up
//! for. Of such fires history hears here. A number whose run goes on is nobody else's; so while somebody who takes part no
//! more still runs, there is one more than there are nodes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::effect::{Verdict, VerdictState};
use crate::record::{Cut, Group, Portion, ShardLane, regroup};
use crate::rules::dispatch::missed;
use crate::shards::ShardSet;
use crate::table::Table;
use crate::time::Wall;
use crate::words::{Fire, Member, RunId, Shard};

/// A cut of such a job.
pub(super) struct Dealt {
    pub(super) total: u32,
    pub(super) portions: Vec<Portion>,
    /// The numbers of runs that go on where they do not belong.
    pub(super) pinned: ShardSet,
    /// What is told of fires that nobody begins any more.
    pub(super) left: Vec<Verdict>,
}

/// Who has which number, and the numbers that stay where they run.
struct Seats {
    total: u32,
    own: BTreeMap<Member, Shard>,
    pinned: BTreeMap<Member, ShardSet>,
}

/// How many shards have a watermark: also those that there are no more count whose fires somebody took back.
pub(super) fn counted(cut: &Cut, lanes: &BTreeMap<&Member, ShardLane>) -> u32 {
    let groups = lanes.values().flat_map(|lane| &lane.groups);
    let last = groups.filter_map(|group| group.shards.iter().last()).max();
    last.map_or(0, |shard| shard.0 + 1).max(cut.total).max(1)
}

/// Deals the numbers. `state` has the watermark of each shard that there was.
pub(super) fn deal(
    table: &Table<'_>,
    among: &[Member],
    lanes: &BTreeMap<&Member, ShardLane>,
    state: &[Group],
) -> Dealt {
    let old = &table.sharding.cut;
    let seats = Seats::of(old, among, lanes);
    let furthest = super::furthest(old, lanes.values()).unwrap_or(Wall::MIN);
    let stays = |holder: &Member, shard: Shard| {
        let had = old.holder(shard).is_some_and(|had| had.node == holder.node);
        had || seats.pinned.get(holder).is_some_and(|pinned| pinned.contains(shard))
    };
    let watermark = |holder: &Member, shard: Shard| {
        let kept = state.iter().find(|group| group.shards.contains(shard) && stays(holder, shard));
        kept.map_or(furthest, |group| group.watermark)
    };
    let own = seats.own.iter().map(|(holder, shard)| (holder, *shard));
    let pinned = seats.pinned.iter().flat_map(|(holder, all)| all.iter().map(move |shard| (holder, shard)));
    let mut portions: BTreeMap<&Member, Vec<Group>> = BTreeMap::new();
    for (holder, shard) in own.chain(pinned) {
        let groups = portions.entry(holder).or_default();
        regroup(groups, &ShardSet::one(shard), watermark(holder, shard));
    }
    let portions: Vec<Portion> =
        portions.into_iter().map(|(holder, groups)| Portion { holder: holder.clone(), groups }).collect();
    let goes_on = |shard: &Shard| {
        let now = portions.iter().find(|portion| portion.shards().contains(*shard));
        now.is_some_and(|portion| stays(&portion.holder, *shard))
    };
    let counted = state.iter().flat_map(|group| group.shards.iter());
    let given_up: ShardSet = counted.filter(|shard| !goes_on(shard)).collect();
    let left = left(table, &given_up, state, furthest);
    let pinned = seats.pinned.values().fold(ShardSet::empty(), |all, shards| all.or(shards));
    Dealt { total: seats.total, portions, pinned, left }
}

impl Seats {
    /// As many as there are nodes; more by those that are taken by runs of others.
    fn of(old: &Cut, among: &[Member], lanes: &BTreeMap<&Member, ShardLane>) -> Self {
        let nodes = u32::try_from(among.len().max(1)).unwrap_or(u32::MAX);
        let mut total = nodes;
        loop {
            let seats = Self::within(total, old, among, lanes);
            let taken: usize = seats.pinned.values().map(ShardSet::len).sum();
            let needed = nodes.saturating_add(u32::try_from(taken).unwrap_or(u32::MAX));
            if needed == total {
                return seats;
            }
            total = needed;
        }
    }

    /// Of so many numbers a node has the one that it runs, or else the one that it had, or else the lowest that is free.
    fn within(total: u32, old: &Cut, among: &[Member], lanes: &BTreeMap<&Member, ShardLane>) -> Self {
        let all = ShardSet::all(total);
        let (mut own, mut pinned, mut taken) = (BTreeMap::new(), BTreeMap::new(), ShardSet::empty());
        for (member, lane) in lanes {
            let mut runs = lane.unfinished().and(&all);
            taken = taken.or(&runs);
            if let Some(shard) = runs.first().filter(|_| among.contains(member)) {
                own.insert((*member).clone(), shard);
                runs = runs.minus(&ShardSet::one(shard));
            }
            if !runs.is_empty() {
                pinned.insert((*member).clone(), runs);
            }
        }
        let had = |member: &Member| {
            let mut of_node = old.portions.iter().filter(|portion| portion.holder.node == member.node);
            of_node.find_map(|portion| portion.shards().minus(&old.pinned).and(&all).first())
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
        Self { total, own, pinned }
    }
}

/// What is told of the fires that these shards are behind the furthest by.
fn left(table: &Table<'_>, shards: &ShardSet, state: &[Group], furthest: Wall) -> Vec<Verdict> {
    let Some((terms, declared)) = table.terms else { return Vec::new() };
    let Some(schedule) = &terms.schedule else { return Vec::new() };
    let told = |shard: Shard| {
        let group = state.iter().find(|group| group.shards.contains(shard))?;
        let from = schedule.next(group.watermark.max(terms.since)).filter(|from| *from <= furthest)?;
        let node = table.sharding.cut.holder(shard).map_or("", |holder| holder.node.as_str());
        Some(Verdict {
            run: RunId { job: table.job.name().clone(), fire: Fire::Due(furthest), shard },
            attempt: 0,
            due: furthest,
            state: VerdictState::Skipped,
            reason: missed(from, furthest, "its node took part no more"),
            node: node.into(),
            from,
            shards: ShardSet::one(shard),
        })
    };
    shards.minus(&declared.off).iter().filter_map(told).collect()
}
