//! The checker's track of one sharded job: the state of each shard, every fire of every shard, every physical run.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::effect::Verdict;
use evenkeel_core::ids::{Fire, Member, NodeName, RequestId, RunId, Shard, Token};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::record::{Attempt, ShardGroup, ShardRunState, Sharding};
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;

use super::super::tracks::FireTrack;

/// The checker's knowledge of a sharded job, besides its declaration and its assignment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardedJobTrack {
    /// The run states as last written.
    pub run_states: BTreeMap<Member, ShardRunState>,
    /// The position of every shard, by assignment and run states together.
    pub standing: ShardPositions,
    pub fires: BTreeMap<(Fire, Shard), FireTrack>,
    /// The runs that physically go on, and their nodes.
    pub running: BTreeMap<Shard, (Fire, u32, NodeName)>,
    /// The highest token that physically started, and its node.
    pub tokens: BTreeMap<Shard, (Token, NodeName)>,
    /// Since when a reshard is pending, in the world's time.
    pub reshard_since: Option<i64>,
    /// The furthest watermark of any shard at a reshard.
    pub furthest: Option<Wall>,
    /// Lost members, and the shards that were taken over from each.
    pub rescued: BTreeSet<(Shard, Member)>,
    /// The previous assignments, by nodes, number of shards, strategy and order.
    pub dealt: BTreeMap<String, BTreeMap<NodeName, ShardSet>>,
    /// Shards whose run ended, when it was closed, under which edition of the job, and how many fires that came
    /// due before were claimed since.
    pub missed: BTreeMap<Shard, (Wall, u64, u32)>,
    /// The total number of shards when a shard's fire was claimed.
    pub totals: BTreeMap<(Fire, Shard), u32>,
    /// Requests that were refused for a shard, because it ran.
    pub refused: BTreeSet<(Fire, Shard)>,
    /// Of a broadcast job, which node has run which request.
    pub requested_on: BTreeSet<(RequestId, NodeName)>,
    /// Nodes that were ever paused for this job: fires that they pass over are no loss.
    pub paused: BTreeSet<NodeName>,
}

/// The position of each shard of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardPositions {
    /// The responsible member, and its watermark.
    pub held: BTreeMap<Shard, (Member, Wall)>,
    /// Its open run, and the member whose run state has it.
    pub open: BTreeMap<Shard, (Member, Attempt)>,
    /// Shards that are in two run states, or open twice.
    pub doubled: BTreeSet<Shard>,
    /// Verdicts of all run states.
    pub verdicts: BTreeMap<(RunId, u32), Verdict>,
}

impl ShardPositions {
    /// Combines assignment and run states: a run state from before the last reshard counts for its open runs only, and
    /// the groups are in the shard assignment.
    pub(super) fn of(sharding: &Sharding, run_states: &BTreeMap<Member, ShardRunState>) -> Self {
        let mut standing = Self::default();
        let assignments = || sharding.shard_map.assignments.iter().chain(&sharding.kept);
        let members: BTreeSet<&Member> =
            run_states.keys().chain(assignments().map(|assignment| &assignment.holder)).collect();
        for member in members {
            let run_state = run_states.get(member);
            let current = run_state.filter(|run_state| run_state.map_number == sharding.shard_map.number);
            let groups =
                current.map_or_else(|| sharding.assignment_of(member), |run_state| &run_state.groups);
            standing.hold(member, groups);
            for open in run_state.iter().flat_map(|run_state| &run_state.open) {
                for shard in open.shards.iter() {
                    let before = standing.open.insert(shard, (member.clone(), open.clone()));
                    standing.doubled.extend(before.map(|_| shard));
                }
            }
            for verdict in run_state.iter().flat_map(|run_state| &run_state.verdicts) {
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

    /// Every shard with a position.
    pub(super) fn shards(&self) -> BTreeSet<Shard> {
        self.held.keys().chain(self.open.keys()).copied().collect()
    }
}

impl ShardedJobTrack {
    pub(super) fn fire(&mut self, fire: &Fire, shard: Shard) -> &mut FireTrack {
        self.fires.entry((fire.clone(), shard)).or_default()
    }

    /// Records the physical end of a run.
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
