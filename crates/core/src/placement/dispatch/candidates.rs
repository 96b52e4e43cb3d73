//! The candidate nodes: which nodes may be given runs in one step.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

use crate::eligibility;
use crate::ids::Member;
use crate::lifecycle;
use crate::load::Score;
use crate::rule_context::RuleContext;
use crate::slots::{NodeSlots, SlotTimeline};
use crate::view::{GroupId, JobView, View};

/// The nodes that runs may go to, as they are when the batch begins.
#[derive(Clone, Debug)]
pub struct CandidateNodes {
    /// In the order of their names.
    members: Vec<Member>,
    /// Whether this node itself has no slot left: then it is busy like others that report so.
    full: bool,
    /// The members that runs can be offered to in this beat.
    open: Vec<bool>,
    /// The members marked offline.
    offline: Vec<bool>,
    /// The cordoned members: they keep their runs and get no new ones.
    cordoned: Vec<bool>,
    /// Whether offline members are given runs of a group's jobs all the same.
    lenient: BTreeMap<GroupId, bool>,
    /// The candidates of each group, once computed.
    eligible: BTreeMap<GroupId, Rc<[usize]>>,
}

impl CandidateNodes {
    /// The working nodes, with which of them can be reached.
    pub(crate) fn new(ctx: &RuleContext<'_>) -> Self {
        let members: Vec<Member> = eligibility::workers(ctx).into_iter().cloned().collect();
        let beat = ctx.view.settings().beat_of(ctx.now.wall);
        let open = members.iter().map(|member| is_reachable(ctx, member, beat)).collect();
        let full = lifecycle::free_slots(ctx.view, ctx.local) == 0;
        let offline = members.iter().map(|member| ctx.view.is_offline(member)).collect();
        let cordoned = members.iter().map(|member| ctx.view.is_cordoned(&member.node)).collect();
        let (lenient, eligible) = (BTreeMap::new(), BTreeMap::new());
        Self { members, full, open, offline, cordoned, lenient, eligible }
    }

    /// The slots of the nodes without the runs of dispatched jobs, which are known one by one (S0-39).
    pub(super) fn timeline(&self, ctx: &RuleContext<'_>) -> SlotTimeline<GroupId> {
        let nodes = self.members.iter().zip(&self.cordoned);
        SlotTimeline::new(nodes.map(|(member, cordoned)| {
            let slots = slots(ctx, member);
            if *cordoned { slots.closed() } else { slots }
        }))
    }

    /// The place of a member among the nodes.
    pub(super) fn index(&self, member: &Member) -> Option<usize> {
        self.members.binary_search(member).ok()
    }

    /// Whether any node can be given new runs of this group's jobs.
    pub(crate) fn has_candidate(&mut self, view: &View, group: GroupId) -> bool {
        (0..self.members.len()).any(|at| !self.cordoned[at] && self.may_run_at(view, group, at))
    }

    /// Whether runs of this job may go to this member at all.
    pub(super) fn may_run(&mut self, ctx: &RuleContext<'_>, job: &JobView<'_>, member: &Member) -> bool {
        self.index(member).is_some_and(|at| self.may_run_at(ctx.view, job.group(), at))
    }

    fn may_run_at(&mut self, view: &View, group: GroupId, at: usize) -> bool {
        self.open[at]
            && view.fits(group, &self.members[at])
            && (!self.offline[at] || self.uses_offline(view, group))
    }

    /// Whether all eligible nodes of a group are offline. Then the strikes mean nothing any more: an offline node is
    /// better than none.
    fn uses_offline(&mut self, view: &View, group: GroupId) -> bool {
        let (members, offline) = (&self.members, &self.offline);
        *self.lenient.entry(group).or_insert_with(|| {
            let is_out = |member: &Member| view.is_cordoned(&member.node) || !view.fits(group, member);
            members.iter().zip(offline).all(|(member, offline)| *offline || is_out(member))
        })
    }

    /// Whether a node can run this job. Where no other can be reached, this one runs it if eligible (S0-44).
    pub(super) fn can_place(&mut self, ctx: &RuleContext<'_>, job: &JobView<'_>) -> bool {
        self.has_candidate(ctx.view, job.group()) || ctx.takes(job) && !ctx.is_cordoned()
    }

    /// The nodes that may be given runs of a group's jobs, by their places in the order of the nodes.
    pub(super) fn eligible(&mut self, view: &View, group: GroupId) -> Rc<[usize]> {
        if let Some(known) = self.eligible.get(&group) {
            return Rc::clone(known);
        }
        let eligible: Rc<[usize]> =
            (0..self.members.len()).filter(|at| self.may_run_at(view, group, *at)).collect();
        self.eligible.insert(group, Rc::clone(&eligible));
        eligible
    }

    /// Whether a node has no slot for a run that these passed on.
    pub(super) fn is_full(&self, me: &Member, at: usize, passed: &[Member]) -> bool {
        let member = &self.members[at];
        passed.contains(member) || (!passed.is_empty() && self.full && member == me)
    }

    /// The member at a place in the order of the nodes.
    pub(super) fn member(&self, at: usize) -> &Member {
        &self.members[at]
    }
}

/// Whether runs can be offered to a member, as far as is known in this beat.
fn is_reachable(ctx: &RuleContext<'_>, member: &Member, beat: u64) -> bool {
    member == ctx.member
        || (eligibility::has_address(ctx)
            && !ctx.local.peers.is_unreachable(member, beat)
            && ctx.view.member(member).is_some_and(|state| !state.info.address.is_empty()))
}

/// The slots of a member, without those that other jobs' runs take.
fn slots(ctx: &RuleContext<'_>, member: &Member) -> NodeSlots {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    if member == ctx.member {
        let dispatched = number(ctx.view.accepted_count());
        let others = eligibility::busy_slots(ctx).saturating_sub(dispatched);
        return NodeSlots::new(ctx.local.settings.slots, others, eligibility::load_score(ctx));
    }
    let slots = ctx.view.member(member).map_or(0, |state| state.info.slots);
    let others = ctx.view.load(member).map_or(0, |load| load.busy.saturating_sub(load.dispatched));
    let score: Score = ctx.view.score(member);
    NodeSlots::new(slots, others, score)
}
