//! Checks the leader of a sharded job, its pending reshard, and each reshard.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Member, NodeName, Shard};
use evenkeel_core::job::Job;
use evenkeel_core::record::ShardMap;
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;

use super::super::{Invariant, InvariantResults, JobTrack};
use super::ShardedTxn;

impl ShardedTxn<'_> {
    /// A leader is elected by its own commit, for a job that may have one, after none or after one that is gone; it
    /// resigns by its own commit, or is gone.
    pub(super) fn leader(&self, book: &JobTrack, findings: &mut InvariantResults) {
        let (at, job, me) = (self.at(), self.job, self.act.member);
        let (old, new) = (&self.old.leader, &self.new.leader);
        if old == new {
            return;
        }
        let gone = old.as_ref().is_none_or(|old| !(self.lives)(old));
        let gives_back = new.is_none() && old.as_ref() == me;
        findings.test(at, Invariant::I12, gone || gives_back, || {
            format!("{new:?} was written over {old:?}, which lives and leads {job}")
        });
        if new.is_some() {
            let enabled = book.spec.as_ref().is_some_and(|spec| spec.job.enabled);
            findings.test(at, Invariant::I12, new.as_ref() == me && enabled, || {
                format!("{me:?} made {new:?} the leader of {job}, enabled: {enabled}")
            });
        }
    }

    /// Assignments change only by a reshard, which is the leader's, covers all shards and clears the pending reshard.
    pub(super) fn check_reshard(&self, book: &mut JobTrack, findings: &mut InvariantResults) {
        let (at, job, me) = (self.at(), self.job, self.act.member);
        let (old, new) = (&self.old, &self.new);
        if !self.was_resharded() {
            if self.epochs.0 != self.epochs.1 {
                let retired = book.spec.is_none() && is_retired(&old.shard_map, &new.shard_map);
                findings.test(at, Invariant::I29, retired || self.is_delisted(), || {
                    format!("the shares of {job} changed without a cut, by {}", self.act.kind)
                });
                let kept = old.reshard_pending.is_none() || old.reshard_pending == new.reshard_pending;
                findings.test(at, Invariant::I31, kept, || {
                    format!(
                        "the mark of {job}, {:?}, became {:?} without a cut",
                        old.reshard_pending, new.reshard_pending
                    )
                });
            }
            return;
        }
        let Some(spec) = &book.spec else {
            return findings.test(at, Invariant::I29, false, || {
                format!("{job} is deleted and was cut into {:?}", new.shard_map)
            });
        };
        let leads = old.leader.is_some() && old.leader.as_ref() == me && old.leader == new.leader;
        findings.test(at, Invariant::I29, leads, || {
            format!("{me:?} cut the shares of {job}, which {:?} leads", old.leader)
        });
        let counted = new.shard_map.number == self.epochs.0 + 1 && self.epochs.1 == self.epochs.0 + 1;
        findings.test(
            at,
            Invariant::I29,
            counted && new.reshard_pending.is_none() && old.reshard_pending.is_some(),
            || format!("{job} was cut from {old:?} to {new:?}"),
        );
        let total = declared_total(&spec.job, &new.shard_map);
        let all: BTreeSet<Shard> = (0..total).map(Shard).collect();
        let held: BTreeSet<Shard> = self.after.held.keys().copied().collect();
        findings.test(at, Invariant::I29, held == all && new.shard_map.total == total, || {
            format!("{job} has {total} shards and was cut into {:?}", new.shard_map.assignments)
        });
        let reached = self.before.held.values().map(|(_, watermark)| *watermark).max();
        book.sharding.furthest = book.sharding.furthest.max(reached);
        let furthest = book.sharding.furthest;
        for shard in all.iter().filter(|shard| !self.before.held.contains_key(shard)) {
            findings.test(at, Invariant::I33, self.after.watermark(*shard) >= furthest, || {
                format!("shard {shard} of {job} is new and begins at {:?}", self.after.watermark(*shard))
            });
        }
        if spec.job.placement.is_broadcast() {
            return self.check_broadcast(book, findings);
        }
        let (fixed, key) = (spec.job.placement.has_sticky_shards(), self.dealing());
        self.check_assignments(fixed, key, book, findings);
    }

    /// Whether only run states of the dead, or the writer's, were removed before a reshard, with no shard changed.
    fn is_delisted(&self) -> bool {
        let (old, new) = (&self.old, &self.new);
        let gone = |member: &&Member| !(self.lives)(member) || Some(*member) == self.act.member;
        let mut went = old.run_states.iter().filter(|member| !new.run_states.contains(member));
        let (seq, furthest) = (new.shard_map.seq, new.shard_map.furthest);
        let counts_on = seq >= old.shard_map.seq && furthest >= old.shard_map.furthest;
        let stands = old.reshard_pending.is_some() && counts_on && self.before.held == self.after.held;
        let rests = old.kept == new.kept && old.shard_map == new.shard_map;
        let same = new.shard_map == ShardMap { seq, furthest, ..old.shard_map.clone() };
        rests || (same && stands && went.all(|member| gone(&member)))
    }

    /// Each node has one shard besides draining ones, and keeps it while there are as many. If a removed shard was
    /// behind, history has verdicts on its fires.
    fn check_broadcast(&self, book: &JobTrack, findings: &mut InvariantResults) {
        let (at, job) = (self.at(), self.job);
        let (old, new) = (&self.old.shard_map, &self.new.shard_map);
        let own = |shard_map: &ShardMap, node: &NodeName| {
            by_name(shard_map).get(node).map_or(ShardSet::empty(), |shards| shards.minus(&shard_map.draining))
        };
        for Member { node, .. } in &new.among {
            let (had, has) = (own(old, node), own(new, node));
            findings.test(at, Invariant::I34, has.len() == 1, || {
                format!("{node} has the shards {has} of {job}, which gives one to each node")
            });
            let keeps = had.first().filter(|had| had.0 < new.total && had_one(old)).is_none_or(|had| {
                let runs = self.before.open.values().any(|(by, _)| by.node == *node);
                runs || has.contains(had)
            });
            findings.test(at, Invariant::I32, keeps, || {
                format!("{node} had shard {had} of {job} and has {has}, of {} shards", new.total)
            });
        }
        let (Some(spec), Some(schedule)) = (&book.spec, &book.schedule) else { return };
        if !book.fires_by_schedule() || !had_one(old) {
            return;
        }
        let furthest = book.sharding.furthest.unwrap_or(Wall::MIN);
        for (shard, (_, watermark)) in &self.before.held {
            let mut fire = (*watermark).max(spec.since);
            while !self.after.held.contains_key(shard)
                && let Some(due) = schedule.next(fire).filter(|due| *due <= furthest)
            {
                fire = due;
                let covers = |v: &&Verdict| v.from <= due && due <= v.due && v.shards.contains(*shard);
                let told = self.new_verdicts(VerdictState::Skipped).any(|v| covers(&v));
                findings.test(at, Invariant::I16, told, || {
                    format!("the fire of {job} due at {due} went with shard {shard} without a word")
                });
            }
        }
    }

    /// The nodes and the strategy of the assignment, in words.
    fn dealing(&self) -> String {
        let shard_map = &self.new.shard_map;
        let names: Vec<&NodeName> = shard_map.among.iter().map(|member| &member.node).collect();
        format!("{names:?} {} {:?} {:?}", shard_map.total, shard_map.strategy, shard_map.order)
    }

    /// The same nodes get the same shards, and no node many more than others, unless shards are draining.
    fn check_assignments(
        &self,
        fixed: bool,
        key: String,
        book: &mut JobTrack,
        findings: &mut InvariantResults,
    ) {
        let (at, job) = (self.at(), self.job);
        let (old, new) = (&self.old.shard_map, &self.new.shard_map);
        let shares = by_name(new);
        if fixed {
            if old.number > 0 && old.total == new.total && old.draining.is_empty() && new.draining.is_empty()
            {
                let had = by_name(old);
                let kept = had.iter().all(|(name, shards)| shares.get(name) == Some(shards));
                findings
                    .test(at, Invariant::I32, kept, || format!("{job} is static, {had:?} became {shares:?}"));
            }
            return;
        }
        if !new.draining.is_empty() {
            return;
        }
        let sizes = || new.among.iter().map(|m| shares.get(&m.node).map_or(0, ShardSet::len));
        let spread = sizes().max().unwrap_or(0) - sizes().min().unwrap_or(0);
        findings.test(at, Invariant::I34, spread <= 1, || {
            format!("{job} was cut unevenly: {:?}", new.assignments)
        });
        let before = book.sharding.dealt.entry(key).or_insert_with(|| shares.clone());
        findings.test(at, Invariant::I32, *before == shares, || {
            format!("{job} was cut into {shares:?} for the same nodes that had {before:?}")
        });
    }
}

/// The number of shards of a reshard: if each node has one, draining shards are added.
pub(super) fn declared_total(job: &Job, shard_map: &ShardMap) -> u32 {
    let nodes = u32::try_from(shard_map.among.len() + shard_map.draining.len()).unwrap_or(u32::MAX);
    if job.placement.is_broadcast() { nodes } else { job.placement.shards() }
}

/// Whether a reshard gave one shard to each of its nodes.
fn had_one(shard_map: &ShardMap) -> bool {
    shard_map.number > 0 && shard_map.total as usize == shard_map.among.len() + shard_map.draining.len()
}

/// Whether a run state of a deleted job was removed, and nothing else happened to its assignments.
fn is_retired(old: &ShardMap, new: &ShardMap) -> bool {
    let ShardMap { number, seq, furthest, assignments, .. } = new.clone();
    let goes_on = number == old.number && seq >= old.seq && furthest >= old.furthest;
    let less = assignments.iter().all(|assignment| old.assignments.contains(assignment));
    goes_on && less && *new == ShardMap { number, seq, furthest, assignments, ..ShardMap::default() }
}

/// The assignments of a reshard by the names of their nodes.
fn by_name(shard_map: &ShardMap) -> BTreeMap<NodeName, ShardSet> {
    let mut shares: BTreeMap<NodeName, ShardSet> = BTreeMap::new();
    for assignment in &shard_map.assignments {
        let all = assignment.groups.iter().fold(ShardSet::empty(), |all, group| all.or(&group.shards));
        let Member { node, .. } = &assignment.holder;
        let share = shares.entry(node.clone()).or_default();
        *share = share.or(&all);
    }
    shares
}
