//! Placement: the runs of all jobs that one step plans go to nodes in the order in which they are due, each to the node
//! that is expected to have the most slots free at that moment.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{CandidateNodes, PlanWriter};
use crate::eligibility::PlanningRight;
use crate::ids::{Fire, Member};
use crate::job::Priority;
use crate::local::PlacedRun;
use crate::record::{Attempt, Plan, PlannerKind};
use crate::rule_context::RuleContext;
use crate::slots::SlotTimeline;
use crate::time::{Millis, Wall};
use crate::view::{GroupId, JobId, JobTerms};

/// A run of a draft that is to be placed on a node.
#[derive(Clone, Debug)]
pub(super) struct PendingPlacement {
    /// The run; it may have left the draft since.
    pub(super) fire: Fire,
    /// The nodes that had no slot for it when it was due.
    pub(super) busy: Vec<Member>,
    pub(super) to: PlacementChoice,
}

/// How the node of a run is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlacementChoice {
    /// The node with the most slots free at the run's moment (S0-41).
    MostSlots,
    /// The same, but the run stays where it is when that node has as many.
    Better,
    /// The node with the lowest load score (S0-54).
    LeastLoaded,
}

/// A use of a node's slot from some moment on.
struct SlotUse {
    begin: Wall,
    /// Of those that begin together the more urgent first, and runs in existing plans before all others.
    rank: (bool, Reverse<Priority>),
    length: Millis,
    holder: SlotHolder,
}

enum SlotHolder {
    /// A run that has its node, by that node's index among the candidates.
    Placed(usize),
    /// A pending placement of a plan.
    Pending { plan: usize, placement: usize },
}

/// Places every run that the plans want placed.
pub(super) fn place_runs(
    ctx: &RuleContext<'_>,
    right: &PlanningRight,
    writers: &mut [PlanWriter<'_>],
    batch: &mut CandidateNodes,
) {
    if writers.iter().all(|writer| writer.placements.is_empty()) {
        return;
    }
    let mut spans = known(ctx, right, writers, batch);
    for (at, writer) in writers.iter().enumerate() {
        let rank = (true, Reverse(writer.job.priority()));
        spans.extend(writer.placements.iter().enumerate().filter_map(|(want, wanted)| {
            let run = writer.draft.runs.iter().find(|run| run.fire == wanted.fire)?;
            let length = length(&writer.draft, writer.state.terms.as_deref(), run, right);
            let begin = begin(run).max(ctx.now.wall);
            Some(SlotUse { begin, rank, length, holder: SlotHolder::Pending { plan: at, placement: want } })
        }));
    }
    spans.sort_by_key(|span| (span.begin, span.rank));
    let mut slots = batch.timeline(ctx);
    for SlotUse { begin, length, holder: what, .. } in spans {
        slots.advance(begin);
        match what {
            SlotHolder::Placed(at) => drop(slots.take_slot(at, begin, length)),
            SlotHolder::Pending { plan: writer, placement: want } => {
                let writer = &mut writers[writer];
                let want = writer.placements[want].clone();
                let (by, free) = choose(ctx, writer, &want, batch, &mut slots, (begin, length));
                writer.place(&want, by, free);
            }
        }
    }
}

/// Chooses the node for a run, and returns how many slots that node has free. A node that had no slot for the run is
/// chosen again only when no node had one. Where no node can be reached it is this one, whatever its slots (S0-44).
fn choose(
    ctx: &RuleContext<'_>,
    writer: &PlanWriter<'_>,
    want: &PendingPlacement,
    batch: &mut CandidateNodes,
    slots: &mut SlotTimeline<GroupId>,
    (due, length): (Wall, Millis),
) -> (Member, i64) {
    let run = writer.draft.runs.iter().find(|run| run.fire == want.fire);
    let by = run.and_then(|run| batch.index(&run.by));
    let eligible = batch.eligible(ctx.view, writer.job.group());
    for passed in [want.busy.as_slice(), &[]] {
        let may = |at: &usize| !batch.is_full(ctx.member, *at, passed);
        let best = match want.to {
            PlacementChoice::LeastLoaded => slots.least_loaded(eligible.iter().copied().filter(may)),
            PlacementChoice::MostSlots | PlacementChoice::Better => {
                slots.best(writer.job.group(), &eligible, may)
            }
        };
        let Some((best, most)) = best else { continue };
        let stays = |at: &usize| {
            want.to == PlacementChoice::Better
                && eligible.binary_search(at).is_ok()
                && may(at)
                && slots.free(*at).is_some_and(|free| free >= most)
        };
        let at = by.filter(stays).unwrap_or(best);
        let free = slots.take_slot(at, due, length).unwrap_or(0);
        return (batch.member(at).clone(), free);
    }
    let free = batch.index(ctx.member).and_then(|at| slots.take_slot(at, due, length)).unwrap_or(0);
    (ctx.member.clone(), free)
}

/// The runs of existing plans, as far as plans were read, and of plans in flight.
fn known(
    ctx: &RuleContext<'_>,
    right: &PlanningRight,
    writers: &[PlanWriter<'_>],
    batch: &CandidateNodes,
) -> Vec<SlotUse> {
    let drafts: BTreeMap<JobId, &PlanWriter<'_>> =
        writers.iter().map(|writer| (writer.job.id, writer)).collect();
    let mut spans = Vec::new();
    let rank = (false, Reverse(Priority::default()));
    let mut add = |plan: &Plan, terms: Option<&JobTerms>, run: &Attempt| {
        let Some(at) = batch.index(&run.by) else { return };
        let (begin, length) = taken(ctx, right, plan, terms, run);
        spans.push(SlotUse { begin, rank, length, holder: SlotHolder::Placed(at) });
    };
    for id in ctx.view.dispatched() {
        if let Some(writer) = drafts.get(&id) {
            for run in writer.draft.runs.iter().filter(|run| !writer.awaits_placement(&run.fire)) {
                add(&writer.draft, writer.state.terms.as_deref(), run);
            }
            continue;
        }
        let Some(state) = ctx.view.job(id).dispatched() else { continue };
        let Some(plan) = state.plan.as_ref().and_then(|plan| plan.known.value.as_ref()) else { continue };
        plan.runs.iter().for_each(|run| add(plan, state.terms.as_deref(), run));
    }
    for PlacedRun { node, begin, length } in ctx.local.planning.placed_runs() {
        let Some(at) = batch.index(node) else { continue };
        spans.push(SlotUse { begin: *begin, rank, length: *length, holder: SlotHolder::Placed(at) });
    }
    spans
}

/// When a run of an existing plan takes its slot, and for how long.
fn taken(
    ctx: &RuleContext<'_>,
    right: &PlanningRight,
    plan: &Plan,
    terms: Option<&JobTerms>,
    run: &Attempt,
) -> (Wall, Millis) {
    let (begin, length) = (begin(run), length(plan, terms, run, right));
    let settings = ctx.view.settings();
    // A beat's planner has read the plan in that beat, so a run that should have ended before it still executes.
    let read = (settings.planner == PlannerKind::Beat).then(|| settings.start_of(right.planner.number));
    let goes_on = run.is_claimed() && read.is_some_and(|read| begin + length <= read);
    if goes_on { (begin, ctx.now.wall - begin + length) } else { (begin, length) }
}

/// When a run can begin at the earliest.
pub(super) fn begin(run: &Attempt) -> Wall {
    run.from.or_else(|| run.wait.map(|wait| wait.until)).unwrap_or(run.due)
}

/// How long a run is expected to take: as long as the latest ones of its job; where none has ended yet, until the job's
/// next fire; where there is none, as long as is planned ahead.
pub(super) fn length(plan: &Plan, terms: Option<&JobTerms>, run: &Attempt, right: &PlanningRight) -> Millis {
    let next = || terms?.schedule.as_ref()?.next(run.due).map(|next| next - run.due);
    plan.took.or_else(next).unwrap_or_else(|| right.horizon - run.due).max(Millis(1))
}
