//! Beat: once in each beat one node does a cluster-wide operation; the least loaded as a rule, and never two.
//!
//! A beat is a span of time with a number. An operation belongs, within a beat, to the node that first writes that
//! number over a smaller one. Before it tries, a node waits ten milliseconds for each point of its load score, so that
//! less loaded ones come first; the wait is a courtesy, and the comparison excludes (I0-06, I0-08). No operation is
//! released: the next number is larger. A dead holder is replaced within its beat (I0-07).

use alloc::format;

use crate::commit_kind::CommitKind;
use crate::eligibility::{self, DISPATCH};
use crate::ids::Operation;
use crate::input::{Answer, CommandId, Refusal};
use crate::keys;
use crate::local::{CommandItem, CommitScope};
use crate::record::{BeatRecord, LoadRecord, PlannerKind, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{ItemOutcome, RuleAction, RuleContext, RuleOutput};
use crate::time::Wall;

/// Publishes the load of this node, and claims the due operations.
pub fn decide(scene: &RuleContext<'_>, out: &mut RuleOutput) {
    if scene.me.is_none() {
        return;
    }
    publish(scene, out);
    let settings = scene.view.settings();
    if settings.planner == PlannerKind::Beat
        && scene.view.has_dispatched()
        && let Some(operation) = dispatch(scene)
        && let BeatDecision::Take(kind, txn) = decide_beat(scene, &operation, out)
    {
        out.commit(CommitScope::Beat(operation), kind, txn);
    }
    for (ask, n) in scene.local.todo.iter().copied() {
        if let Some(CommandItem::Beat(operation)) = scene.local.wishes.get(&(ask, n)) {
            grant(scene, ask, n, operation, out);
        }
    }
}

/// The operation of planning.
fn dispatch(scene: &RuleContext<'_>) -> Option<Operation> {
    let known = scene.view.beat_known(DISPATCH).map(|(operation, _)| operation.clone());
    known.or_else(|| DISPATCH.parse().ok())
}

/// Publishes the load of this node once a beat.
fn publish(scene: &RuleContext<'_>, out: &mut RuleOutput) {
    let settings = scene.view.settings();
    let (now, node) = (scene.now.wall, &scene.member.node);
    let beat = settings.beat_of(now);
    wake_at(scene, settings.start_of(beat + 1), "the next beat", out);
    let known = scene.view.load_entry(node);
    let last = known.and_then(|known| known.value.as_ref());
    let told = last.filter(|record| record.incarnation == scene.member.incarnation);
    // Just after its start a node does not know its processors yet.
    let learnt = |record: &LoadRecord| record.sample.cpu.is_none() && scene.local.peers.sample.cpu.is_some();
    let is_told = told.is_some_and(|record| settings.beat_of(record.at) == beat && !learnt(record));
    if is_told || !scene.is_idle(&CommitScope::Load) {
        return;
    }
    let record = LoadRecord {
        incarnation: scene.member.incarnation,
        at: now,
        sample: scene.local.peers.sample,
        busy: eligibility::busy_slots(scene),
        dispatched: u32::try_from(scene.view.accepted_count()).unwrap_or(u32::MAX),
        slots: scene.local.settings.slots,
        score: eligibility::load_score(scene),
        seq: last.map_or(0, |record| record.seq) + 1,
    };
    let key = keys::load(node);
    let known = known.cloned().unwrap_or_default();
    let guards = scene.born().into_iter().chain([known.guard(key.clone())]).collect();
    let writes = [Write::Put { key, value: encode(&record), owner: None }].into();
    out.commit(CommitScope::Load, CommitKind::PublishLoad, Txn { guards, writes });
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

fn decide_beat(scene: &RuleContext<'_>, operation: &Operation, out: &mut RuleOutput) -> BeatDecision {
    if !eligibility::may_lead(scene) {
        return BeatDecision::NotEligible;
    }
    let settings = scene.view.settings();
    let beat = settings.beat_of(scene.now.wall);
    let known = scene.view.beat(operation);
    let last = known.and_then(|known| known.value.as_ref());
    let (mut kind, mut absent) = (CommitKind::TakeBeat, None);
    if let Some(record) = last.filter(|record| record.beat >= beat) {
        if record.beat > beat || scene.view.member(&record.holder).is_some() {
            return BeatDecision::Taken(record.clone());
        }
        absent = Some(Guard::Absent(keys::node(&record.holder)));
        kind = CommitKind::TakeBeatOver;
    } else {
        let moment = settings.start_of(beat) + eligibility::load_score(scene).wait();
        if scene.now.wall < moment {
            wake_at(scene, moment, "idler ones go first", out);
            return BeatDecision::Later;
        }
    }
    let seq = last.map_or(0, |record| record.seq) + 1;
    let record = BeatRecord { beat, holder: scene.member.clone(), seq };
    let key = keys::beat(operation);
    // Beats are numbered by the settings: a node that has not received new ones would claim one that is still to come.
    let numbered = scene.view.settings_entry().guard(keys::settings());
    let known = known.cloned().unwrap_or_default();
    let guards = scene.born().into_iter().chain([known.guard(key.clone()), numbered]).chain(absent).collect();
    BeatDecision::Take(
        kind,
        Txn { guards, writes: [Write::Put { key, value: encode(&record), owner: None }].into() },
    )
}

/// Claims an operation for this beat for an embedder: the first to ask gets it, on whichever node (S0-23).
fn grant(scene: &RuleContext<'_>, ask: CommandId, n: u32, operation: &Operation, out: &mut RuleOutput) {
    let refuse = |text| Answer::Refused(Refusal::Conflict, text);
    let answer = match decide_beat(scene, operation, out) {
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

fn wake_at(scene: &RuleContext<'_>, at: Wall, why: &'static str, out: &mut RuleOutput) {
    out.add(RuleAction::Wake(scene.now.mono + (at - scene.now.wall), why));
}
