//! The state of each shard in a snapshot of a sharded job.

use evenkeel_core::ids::{Fire, Member, NodeName, Shard};
use evenkeel_core::record::{Attempt, ShardGroup, ShardRunState, TriggerRequest};
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;

use super::compat_job::CompatJob;

/// One shard, with its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompatShard<'a> {
    seen: &'a CompatJob,
    /// The shard's index.
    pub(super) shard: Shard,
    /// The member that got it at the last reshard.
    pub(super) holder: Option<&'a Member>,
    /// Its watermark at the last reshard.
    dealt: Wall,
    /// Its watermark now.
    watermark: Wall,
    /// The run state that has it.
    run_state: Option<&'a ShardRunState>,
    /// Its claim, and the member whose run state has the claim.
    open: Option<(&'a Member, &'a Attempt)>,
}

/// The shards that have records: the number of the last reshard, so none before the first.
#[must_use]
pub(super) fn shards(seen: &CompatJob) -> Vec<CompatShard<'_>> {
    let nothing = |shard| CompatShard {
        seen,
        shard: Shard(shard),
        holder: None,
        dealt: Wall::MIN,
        watermark: Wall::MIN,
        run_state: None,
        open: None,
    };
    let mut shards: Vec<CompatShard<'_>> = (0..seen.sharding.shard_map.total).map(nothing).collect();
    for assignment in &seen.sharding.shard_map.assignments {
        each(&mut shards, &assignment.groups, |shard, group| {
            shard.holder = Some(&assignment.holder);
            (shard.dealt, shard.watermark) = (group.watermark, group.watermark);
        });
    }
    for (member, run_state) in &seen.run_states {
        each(&mut shards, &run_state.groups, |shard, group| {
            (shard.run_state, shard.watermark) = (Some(run_state), group.watermark);
        });
        for open in &run_state.open {
            for shard in open.shards.iter() {
                if let Some(shard) = shards.get_mut(shard.0 as usize) {
                    shard.open = Some((member, open));
                }
            }
        }
    }
    shards
}

fn each<'a>(
    shards: &mut [CompatShard<'a>],
    groups: &'a [ShardGroup],
    mut tell: impl FnMut(&mut CompatShard<'a>, &'a ShardGroup),
) {
    for group in groups {
        for shard in group.shards.iter() {
            if let Some(shard) = shards.get_mut(shard.0 as usize) {
                tell(shard, group);
            }
        }
    }
}

impl<'a> CompatShard<'a> {
    /// Its claim in the run state of an online member.
    fn claimed(&self) -> Option<(&'a Member, &'a Attempt)> {
        self.open.filter(|(by, _)| self.seen.lives(by))
    }

    /// Its run, once it is due, and the member that runs it.
    pub(super) fn run(&self) -> Option<(&'a Member, &'a Attempt)> {
        self.claimed().filter(|(_, open)| open.starts_at() <= self.seen.now)
    }

    /// The member that took it over from its assigned member, until that run has ended.
    pub(super) fn failover_member(&self) -> Option<&'a Member> {
        self.claimed().map(|(by, _)| by).filter(|by| self.holder != Some(*by))
    }

    /// Whether a fire came due during its run, and will be caught up.
    pub(super) fn has_missed(&self, schedule: Option<&Schedule>) -> bool {
        let Some((by, open)) = self.run().filter(|_| self.seen.catches_up()) else { return false };
        let floor = self.floor().max(open.starts_at());
        let missed =
            schedule.and_then(|schedule| schedule.next(floor)).is_some_and(|due| due <= self.seen.now);
        missed && self.fires_on(&by.node)
    }

    /// Its next fire by the schedule.
    pub(super) fn next(&self, schedule: Option<&Schedule>) -> Option<Wall> {
        let claimed = self.claimed();
        let by = claimed.map(|(by, _)| by).or(self.holder)?;
        if !self.fires_on(&by.node) {
            return None;
        }
        let ahead = |open: &&Attempt| open.starts_at() > self.seen.now && matches!(open.fire, Fire::Due(_));
        match claimed.map(|(_, open)| open).filter(ahead) {
            Some(open) => Some(open.due),
            None => schedule?.next(self.floor().max(self.seen.now)),
        }
    }

    /// When its run began, or the last one that ended.
    pub(super) fn began(&self) -> Option<Wall> {
        if let Some((_, open)) = self.run() {
            return Some(open.starts_at());
        }
        let ended = self.ended()?;
        // A run state has only its latest start. If that is another shard's, the fire itself tells when this one began.
        let began = self.run_state.and_then(|run_state| run_state.began).filter(|began| *began <= ended);
        began.or_else(|| self.rest()).filter(|at| *at > Wall::MIN && *at <= ended)
    }

    /// When its last run ended, if its run state has that.
    pub(super) fn ended(&self) -> Option<Wall> {
        self.run_state?.ended.filter(|_| self.is_completed())
    }

    /// Whether a run of it has ended since the last reshard, and the next one has not begun.
    pub(super) fn is_completed(&self) -> bool {
        let Some(rest) = self.rest().filter(|_| !self.is_off()) else { return false };
        let Some(ended) = self.run_state.and_then(|run_state| run_state.ended) else { return false };
        // A fire that was skipped, or was lost with its node, is no ended run.
        let by_schedule = self.dealt < rest && rest <= ended;
        let by_hand = |request: &TriggerRequest| request.shards.contains(self.shard) && request.at <= ended;
        by_schedule || self.seen.triggers.requests.iter().any(by_hand)
    }

    /// Whether an operator has disabled it.
    pub(super) fn is_off(&self) -> bool {
        self.seen.spec.off.contains(self.shard)
    }

    /// The time up to which its fires are closed; `None` while one is open that has begun, or whose node is gone.
    fn rest(&self) -> Option<Wall> {
        match self.open {
            None => Some(self.watermark),
            Some(_) if self.run().is_some() => None,
            Some(_) => self.claimed().map(|(_, open)| open.back),
        }
    }

    /// The time up to which no fire of it will come.
    fn floor(&self) -> Wall {
        self.watermark.max(self.seen.spec.since)
    }

    /// Whether it fires by schedule on this node at all.
    fn fires_on(&self, node: &NodeName) -> bool {
        !self.seen.is_paused(node) && self.seen.job().enabled && !self.is_off()
    }
}
