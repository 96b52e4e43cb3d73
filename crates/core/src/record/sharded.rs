//! The records of a sharded job: its leader, its shard assignments, and the run state of each member's shards.
//!
//! A shard's state is a watermark and at most one open run. It is stored in one place at a time: in the run state of
//! the member that answers for the shard, or, right after a reshard, in the assignment out of which it begins.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::{Attempt, FailureStreak, Outcomes};
use crate::effect::Verdict;
use crate::ids::{Fire, Member, Shard};
use crate::job::{Job, SwitchOrigin};
use crate::sharding_strategy::{NodeOrder, ShardingStrategy};
use crate::shards::ShardSet;
use crate::time::Wall;

/// The part of a sharded job's assignment that its leader writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sharding {
    /// The leader, which reshards (S3-03). Persistent: its membership says whether it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Member>,
    /// Set when a reshard is pending: until it is done no fire is claimed (S2-54).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reshard_pending: Option<ReshardPending>,
    /// The shard assignments.
    #[serde(default)]
    pub shard_map: ShardMap,
    /// All members that may have a run state: those that got shards or settled for another, until dead and empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_states: Vec<Member>,
    /// Run states removed ahead of the next reshard, which had no room for them; one that is listed again is void.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<ShardAssignment>,
}

/// A pending reshard, to be done before the next fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReshardPending {
    /// When it was requested.
    pub since: Wall,
    /// The first reason for it.
    pub why: ReshardCause,
}

/// The reason for a reshard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReshardCause {
    /// A leader was elected.
    Elected,
    /// Nodes joined, left, or were enabled or disabled.
    Nodes,
    /// The number of shards changed.
    Shards,
    /// The sharding strategy changed.
    Strategy,
    /// Draining shards have ended.
    Draining,
    /// The shard assignments were inconsistent: the leader repairs them (S3-03).
    Repair,
}

/// The shard assignments of the last reshard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardMap {
    /// The epoch of the job's assignment at the reshard; 0 when there was none yet.
    #[serde(default)]
    pub number: u64,
    /// Run states that begin under this map count their claims from here, so that tokens rise for each shard.
    #[serde(default)]
    pub seq: u64,
    /// The furthest watermark that any shard ever had, also removed shards: new ones begin there.
    #[serde(default)]
    pub furthest: Option<Wall>,
    /// The number of shards.
    #[serde(default)]
    pub total: u32,
    /// The sharding strategy.
    #[serde(default)]
    pub strategy: ShardingStrategy,
    /// The order of nodes.
    #[serde(default)]
    pub order: NodeOrder,
    /// The members that took part, by name; also those that got no shard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub among: Vec<Member>,
    /// The assignment of each member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assignments: Vec<ShardAssignment>,
    /// Draining shards: a reshard could not wait for their runs, so they stay with the members that run them.
    #[serde(default, skip_serializing_if = "ShardSet::is_empty")]
    pub draining: ShardSet,
}

/// The shards that one member got.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardAssignment {
    /// The member.
    pub holder: Member,
    /// Its shards, each with its watermark at the reshard.
    pub groups: Vec<ShardGroup>,
}

/// Shards with the same watermark.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardGroup {
    /// No fire due up to here is ever claimed again for them.
    pub watermark: Wall,
    /// The shards.
    pub shards: ShardSet,
}

/// A member's own run state of a sharded job, under `keys::shard_run_state`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardRunState {
    /// The epoch of the shard map that its groups belong to. Those of an older map are in that map's successor.
    pub map_number: u64,
    /// Counts claims, attempts and withdrawals; the lower part of tokens. Rises with every write.
    pub seq: u64,
    /// The shards it answers for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ShardGroup>,
    /// The claimed fires that are not finished; no shard is in two of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Attempt>,
    /// Verdicts that history has not acknowledged yet (law 9).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
    /// The runs in a row that ended badly, of a job that is paused after some.
    #[serde(default, skip_serializing_if = "FailureStreak::is_none")]
    pub failures: FailureStreak,
    /// When its latest fire could start; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Wall>,
    /// When a run of it ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Wall>,
}

/// The switches of one job on one node, set by operators, under `keys::switches`. Each has its own way back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeSwitches {
    /// The node keeps its shards and fires them only on a manual trigger; until resumed, also through restarts (S2-38).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub paused: bool,
    /// The node is excluded from the job; until enabled, also through restarts (S2-34).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub disabled: bool,
    /// This life of the node is excluded from the job; its next one is not (S2-39).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<u64>,
    /// When one of them was switched last, and by whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<SwitchOrigin>,
    /// Rises with every write.
    pub seq: u64,
}

impl Sharding {
    /// The start of a member's run state: its assignment of the last reshard, or its removed run state.
    #[must_use]
    pub fn assignment_of(&self, member: &Member) -> &[ShardGroup] {
        let all = if self.run_states.contains(member) { &self.shard_map.assignments } else { &self.kept };
        let assignment = all.iter().find(|assignment| assignment.holder == *member);
        assignment.map_or(&[], |assignment| &assignment.groups)
    }

    /// A member's run state under this map: one of an earlier map begins anew, but for the runs still open in it.
    #[must_use]
    pub fn run_state_of(&self, member: &Member, run_state: Option<&ShardRunState>) -> ShardRunState {
        let mut run_state = run_state.cloned().unwrap_or_default();
        if run_state.map_number != self.shard_map.number {
            run_state.map_number = self.shard_map.number;
            run_state.seq = run_state.seq.max(self.shard_map.seq);
            run_state.groups = self.assignment_of(member).to_vec();
        }
        run_state
    }
}

impl ShardMap {
    /// The number of shards of the next fire, as far as it is known: of a broadcast job, the present number.
    #[must_use]
    pub fn total_of(&self, job: &Job) -> u32 {
        if job.placement.is_broadcast() { self.total } else { job.placement.shards() }
    }

    /// Whether each node has one shard, beside draining ones.
    #[must_use]
    pub fn is_one_each(&self) -> bool {
        let own = |assignment: &ShardAssignment| assignment.shards().minus(&self.draining).len();
        let has_one = |member: &Member| {
            self.assignments
                .iter()
                .find(|assignment| assignment.holder == *member)
                .is_some_and(|p| own(p) == 1)
        };
        self.among.iter().all(has_one) && self.total as usize == self.among.len() + self.draining.len()
    }

    /// The member that has this shard.
    #[must_use]
    pub fn holder(&self, shard: Shard) -> Option<&Member> {
        let has = |p: &&ShardAssignment| p.groups.iter().any(|group| group.shards.contains(shard));
        self.assignments.iter().find(has).map(|assignment| &assignment.holder)
    }
}

impl ShardAssignment {
    /// All its shards, whatever their watermarks.
    #[must_use]
    pub fn shards(&self) -> ShardSet {
        self.groups.iter().fold(ShardSet::empty(), |all, group| all.or(&group.shards))
    }
}

impl ShardRunState {
    /// The parts that the ends of runs change.
    pub fn outcomes(&mut self) -> Outcomes<'_> {
        Outcomes { verdicts: &mut self.verdicts, failures: &mut self.failures }
    }

    /// All shards that it answers for.
    #[must_use]
    pub fn shards(&self) -> ShardSet {
        self.groups.iter().fold(ShardSet::empty(), |all, group| all.or(&group.shards))
    }

    /// The shards that are claimed and not finished.
    #[must_use]
    pub fn unfinished(&self) -> ShardSet {
        self.open.iter().fold(ShardSet::empty(), |all, open| all.or(&open.shards))
    }

    /// The open fire of a shard.
    #[must_use]
    pub fn open_of(&self, shard: Shard) -> Option<&Attempt> {
        self.open.iter().find(|open| open.shards.contains(shard))
    }

    /// Whether nothing of it is left to settle or to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.verdicts.is_empty()
    }

    /// Whether a fire that was open before is to run after all.
    #[must_use]
    pub fn takes_back(&self, before: &Self) -> bool {
        let back = |o: &Attempt, g: &ShardGroup| g.watermark == o.back && g.shards.meets(&o.shards);
        let mut due = before.open.iter().filter(|open| matches!(open.fire, Fire::Due(_)));
        due.any(|open| self.groups.iter().any(|group| back(open, group)))
    }

    /// Removes shards with all their state.
    pub fn remove(&mut self, shards: &ShardSet) {
        self.groups.iter_mut().for_each(|group| group.shards = group.shards.minus(shards));
        self.groups.retain(|group| !group.shards.is_empty());
        self.close(shards);
    }

    /// Ends the open runs of these shards.
    pub fn close(&mut self, shards: &ShardSet) {
        self.open.iter_mut().for_each(|open| open.shards = open.shards.minus(shards));
        self.open.retain(|open| !open.shards.is_empty());
    }

    /// Moves the watermark of shards, which may be new here.
    pub fn set_watermark(&mut self, shards: &ShardSet, watermark: Wall) {
        regroup(&mut self.groups, shards, watermark);
    }

    /// Adds an open fire; merges it into one that differs in its shards only, which then starts as late as this one.
    pub fn add_open(&mut self, new: Attempt) {
        let kind = |o: &Attempt| (o.fire.clone(), o.attempt, o.back, o.total, o.wait, o.began);
        let same = |o: &&mut Attempt| kind(o) == kind(&new);
        match self.open.iter_mut().find(same) {
            Some(open) => *open = Attempt { shards: open.shards.or(&new.shards), ..new },
            None => self.open.push(new),
        }
    }
}

/// Gives shards another watermark within groups.
pub(crate) fn regroup(groups: &mut Vec<ShardGroup>, shards: &ShardSet, watermark: Wall) {
    if shards.is_empty() {
        return;
    }
    groups.iter_mut().for_each(|group| group.shards = group.shards.minus(shards));
    groups.retain(|group| !group.shards.is_empty());
    match groups.iter_mut().find(|group| group.watermark == watermark) {
        Some(group) => group.shards = group.shards.or(shards),
        None => groups.push(ShardGroup { watermark, shards: shards.clone() }),
    }
    groups.sort_by_key(|group| group.watermark);
}
