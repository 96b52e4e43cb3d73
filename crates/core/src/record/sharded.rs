//! What the entries of a sharded job hold: who leads it, who has which shards, and what runs of them where.
//!
//! A shard's state is a watermark and at most one open run. It is kept in one place at a time: in the lane of whoever
//! answers for the shard, or, right after a cut, in the portion out of which a lane begins.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::RetryWait;
use crate::effect::Verdict;
use crate::ids::{Fire, Member, Shard};
use crate::job::{Job, SwitchOrigin};
use crate::sharding_strategy::{NodeOrder, ShardingStrategy};
use crate::shards::ShardSet;
use crate::time::Wall;

/// The part of a sharded job's place that its leader writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sharding {
    /// Who cuts the shares (S3-03). Persistent: whether it lives, its membership says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Member>,
    /// Set when the shares must be cut again: from then on nobody claims a fire, until they are (S2-54).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<ReshardPending>,
    /// The shares.
    #[serde(default)]
    pub cut: ShardMap,
    /// Everyone who may have a lane: whoever got a portion or settled for another, until it is gone and its lane empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<Member>,
    /// What lanes held that went ahead of the next cut, as there were too many for it; of one listed again it is no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<ShardAssignment>,
}

/// The wish that the shares be cut again before the next fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReshardPending {
    /// Since when.
    pub since: Wall,
    /// What made it necessary first.
    pub why: ReshardCause,
}

/// What makes a new cut necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReshardCause {
    /// A leader was elected.
    Elected,
    /// Nodes came, went, or were switched on or off.
    Nodes,
    /// The number of shards changed.
    Shards,
    /// The way of cutting changed.
    Strategy,
    /// Shards that were left where they ran have ended.
    Pinned,
    /// The shares were not whole: the leader repairs what it finds (S3-03).
    Repair,
}

/// The shares as they were cut last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardMap {
    /// The place's epoch when they were cut; 0 when they never were.
    #[serde(default)]
    pub number: u64,
    /// Lanes that begin under this cut count their claims from here, so that tokens rise for each shard.
    #[serde(default)]
    pub seq: u64,
    /// The furthest watermark that any shard ever had, also those that there are no more: where new ones begin.
    #[serde(default)]
    pub furthest: Option<Wall>,
    /// Into how many shards.
    #[serde(default)]
    pub total: u32,
    /// In which way.
    #[serde(default)]
    pub strategy: ShardingStrategy,
    /// In which order of nodes.
    #[serde(default)]
    pub order: NodeOrder,
    /// For whom, by name; also those who got nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub among: Vec<Member>,
    /// What each got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub portions: Vec<ShardAssignment>,
    /// Shards that were running for too long to be waited for, and stayed with whoever runs them.
    #[serde(default, skip_serializing_if = "ShardSet::is_empty")]
    pub pinned: ShardSet,
}

/// What one member got.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardAssignment {
    /// Who.
    pub holder: Member,
    /// Its shards, each with its watermark at the cut.
    pub groups: Vec<ShardGroup>,
}

/// Shards of one watermark.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardGroup {
    /// No fire due up to here is ever claimed again for them.
    pub watermark: Wall,
    /// Which.
    pub shards: ShardSet,
}

/// A member's own part of a sharded job, under `keys::shard_lane`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardRunState {
    /// The cut that its groups belong to. Those of an older one are in that cut's successor.
    pub cut: u64,
    /// Counts claims, attempts and withdrawals; the lower part of tokens. Rises with every write.
    pub seq: u64,
    /// The shards it answers for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ShardGroup>,
    /// What is claimed and not finished; no shard is in two of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenShards>,
    /// Verdicts that history has not acknowledged yet (law 9).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
    /// When its latest fire could start; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Wall>,
    /// When a run of it ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Wall>,
}

/// A claimed fire of some shards.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenShards {
    /// Which fire.
    pub fire: Fire,
    /// The moment it stands for.
    pub due: Wall,
    /// It starts in `[from, from + 1 s]`; later only after another commit has moved `from` (law 2).
    pub from: Wall,
    /// The watermark before the claim, for withdrawing it.
    pub back: Wall,
    /// Counted from 1.
    pub attempt: u32,
    /// The lane's `seq` at the claim: the lower part of the tokens.
    pub seq: u64,
    /// Into how many shards the fire was cut; a new number concerns the next one only.
    #[serde(default)]
    pub total: u32,
    /// Those that have not ended.
    pub shards: ShardSet,
    /// The attempt before failed, and this one is not claimed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<RetryWait>,
    /// When the first attempt could start; `None` in the first itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Wall>,
}

impl OpenShards {
    /// When the first attempt could start: from then on the runs take their time.
    #[must_use]
    pub fn began(&self) -> Wall {
        self.began.unwrap_or(self.from)
    }
}

/// What an operator has switched for one job on one node, under `keys::switches`. Each switch has its own way back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeSwitches {
    /// The node keeps its shards and fires them only by hand; until resumed, also through restarts (S2-38).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub paused: bool,
    /// The node takes no part in the job; until enabled, also through restarts (S2-34).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub disabled: bool,
    /// This life of the node takes no part in the job: its next one does (S2-39).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<u64>,
    /// When one of them was switched last, and by whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<SwitchOrigin>,
    /// Rises with every write.
    pub seq: u64,
}

impl Sharding {
    /// Out of what a member's lane begins: what it got at the last cut, or what its lane held when it went.
    #[must_use]
    pub fn assignment_of(&self, member: &Member) -> &[ShardGroup] {
        let all = if self.lanes.contains(member) { &self.cut.portions } else { &self.kept };
        let portion = all.iter().find(|portion| portion.holder == *member);
        portion.map_or(&[], |portion| &portion.groups)
    }

    /// A member's lane as it counts under this cut: one of an earlier cut begins anew, but for what still runs in it.
    #[must_use]
    pub fn run_state_of(&self, member: &Member, lane: Option<&ShardRunState>) -> ShardRunState {
        let mut lane = lane.cloned().unwrap_or_default();
        if lane.cut != self.cut.number {
            lane.cut = self.cut.number;
            lane.seq = lane.seq.max(self.cut.seq);
            lane.groups = self.assignment_of(member).to_vec();
        }
        lane
    }
}

impl ShardMap {
    /// Into how many shards the next fire is cut, as far as it is known: where each node has one, into as many as now.
    #[must_use]
    pub fn total_of(&self, job: &Job) -> u32 {
        if job.is_broadcast() { self.total } else { job.shards }
    }

    /// Whether each node has one shard, beside those that stay where they run.
    #[must_use]
    pub fn is_one_each(&self) -> bool {
        let own = |portion: &ShardAssignment| portion.shards().minus(&self.pinned).len();
        let has_one = |member: &Member| {
            self.portions.iter().find(|portion| portion.holder == *member).is_some_and(|p| own(p) == 1)
        };
        self.among.iter().all(has_one) && self.total as usize == self.among.len() + self.pinned.len()
    }

    /// Who has this shard.
    #[must_use]
    pub fn holder(&self, shard: Shard) -> Option<&Member> {
        let has = |p: &&ShardAssignment| p.groups.iter().any(|group| group.shards.contains(shard));
        self.portions.iter().find(has).map(|portion| &portion.holder)
    }
}

impl ShardAssignment {
    /// All shards of it, whatever their watermarks.
    #[must_use]
    pub fn shards(&self) -> ShardSet {
        self.groups.iter().fold(ShardSet::empty(), |all, group| all.or(&group.shards))
    }
}

impl ShardRunState {
    /// The shards it answers for.
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
    pub fn open_of(&self, shard: Shard) -> Option<&OpenShards> {
        self.open.iter().find(|open| open.shards.contains(shard))
    }

    /// Whether nothing of it is left to settle or to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.verdicts.is_empty()
    }

    /// Whether a fire that was open before is to come after all.
    #[must_use]
    pub fn takes_back(&self, before: &Self) -> bool {
        let back = |o: &OpenShards, g: &ShardGroup| g.watermark == o.back && g.shards.meets(&o.shards);
        let mut due = before.open.iter().filter(|open| matches!(open.fire, Fire::Due(_)));
        due.any(|open| self.groups.iter().any(|group| back(open, group)))
    }

    /// Takes shards out, with all their state.
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

    /// Adds an open fire; to one that differs from it in its shards only, and then starts as late as this one.
    pub fn add_open(&mut self, new: OpenShards) {
        let kind = |o: &OpenShards| (o.fire.clone(), o.attempt, o.back, o.total, o.wait, o.began);
        let same = |o: &&mut OpenShards| kind(o) == kind(&new);
        match self.open.iter_mut().find(same) {
            Some(open) => *open = OpenShards { shards: open.shards.or(&new.shards), ..new },
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
