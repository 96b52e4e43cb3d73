//! Beat: once in each beat one node does a cluster-wide operation; the least loaded as a rule, and never two.
//!
//! A beat is a span of time with a number. An operation belongs, within a beat, to the node that first writes that
//! number over a smaller one. Before it tries, a node waits ten milliseconds for each point of its load score, so that
//! less loaded ones come first; the wait is a courtesy, and the comparison excludes (I0-06, I0-08). No operation is
//! released: the next number is larger. A dead holder is replaced within its beat (I0-07).

use alloc::format;

use crate::commit_kind::CommitKind;
use crate::eligibility;
use crate::ids::Operation;
use crate::input::{Answer, Command, CommandId, Refusal};
use crate::keys;
use crate::local::{CommandItem, CommitScope, ItemOutcome};
use crate::record::{BeatRecord, LoadRecord, PlannerKind, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::time::Wall;
use crate::view::DISPATCH;

/// Publishes the load of this node, reads the loads of all nodes for the planner, and claims the due operations.
pub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    if ctx.me.is_none() {
        return;
    }
    publish(ctx, out);
    read_loads(ctx, out);
    let settings = ctx.view.settings();
    if settings.planner == PlannerKind::Beat
        && ctx.view.has_dispatched()
        && let Some(operation) = dispatch(ctx)
        && let BeatDecision::Take(kind, txn) = decide_beat(ctx, &operation, out)
    {
        out.commit(CommitScope::Beat(operation), kind, txn);
    }
    for (ask, n, item) in ctx.local.commands.idle_items() {
        if let CommandItem::Command(Command::Beat(operation)) = item {
            grant(ctx, ask, n, operation, out);
        }
    }
}

/// The operation of planning.
fn dispatch(ctx: &RuleContext<'_>) -> Option<Operation> {
    let known = ctx.view.beat_known(DISPATCH).map(|(operation, _)| operation.clone());
    known.or_else(|| DISPATCH.parse().ok())
}

/// Publishes the load of this node once a beat.
fn publish(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    let settings = ctx.view.settings();
    let (now, node) = (ctx.now.wall, &ctx.member.node);
    let beat = settings.beat_of(now);
    wake_at(ctx, settings.start_of(beat + 1), "the next beat", out);
    let known = ctx.view.load_entry(node);
    let last = known.and_then(|known| known.value.as_ref());
    let published = last.filter(|record| record.incarnation == ctx.member.incarnation);
    // Just after its start a node does not know its processors yet.
    let learnt = |record: &LoadRecord| record.sample.cpu.is_none() && ctx.local.host_load.cpu.is_some();
    let is_published = published.is_some_and(|record| settings.beat_of(record.at) == beat && !learnt(record));
    if is_published || !ctx.is_idle(&CommitScope::Load) {
        return;
    }
    let record = LoadRecord {
        incarnation: ctx.member.incarnation,
        at: now,
        sample: ctx.local.host_load,
        busy: eligibility::busy_slots(ctx),
        dispatched: u32::try_from(ctx.view.accepted_count()).unwrap_or(u32::MAX),
        slots: ctx.local.settings.slots,
        score: eligibility::load_score(ctx),
        seq: last.map_or(0, |record| record.seq).saturating_add(1),
    };
    let key = keys::load(node);
    let known = known.cloned().unwrap_or_default();
    let guards = ctx.born().into_iter().chain([known.guard(key.clone())]).collect();
    let writes = [Write::Put { key, value: encode(&record), owner: None }].into();
    out.commit(CommitScope::Load, CommitKind::PublishLoad, Txn { guards, writes });
}

/// Reads the loads of all nodes once a beat on the node that plans.
fn read_loads(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    if !ctx.view.has_dispatched() {
        return;
    }
    let due = ctx.local.reads.loads_due(ctx.view.settings().beat_of(ctx.now.wall));
    let Some(due) = due.filter(|_| eligibility::planning_right(ctx).is_some()) else {
        return;
    };
    out.add(match due <= ctx.now.mono {
        true => RuleAction::ReadLoads(None),
        false => RuleAction::Wake(due, "the loads of the nodes"),
    });
}

/// The decision of a node about an operation.
enum BeatDecision {
    /// The node claims it.
    Take(CommitKind, Txn),
    /// Less loaded nodes go first.
    Later,
    /// It is claimed for this beat.
    Taken(BeatRecord),
    /// This node may not claim it.
    NotEligible,
}

fn decide_beat(ctx: &RuleContext<'_>, operation: &Operation, out: &mut RuleOutput) -> BeatDecision {
    if !eligibility::may_lead(ctx) {
        return BeatDecision::NotEligible;
    }
    let settings = ctx.view.settings();
    let beat = settings.beat_of(ctx.now.wall);
    let known = ctx.view.beat(operation);
    let last = known.and_then(|known| known.value.as_ref());
    let (mut kind, mut absent) = (CommitKind::TakeBeat, None);
    if let Some(record) = last.filter(|record| record.beat >= beat) {
        if record.beat > beat || ctx.view.member(&record.holder).is_some() {
            return BeatDecision::Taken(record.clone());
        }
        absent = Some(Guard::Absent(keys::node(&record.holder)));
        kind = CommitKind::TakeBeatOver;
    } else {
        let moment = settings.start_of(beat) + eligibility::load_score(ctx).wait();
        if ctx.now.wall < moment {
            wake_at(ctx, moment, "idler ones go first", out);
            return BeatDecision::Later;
        }
    }
    let seq = last.map_or(0, |record| record.seq) + 1;
    let record = BeatRecord { beat, holder: ctx.member.clone(), seq };
    let key = keys::beat(operation);
    // Beats are numbered by the settings: a node that has not received new ones would claim one that is still to come.
    let numbered = ctx.view.settings_entry().guard(keys::settings());
    let known = known.cloned().unwrap_or_default();
    let guards = ctx.born().into_iter().chain([known.guard(key.clone()), numbered]).chain(absent).collect();
    BeatDecision::Take(
        kind,
        Txn { guards, writes: [Write::Put { key, value: encode(&record), owner: None }].into() },
    )
}

/// Claims an operation for this beat for an embedder: the first to ask gets it, on whichever node (S0-23).
fn grant(ctx: &RuleContext<'_>, ask: CommandId, n: u32, operation: &Operation, out: &mut RuleOutput) {
    let refuse = |text| Answer::Refused(Refusal::Conflict, text);
    let answer = match decide_beat(ctx, operation, out) {
        BeatDecision::Take(kind, txn) => return out.commit(CommitScope::Item(ask, n), kind, txn),
        BeatDecision::Later => return,
        BeatDecision::Taken(record) => refuse(format!(
            "operation {operation} is taken for beat {} by {}: ask again in the next one",
            record.beat, record.holder.node
        )),
        BeatDecision::NotEligible => refuse(format!(
            "this node takes no beats now: it is drained, offline, or its clock differs; ask for {operation} on another \
             node"
        )),
    };
    out.add(RuleAction::CompleteItem(ask, n, ItemOutcome::Answer(answer)));
}

fn wake_at(ctx: &RuleContext<'_>, at: Wall, why: &'static str, out: &mut RuleOutput) {
    out.add(RuleAction::Wake(ctx.now.mono + (at - ctx.now.wall), why));
}
