//! The watch's book of one sharded job: where each shard's state is, every fire of every shard, every physical run.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::effect::Verdict;
use evenkeel_core::ids::{Fire, Member, NodeName, RequestId, RunId, Shard, Token};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::record::{OpenShards, ShardGroup, ShardRunState, Sharding};
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;

use super::super::tracks::FireTrack;

/// Everything the watch knows of a sharded job, beside its declaration and its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardedJobTrack {
    /// The lanes as they were written last.
    pub run_states: BTreeMap<Member, ShardRunState>,
    /// Where every shard stands, by place and lanes together.
    pub standing: ShardPositions,
    pub fires: BTreeMap<(Fire, Shard), FireTrack>,
    /// The runs that physically go on, by where.
    pub running: BTreeMap<Shard, (Fire, u32, NodeName)>,
    /// The highest token that physically started, and where.
    pub tokens: BTreeMap<Shard, (Token, NodeName)>,
    /// Since when its shares are marked, in the world's time.
    pub reshard_since: Option<i64>,
    /// How far any shard had come at a cut.
    pub furthest: Option<Wall>,
    /// Lost members, and the shards that were taken over from each.
    pub rescued: BTreeSet<(Shard, Member)>,
    /// What was dealt to the same nodes in the same way before, by whom, how many shards, strategy and order.
    pub dealt: BTreeMap<String, BTreeMap<NodeName, ShardSet>>,
    /// Shards whose run ended, when that was closed, under which edition of the job, and how many fires that came
    /// due before were claimed since.
    pub missed: BTreeMap<Shard, (Wall, u64, u32)>,
    /// Of how many shards a shard was one when its fire was claimed.
    pub totals: BTreeMap<(Fire, Shard), u32>,
    /// Requests by hand that were refused for a shard, because it ran.
    pub refused: BTreeSet<(Fire, Shard)>,
    /// Of a job that runs on every node, which node has run which request.
    pub requested_on: BTreeSet<(RequestId, NodeName)>,
    /// Nodes that were ever paused for this job: what passes them by unseen is no loss.
    pub paused: BTreeSet<NodeName>,
}

/// Where each shard of a job stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardPositions {
    /// Who answers for it, and its watermark.
    pub held: BTreeMap<Shard, (Member, Wall)>,
    /// Its open run, and in whose lane.
    pub open: BTreeMap<Shard, (Member, OpenShards)>,
    /// Shards that are in two lanes, or open twice.
    pub doubled: BTreeSet<Shard>,
    /// Verdicts of all lanes.
    pub verdicts: BTreeMap<(RunId, u32), Verdict>,
}

impl ShardPositions {
    /// What place and lanes say together: a lane of an earlier cut is worth its open runs only, and the groups are in the
    /// portion.
    pub(super) fn of(sharding: &Sharding, lanes: &BTreeMap<Member, ShardRunState>) -> Self {
        let mut standing = Self::default();
        let portions = || sharding.cut.portions.iter().chain(&sharding.kept);
        let members: BTreeSet<&Member> =
            lanes.keys().chain(portions().map(|portion| &portion.holder)).collect();
        for member in members {
            let lane = lanes.get(member);
            let current = lane.filter(|lane| lane.cut == sharding.cut.number);
            let groups = current.map_or_else(|| sharding.assignment_of(member), |lane| &lane.groups);
            standing.hold(member, groups);
            for open in lane.iter().flat_map(|lane| &lane.open) {
                for shard in open.shards.iter() {
                    let before = standing.open.insert(shard, (member.clone(), open.clone()));
                    standing.doubled.extend(before.map(|_| shard));
                }
            }
            for verdict in lane.iter().flat_map(|lane| &lane.verdicts) {
                standing.verdicts.insert((verdict.run.clone(), verdict.attempt), verdict.clone());
            }
        }
        standing
    }

    fn hold(&mut self, member: &Member, groups: &[ShardGroup]) {
        for group in groups {
            for shard in group.shards.iter() {
                let before = self.held.insert(shard, (member.clone(), group.watermark));
                self.doubled.extend(before.map(|_| shard));
            }
        }
    }

    pub(super) fn watermark(&self, shard: Shard) -> Option<Wall> {
        self.held.get(&shard).map(|(_, watermark)| *watermark)
    }

    /// Every shard that stands somewhere.
    pub(super) fn shards(&self) -> BTreeSet<Shard> {
        self.held.keys().chain(self.open.keys()).copied().collect()
    }
}

impl ShardedJobTrack {
    pub(super) fn fire(&mut self, fire: &Fire, shard: Shard) -> &mut FireTrack {
        self.fires.entry((fire.clone(), shard)).or_default()
    }

    /// A run physically ended.
    pub(crate) fn ended(&mut self, at: i64, name: &NodeName, run: &RunId, attempt: u32, ended: RunOutcome) {
        let here = |(fire, a, n): &(Fire, u32, NodeName)| *fire == run.fire && *a == attempt && n == name;
        if self.running.get(&run.shard).is_some_and(here) {
            self.running.remove(&run.shard);
        }
        if let Some(attempt) = self
            .fires
            .get_mut(&(run.fire.clone(), run.shard))
            .and_then(|fire| fire.attempts.get_mut(&attempt))
        {
            (attempt.ended, attempt.over) = (Some(ended), Some(at));
        }
    }
}
