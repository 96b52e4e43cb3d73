//! Faults between nodes: beats, leadership, plans, offers and strikes.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Effect;
use evenkeel_core::input::{Answer, Input, LeaseEvent, OfferAnswer};
use evenkeel_core::keys::{Key, ParsedKey, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{
    BeatRecord, ClusterSettings, Handover, NodeIntent, Plan, Record, ServingRecord, StrikeRecord, decode,
    encode,
};
use evenkeel_core::registry::{Guard, Write};
use evenkeel_core::time::Now;

use super::commits::commits;
use super::sharding::heard_changes;
use crate::mutation::Mutation;

/// Changes the records of one kind in transactions of these kinds.
fn writes<T: Record>(
    effects: &mut [Effect],
    kinds: &[CommitKind],
    wanted: impl Fn(&ParsedKey) -> bool,
    change: impl Fn(&Key, &mut T),
) {
    for write in commits(effects, kinds).flat_map(|txn| &mut txn.writes) {
        let Write::Put { key, value, .. } = write else { continue };
        if parse(key).is_some_and(|parsed| wanted(&parsed))
            && let Some(mut record) = decode::<T>(value)
        {
            change(key, &mut record);
            *value = encode(&record);
        }
    }
}

/// Changes the records of one kind that a node receives.
fn change_heard<T: Record>(
    input: &mut Input,
    wanted: impl Fn(&ParsedKey) -> bool,
    change: impl Fn(&Key, &mut T),
) {
    for found in
        heard_changes(input).iter_mut().filter(|c| parse(&c.key).is_some_and(|parsed| wanted(&parsed)))
    {
        if let Some(entry) = &mut found.entry
            && let Some(mut record) = decode::<T>(&entry.value)
        {
            change(&found.key, &mut record);
            entry.value = encode(&record);
        }
    }
}

/// Removes the guards on these entries from transactions of these kinds.
pub(super) struct UnguardedEntries(pub(super) &'static [CommitKind], pub(super) fn(&ParsedKey) -> bool);

impl Mutation for UnguardedEntries {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let seen = |guard: &Guard| match guard {
            Guard::At(key, _) | Guard::Absent(key) => parse(key).is_some_and(|parsed| (self.1)(&parsed)),
            _ => false,
        };
        commits(effects, self.0).for_each(|txn| txn.guards.retain(|guard| !seen(guard)));
    }
}

/// The entries that guard the right to order and plan.
pub(super) fn is_right(parsed: &ParsedKey) -> bool {
    matches!(parsed, ParsedKey::Beat(_) | ParsedKey::Serving)
}

/// The entry that guards the numbers of beats.
pub(super) fn is_settings(parsed: &ParsedKey) -> bool {
    matches!(parsed, ParsedKey::Settings)
}

/// A plan's entry.
pub(super) fn is_plan(parsed: &ParsedKey) -> bool {
    matches!(parsed, ParsedKey::Plan(_))
}

/// Takes any beat with another number than the last, even an earlier one, by its own wall clock.
pub(super) struct AcceptsAnyBeat;

impl Mutation for AcceptsAnyBeat {
    fn input(&self, node: &Node, now: Now, input: &mut Input) {
        if let Input::Lease(LeaseEvent::Opened { granted, .. } | LeaseEvent::Renewed { granted, .. }) = input
        {
            granted.clock = None;
        }
        let beat = node.view().settings().beat_of(now.wall);
        change_heard(
            input,
            |p| matches!(p, ParsedKey::Beat(_)),
            |_, record: &mut BeatRecord| {
                if record.beat > beat {
                    record.beat = 0;
                }
            },
        );
    }
}

/// Takes a beat under the token of the one before.
pub(super) struct ReusesBeatToken;

impl Mutation for ReusesBeatToken {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let kinds = [CommitKind::TakeBeat, CommitKind::TakeBeatOver];
        writes(
            effects,
            &kinds,
            |p| matches!(p, ParsedKey::Beat(_)),
            |_, record: &mut BeatRecord| {
                record.seq = record.seq.min(1);
            },
        );
    }
}

/// Serves without the wait for a predecessor that keeps no deadline of its own.
pub(super) struct SkipsPredecessorWait;

impl Mutation for SkipsPredecessorWait {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        change_heard(
            input,
            |p| matches!(p, ParsedKey::Settings),
            |_, settings: &mut ClusterSettings| {
                settings.handover = Handover::Fenced;
            },
        );
    }
}

/// Serves as soon as it leads, even before it has read the data.
pub(super) struct ServesBeforeReading;

impl Mutation for ServesBeforeReading {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        writes(
            effects,
            &[CommitKind::TakeLead],
            |p| matches!(p, ParsedKey::Serving),
            |_, record: &mut ServingRecord| {
                record.serves = true;
            },
        );
    }
}

/// Counts the strikes of a node's earlier incarnations.
pub(super) struct KeepsOldStrikes;

impl Mutation for KeepsOldStrikes {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        change_heard(
            input,
            |p| matches!(p, ParsedKey::Strike(..)),
            |key, strike: &mut StrikeRecord| {
                let Some(ParsedKey::Strike(target, _)) = parse(key) else { return };
                let lives = node.view().members().filter(|(member, _)| member.node == target);
                strike.incarnation =
                    lives.map(|(member, _)| member.incarnation).max().unwrap_or(strike.incarnation);
            },
        );
    }
}

/// Strikes twice at once.
pub(super) struct StrikesTwice;

impl Mutation for StrikesTwice {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        writes(
            effects,
            &[CommitKind::Strike],
            |p| matches!(p, ParsedKey::Strike(..)),
            |_, strike: &mut StrikeRecord| {
                strike.count += 1;
            },
        );
    }
}

/// Counts the strikes of several observers separately, even of one beat.
pub(super) struct CountsEachObserver;

impl Mutation for CountsEachObserver {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        change_heard(
            input,
            |p| matches!(p, ParsedKey::Strike(..)),
            |key, strike: &mut StrikeRecord| {
                let Some(ParsedKey::Strike(_, observer)) = parse(key) else { return };
                let me = &node.local().settings().name;
                let apart: u64 = observer.as_str().bytes().map(u64::from).sum();
                if observer != *me {
                    strike.beats = strike.missed().map(|beat| beat + apart * 1_000_000).collect();
                }
            },
        );
    }
}

/// Reports a node as drained as soon as it is to drain.
pub(super) struct ReportsDrainedEarly;

impl Mutation for ReportsDrainedEarly {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        writes(
            effects,
            &[CommitKind::Drain],
            |p| matches!(p, ParsedKey::Intent(_)),
            |key, intent: &mut NodeIntent| {
                let Some(ParsedKey::Intent(drained)) = parse(key) else { return };
                let lives = node.view().members().filter(|(member, _)| member.node == drained);
                intent.drained = lives.map(|(member, _)| member.incarnation).max();
            },
        );
    }
}

/// Treats a node without a free slot as unreachable.
pub(super) struct StrikesBusyNodes;

impl Mutation for StrikesBusyNodes {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        if let Input::Offered { answer, .. } = input
            && matches!(answer, OfferAnswer::Taken { busy } if !busy.is_empty())
        {
            *answer = OfferAnswer::Unreachable;
        }
    }
}

/// Accepts runs without the watermark of the job's progress.
pub(super) struct SkipsPlanWatermark;

impl Mutation for SkipsPlanWatermark {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        writes(effects, &[CommitKind::Accept], is_plan, |key, plan: &mut Plan| {
            let Some(ParsedKey::Plan(job)) = parse(key) else { return };
            let id = node.view().id(&job);
            let known = id.and_then(|id| node.view().job(id).plan()?.known.value.as_ref());
            plan.reached = known.map_or(plan.reached, |known| known.reached);
        });
    }
}

/// Plans all runs for the node of the first one.
pub(super) struct PlansOnOneNode;

impl Mutation for PlansOnOneNode {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let mut one = None;
        for write in commits(effects, &[CommitKind::Plan]).flat_map(|txn| &mut txn.writes) {
            let Write::Put { key, value, .. } = write else { continue };
            let Some(mut plan) = parse(key).filter(is_plan).and_then(|_| decode::<Plan>(value)) else {
                continue;
            };
            for run in plan.runs.iter_mut().filter(|run| !run.is_claimed()) {
                let (by, free) = one.get_or_insert_with(|| (run.by.clone(), run.free() + 1));
                *free -= 1;
                run.place(by.clone(), *free);
            }
            *value = encode(&plan);
        }
    }
}

/// Plans for a drained node as for any other.
pub(super) struct PlansOnDrainedNodes;

impl Mutation for PlansOnDrainedNodes {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        let view = node.view();
        let mut members = view.members().map(|(member, _)| member);
        let Some(drained) = members.find(|member| view.intent(&member.node).is_some()) else { return };
        writes(effects, &[CommitKind::Plan], is_plan, |_, plan: &mut Plan| {
            plan.runs.iter_mut().filter(|run| !run.is_claimed()).for_each(|run| run.by = drained.clone());
        });
    }
}

/// Accepts every offer, also when it may not act.
pub(super) struct AcceptsEveryOffer;

impl Mutation for AcceptsEveryOffer {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for effect in effects {
            if let Effect::Answer(_, Answer::Busy(busy)) = effect {
                busy.clear();
            }
        }
    }
}
