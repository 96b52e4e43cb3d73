//! Giving: the runs of all jobs that one step plans go to nodes in the order in which they are due, each to the node that is
//! expected to have the most slots free at that moment.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{Batch, Desk};
use crate::job::Priority;
use crate::record::{Plan, Planned, PlannerKind};
use crate::scene::Scene;
use crate::slots::SlotTimeline;
use crate::standing::Right;
use crate::time::{Millis, Wall};
use crate::view::{GroupId, JobId, Terms};
use crate::words::{Fire, Member};

/// A run of a draft that is to be given to a node.
#[derive(Clone, Debug)]
pub(super) struct Want {
    /// Which of the draft's runs; it may have left the draft since.
    pub(super) fire: Fire,
    /// Those that had no slot for it when it was due.
    pub(super) passed: Vec<Member>,
    pub(super) to: Target,
}

/// Which node a run is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The one with the most slots free at its moment (S0-41).
    MostSlots,
    /// The same, and it stays where it is when that node has as many.
    Better,
    /// The one with the lowest load score (S0-54).
    LeastLoaded,
}

/// What takes a slot of a node from some moment on.
struct Span {
    begin: Wall,
    /// Of those that begin together the more urgent first, and what stands already before all others.
    rank: (bool, Reverse<Priority>),
    length: Millis,
    what: What,
}

enum What {
    /// A run that has its node, at this place in the batch.
    Given(usize),
    /// A want of a desk.
    Wanted { desk: usize, want: usize },
}

/// Gives every run that the desks want given.
pub(super) fn give(scene: &Scene<'_>, right: &Right, desks: &mut [Desk<'_>], batch: &mut Batch) {
    if desks.iter().all(|desk| desk.wants.is_empty()) {
        return;
    }
    let mut spans = known(scene, right, desks, batch);
    for (at, desk) in desks.iter().enumerate() {
        let rank = (true, Reverse(desk.job.priority()));
        spans.extend(desk.wants.iter().enumerate().filter_map(|(want, wanted)| {
            let run = desk.draft.runs.iter().find(|run| run.fire == wanted.fire)?;
            let length = length(&desk.draft, desk.state.terms.as_deref(), run, right);
            let begin = begin(run).max(scene.now.wall);
            Some(Span { begin, rank, length, what: What::Wanted { desk: at, want } })
        }));
    }
    spans.sort_by_key(|span| (span.begin, span.rank));
    let mut slots = batch.timeline(scene);
    for Span { begin, length, what, .. } in spans {
        slots.advance(begin);
        match what {
            What::Given(at) => drop(slots.give(at, begin, length)),
            What::Wanted { desk, want } => {
                let desk = &mut desks[desk];
                let want = desk.wants[want].clone();
                let (by, free) = choose(scene, desk, &want, batch, &mut slots, (begin, length));
                desk.place(&want, by, free);
            }
        }
    }
}

/// Chooses the node for a run, and says how many slots that node has free. A node that had no slot for the run is chosen again
/// only when no node had one. Where no node can be reached it is this one, whatever its slots (S0-44).
fn choose(
    scene: &Scene<'_>,
    desk: &Desk<'_>,
    want: &Want,
    batch: &mut Batch,
    slots: &mut SlotTimeline<GroupId>,
    (due, length): (Wall, Millis),
) -> (Member, i64) {
    let run = desk.draft.runs.iter().find(|run| run.fire == want.fire);
    let by = run.and_then(|run| batch.index(&run.by));
    let eligible = batch.eligible(scene.view, desk.job.group());
    for passed in [want.passed.as_slice(), &[]] {
        let may = |at: &usize| !batch.is_full(scene.member, *at, passed);
        let best = match want.to {
            Target::LeastLoaded => slots.least_loaded(eligible.iter().copied().filter(may)),
            Target::MostSlots | Target::Better => slots.best(desk.job.group(), &eligible, may),
        };
        let Some((best, most)) = best else { continue };
        let stays = |at: &usize| {
            want.to == Target::Better
                && eligible.binary_search(at).is_ok()
                && may(at)
                && slots.free(*at).is_some_and(|free| free >= most)
        };
        let at = by.filter(stays).unwrap_or(best);
        let free = slots.give(at, due, length).unwrap_or(0);
        return (batch.member(at).clone(), free);
    }
    let free = batch.index(scene.member).and_then(|at| slots.give(at, due, length)).unwrap_or(0);
    (scene.member.clone(), free)
}

/// The runs that stand in plans already, as far as plans were read, and those of plans that are being written.
fn known(scene: &Scene<'_>, right: &Right, desks: &[Desk<'_>], batch: &Batch) -> Vec<Span> {
    let drafts: BTreeMap<JobId, &Desk<'_>> = desks.iter().map(|desk| (desk.job.id, desk)).collect();
    let mut spans = Vec::new();
    let rank = (false, Reverse(Priority::default()));
    let mut add = |plan: &Plan, terms: Option<&Terms>, run: &Planned| {
        let Some(at) = batch.index(&run.by) else { return };
        let (begin, length) = taken(scene, right, plan, terms, run);
        spans.push(Span { begin, rank, length, what: What::Given(at) });
    };
    for id in scene.view.dispatched() {
        if let Some(desk) = drafts.get(&id) {
            for run in desk.draft.runs.iter().filter(|run| !desk.wants(&run.fire)) {
                add(&desk.draft, desk.state.terms.as_deref(), run);
            }
            continue;
        }
        let Some(state) = scene.view.job(id).dispatched() else { continue };
        let Some(plan) = state.plan.as_ref().and_then(|plan| plan.known.value.as_ref()) else { continue };
        plan.runs.iter().for_each(|run| add(plan, state.terms.as_deref(), run));
    }
    for (member, begin, length) in scene.local.peers.placing.spans() {
        let Some(at) = batch.index(member) else { continue };
        spans.push(Span { begin, rank, length, what: What::Given(at) });
    }
    spans
}

/// When a run that stands in a plan takes its slot, and for how long.
fn taken(
    scene: &Scene<'_>,
    right: &Right,
    plan: &Plan,
    terms: Option<&Terms>,
    run: &Planned,
) -> (Wall, Millis) {
    let (begin, length) = (begin(run), length(plan, terms, run, right));
    let settings = scene.view.settings();
    // A beat's planner has read the plan in that beat, so what should have ended before it goes on.
    let read = (settings.planner == PlannerKind::Beat).then(|| settings.start_of(right.planner.number));
    let goes_on = run.is_accepted() && read.is_some_and(|read| begin + length <= read);
    if goes_on { (begin, scene.now.wall - begin + length) } else { (begin, length) }
}

/// When a run can begin at the earliest.
pub(super) fn begin(run: &Planned) -> Wall {
    run.from.or_else(|| run.wait.map(|wait| wait.until)).unwrap_or(run.due)
}

/// How long a run is expected to take: as long as the latest ones of its job; where none has ended yet, until the job's next
/// fire; where there is none, as long as is planned ahead.
pub(super) fn length(plan: &Plan, terms: Option<&Terms>, run: &Planned, right: &Right) -> Millis {
    let next = || terms?.schedule.as_ref()?.next(run.due).map(|next| next - run.due);
    plan.took.or_else(next).unwrap_or_else(|| right.horizon - run.due).max(Millis(1))
}
