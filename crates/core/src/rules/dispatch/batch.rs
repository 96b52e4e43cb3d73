//! A batch: who has how many slots free while one step hands out runs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Chosen;
use crate::load::Score;
use crate::rules::firing;
use crate::scene::Scene;
use crate::slots::FreeSlots;
use crate::standing;
use crate::view::{GroupId, JobView, View};
use crate::words::Member;

/// The nodes that runs may go to, and their free slots, each run that is given out counted.
#[derive(Clone, Debug)]
pub struct Batch {
    members: Vec<Member>,
    /// Whether this node itself has no slot left: then it is busy like others that say so.
    full: bool,
    scores: Vec<Score>,
    free: FreeSlots,
    /// Whom runs can be brought to in this beat.
    open: Vec<bool>,
    /// Who is taken for unreachable.
    offline: Vec<bool>,
    /// Whether those are given runs of a group's jobs all the same.
    lenient: BTreeMap<GroupId, bool>,
}

impl Batch {
    /// The snapshot that a batch begins with (S0-39).
    pub(crate) fn new(scene: &Scene<'_>) -> Self {
        let members: Vec<Member> = standing::workers(scene).into_iter().cloned().collect();
        let scores: Vec<Score> = members.iter().map(|member| score(scene, member)).collect();
        let free = |member| free_slots(scene, member) - scene.local.peers.placing.on(member);
        let free = members.iter().map(free).zip(scores.iter().copied());
        let free = FreeSlots::new(free.collect::<Vec<_>>());
        let beat = scene.view.settings().beat_of(scene.now.wall);
        let open = members.iter().map(|member| is_reachable(scene, member, beat)).collect();
        let full = firing::free_slots(scene.view, scene.local) == 0;
        let offline = members.iter().map(|member| scene.view.is_offline(member)).collect();
        Self { members, full, scores, free, open, offline, lenient: BTreeMap::new() }
    }

    /// Whether runs of this group's jobs can be given to anybody.
    pub(crate) fn has_anybody(&mut self, view: &View, group: GroupId) -> bool {
        (0..self.members.len()).any(|at| self.may_at(view, group, at))
    }

    /// Whether runs of this job may go to this member at all.
    pub(super) fn may_have(&mut self, scene: &Scene<'_>, job: &JobView<'_>, member: &Member) -> bool {
        self.members.binary_search(member).is_ok_and(|at| self.may_at(scene.view, job.group(), at))
    }

    fn may_at(&mut self, view: &View, group: GroupId, at: usize) -> bool {
        self.open[at]
            && view.fits(group, &self.members[at])
            && (!self.offline[at] || self.takes_offline(view, group))
    }

    /// Whether all nodes that fit a group's jobs are offline. Then the strikes say nothing any more: better one of them than
    /// nobody.
    fn takes_offline(&mut self, view: &View, group: GroupId) -> bool {
        let (members, offline) = (&self.members, &self.offline);
        *self.lenient.entry(group).or_insert_with(|| {
            members.iter().zip(offline).all(|(member, offline)| *offline || !view.fits(group, member))
        })
    }

    /// The node with most free slots of those that fit the job, but for those that `passed` it on. Where none of the others
    /// can be reached it is this node, whatever its slots (S0-44).
    pub(super) fn choose(
        &mut self,
        scene: &Scene<'_>,
        job: &JobView<'_>,
        passed: &[Member],
    ) -> Option<Chosen> {
        self.pick(scene, job, passed, |free, may| free.give(may))
    }

    /// The node that a run which has one already should move to: one that passed it on only if all did. `None` where it
    /// should stay, and where nobody may have it.
    pub(super) fn move_from(
        &mut self,
        scene: &Scene<'_>,
        job: &JobView<'_>,
        by: &Member,
        passed: &[Member],
    ) -> Option<Chosen> {
        for passed in [passed, &[]] {
            match self.pick(scene, job, passed, |free, may| free.best(may)) {
                // It counts as this node's already.
                Some((best, _)) if best == *by => return None,
                Some(_) => return self.choose(scene, job, passed),
                None => {}
            }
        }
        None
    }

    fn pick(
        &mut self,
        scene: &Scene<'_>,
        job: &JobView<'_>,
        passed: &[Member],
        how: impl Fn(&mut FreeSlots, &dyn Fn(usize) -> bool) -> Option<(usize, i64)>,
    ) -> Option<Chosen> {
        let lenient = self.takes_offline(scene.view, job.group());
        let busy = |member: &Member| {
            passed.contains(member) || (!passed.is_empty() && self.full && member == scene.member)
        };
        let fits = |at: usize| job.fits(&self.members[at]) && (lenient || !self.offline[at]);
        let may = |at: usize| self.open[at] && !busy(&self.members[at]) && fits(at);
        how(&mut self.free, &may)
            .map(|(at, free)| (self.members[at].clone(), free))
            .or_else(|| kept(scene, job, passed))
    }

    /// The node with the lowest load score of those that fit the job (S0-54).
    pub(super) fn idlest(&mut self, scene: &Scene<'_>, job: &JobView<'_>) -> Option<Chosen> {
        let may: Vec<usize> =
            (0..self.members.len()).filter(|at| self.may_at(scene.view, job.group(), *at)).collect();
        let best = may.into_iter().min_by_key(|at| self.scores[*at])?;
        self.free.give(|at| at == best).map(|(at, free)| (self.members[at].clone(), free))
    }
}

/// Whether a member can be brought runs, as far as is known in this beat.
fn is_reachable(scene: &Scene<'_>, member: &Member, beat: u64) -> bool {
    member == scene.member
        || (standing::speaks(scene)
            && !scene.local.peers.is_unreachable(member, beat)
            && scene.view.member(member).is_some_and(|state| !state.info.address.is_empty()))
}

/// Where nobody can be reached, this node keeps a run that it can do, even if its peers do not reach it either.
fn kept(scene: &Scene<'_>, job: &JobView<'_>, passed: &[Member]) -> Option<Chosen> {
    (scene.takes(job) && passed.is_empty()).then(|| (scene.member.clone(), free_slots(scene, scene.member)))
}

fn score(scene: &Scene<'_>, member: &Member) -> Score {
    if member == scene.member { standing::score(scene) } else { scene.view.score(member) }
}

/// The slots of a member that no run has, runs planned for it counted as running.
fn free_slots(scene: &Scene<'_>, member: &Member) -> i64 {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let free = if member == scene.member {
        number(firing::free_slots(scene.view, scene.local))
    } else {
        let slots = scene.view.member(member).map_or(0, |state| state.info.slots);
        i64::from(slots) - scene.view.load(member).map_or(0, |load| i64::from(load.busy))
    };
    free - number(scene.view.planned_for(member))
}
