//! Faults in what nodes do for each other: beats, leads, plans, offers and strikes.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Effect;
use evenkeel_core::input::{Answer, Input, LeaseEvent, OfferAnswer};
use evenkeel_core::keys::{Key, Parsed, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{
    BeatRecord, ClusterSettings, Handover, Intent, Plan, Record, ServingRecord, StrikeRecord, decode, encode,
};
use evenkeel_core::registry::{Guard, Write};
use evenkeel_core::time::Now;

use super::commits::commits;
use super::shares::heard;
use crate::tamper::Tamper;

/// Changes the records of one kind that these acts write.
fn writes<T: Record>(
    effects: &mut [Effect],
    kinds: &[CommitKind],
    wanted: impl Fn(&Parsed) -> bool,
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

/// Changes the records of one kind that a node hears of.
fn hears<T: Record>(input: &mut Input, wanted: impl Fn(&Parsed) -> bool, change: impl Fn(&Key, &mut T)) {
    for found in heard(input).iter_mut().filter(|c| parse(&c.key).is_some_and(|parsed| wanted(&parsed))) {
        if let Some(entry) = &mut found.entry
            && let Some(mut record) = decode::<T>(&entry.value)
        {
            change(&found.key, &mut record);
            entry.value = encode(&record);
        }
    }
}

/// Acts of these kinds are not guarded by how these entries stood.
pub(super) struct Unseen(pub(super) &'static [CommitKind], pub(super) fn(&Parsed) -> bool);

impl Tamper for Unseen {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let seen = |guard: &Guard| match guard {
            Guard::At(key, _) | Guard::Absent(key) => parse(key).is_some_and(|parsed| (self.1)(&parsed)),
            _ => false,
        };
        commits(effects, self.0).for_each(|txn| txn.guards.retain(|guard| !seen(guard)));
    }
}

/// What orders and plans are guarded by besides.
pub(super) fn is_right(parsed: &Parsed) -> bool {
    matches!(parsed, Parsed::Beat(_) | Parsed::Serving)
}

/// What beats are numbered by.
pub(super) fn is_settings(parsed: &Parsed) -> bool {
    matches!(parsed, Parsed::Settings)
}

/// A plan.
pub(super) fn is_plan(parsed: &Parsed) -> bool {
    matches!(parsed, Parsed::Plan(_))
}

/// Takes any beat that is another one than the last, be it earlier, by whatever time it thinks it is.
pub(super) struct TakesOtherBeats;

impl Tamper for TakesOtherBeats {
    fn input(&self, node: &Node, now: Now, input: &mut Input) {
        if let Input::Lease(LeaseEvent::Opened { granted, .. } | LeaseEvent::Renewed { granted, .. }) = input
        {
            granted.clock = None;
        }
        let beat = node.view().settings().beat_of(now.wall);
        hears(
            input,
            |p| matches!(p, Parsed::Beat(_)),
            |_, record: &mut BeatRecord| {
                if record.beat > beat {
                    record.beat = 0;
                }
            },
        );
    }
}

/// Takes a beat under the token of the one before.
pub(super) struct KeepsBeatToken;

impl Tamper for KeepsBeatToken {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let kinds = [CommitKind::TakeBeat, CommitKind::TakeBeatOver];
        writes(
            effects,
            &kinds,
            |p| matches!(p, Parsed::Beat(_)),
            |_, record: &mut BeatRecord| {
                record.seq = record.seq.min(1);
            },
        );
    }
}

/// Serves without waiting for a predecessor that keeps no deadline of its own.
pub(super) struct WaitsForNobody;

impl Tamper for WaitsForNobody {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        hears(
            input,
            |p| matches!(p, Parsed::Settings),
            |_, settings: &mut ClusterSettings| {
                settings.handover = Handover::Fenced;
            },
        );
    }
}

/// Serves as soon as it leads, whatever it has read.
pub(super) struct ServesAtOnce;

impl Tamper for ServesAtOnce {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        writes(
            effects,
            &[CommitKind::TakeLead],
            |p| matches!(p, Parsed::Serving),
            |_, record: &mut ServingRecord| {
                record.serves = true;
            },
        );
    }
}

/// Counts the strikes of a node's earlier lives.
pub(super) struct RemembersStrikes;

impl Tamper for RemembersStrikes {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        hears(
            input,
            |p| matches!(p, Parsed::Strike(..)),
            |key, strike: &mut StrikeRecord| {
                let Some(Parsed::Strike(target, _)) = parse(key) else { return };
                let lives = node.view().members().filter(|(member, _)| member.node == target);
                strike.incarnation =
                    lives.map(|(member, _)| member.incarnation).max().unwrap_or(strike.incarnation);
            },
        );
    }
}

/// Strikes twice at once.
pub(super) struct StrikesTwice;

impl Tamper for StrikesTwice {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        writes(
            effects,
            &[CommitKind::Strike],
            |p| matches!(p, Parsed::Strike(..)),
            |_, strike: &mut StrikeRecord| {
                strike.count += 1;
            },
        );
    }
}

/// Counts the strikes of several observers apart, be they of one beat.
pub(super) struct CountsObservers;

impl Tamper for CountsObservers {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        hears(
            input,
            |p| matches!(p, Parsed::Strike(..)),
            |key, strike: &mut StrikeRecord| {
                let Some(Parsed::Strike(_, observer)) = parse(key) else { return };
                let me = &node.local().settings.name;
                let apart: u64 = observer.as_str().bytes().map(u64::from).sum();
                if observer != *me {
                    strike.beats = strike.missed().map(|beat| beat + apart * 1_000_000).collect();
                }
            },
        );
    }
}

/// Says of a node that it is drained as soon as somebody wants it to be.
pub(super) struct SaysDrainedAtOnce;

impl Tamper for SaysDrainedAtOnce {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        writes(
            effects,
            &[CommitKind::Drain],
            |p| matches!(p, Parsed::Intent(_)),
            |key, intent: &mut Intent| {
                let Some(Parsed::Intent(drained)) = parse(key) else { return };
                let lives = node.view().members().filter(|(member, _)| member.node == drained);
                intent.drained = lives.map(|(member, _)| member.incarnation).max();
            },
        );
    }
}

/// Takes whoever has no slot for one who cannot be reached.
pub(super) struct StrikesTheBusy;

impl Tamper for StrikesTheBusy {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        if let Input::Offered { answer, .. } = input
            && matches!(answer, OfferAnswer::Taken { busy } if !busy.is_empty())
        {
            *answer = OfferAnswer::Unreachable;
        }
    }
}

/// Accepts runs and does not remember how far the job has come.
pub(super) struct ForgetsReached;

impl Tamper for ForgetsReached {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        writes(effects, &[CommitKind::Accept], is_plan, |key, plan: &mut Plan| {
            let Some(Parsed::Plan(job)) = parse(key) else { return };
            let id = node.view().id(&job);
            let known = id.and_then(|id| node.view().job(id).plan()?.known.value.as_ref());
            plan.reached = known.map_or(plan.reached, |known| known.reached);
        });
    }
}

/// Plans all runs for the node that the first one goes to.
pub(super) struct PlansForOne;

impl Tamper for PlansForOne {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let mut one = None;
        for write in commits(effects, &[CommitKind::Plan]).flat_map(|txn| &mut txn.writes) {
            let Write::Put { key, value, .. } = write else { continue };
            let Some(mut plan) = parse(key).filter(is_plan).and_then(|_| decode::<Plan>(value)) else {
                continue;
            };
            for run in plan.runs.iter_mut().filter(|run| !run.is_accepted()) {
                let (by, free) = one.get_or_insert_with(|| (run.by.clone(), run.free + 1));
                *free -= 1;
                (run.by, run.free) = (by.clone(), *free);
            }
            *value = encode(&plan);
        }
    }
}

/// Plans for a drained node, where there is one, as for any other.
pub(super) struct PlansForTheDrained;

impl Tamper for PlansForTheDrained {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        let view = node.view();
        let mut members = view.members().map(|(member, _)| member);
        let Some(drained) = members.find(|member| view.intent(&member.node).is_some()) else { return };
        writes(effects, &[CommitKind::Plan], is_plan, |_, plan: &mut Plan| {
            plan.runs.iter_mut().filter(|run| !run.is_accepted()).for_each(|run| run.by = drained.clone());
        });
    }
}

/// Takes whatever it is offered, also when it may not act.
pub(super) struct TakesEverything;

impl Tamper for TakesEverything {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for effect in effects {
            if let Effect::Answer(_, Answer::Busy(busy)) = effect {
                busy.clear();
            }
        }
    }
}
