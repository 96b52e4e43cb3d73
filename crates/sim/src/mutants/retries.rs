//! Faults in what follows a failure.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, Verdict, VerdictState};
use evenkeel_core::input::{Ended, Input, RunEvent};
use evenkeel_core::keys::{Parsed, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{Lane, Plan, Record, ShardLane, Wait, decode, encode};
use evenkeel_core::registry::{Value, Write};
use evenkeel_core::time::{Now, Wall};

use super::commits::{commits, lanes};
use crate::tamper::Tamper;

/// Changes the waits and the verdicts that these acts write, in each placement.
fn entries(effects: &mut [Effect], kinds: &[CommitKind], change: impl Fn(Vec<&mut Wait>, &mut Vec<Verdict>)) {
    fn changed<T: Record>(value: &mut Value, change: impl FnOnce(&mut T)) {
        if let Some(mut record) = decode::<T>(value) {
            change(&mut record);
            *value = encode(&record);
        }
    }
    for write in commits(effects, kinds).flat_map(|txn| &mut txn.writes) {
        let Write::Put { key, value, .. } = write else { continue };
        match parse(key) {
            Some(Parsed::Lane(_)) => changed::<Lane>(value, |lane| {
                let waits = lane.open.iter_mut().filter_map(|open| open.wait.as_mut());
                change(waits.collect(), &mut lane.verdicts);
            }),
            Some(Parsed::ShardLane(..)) => changed::<ShardLane>(value, |lane| {
                let waits = lane.open.iter_mut().filter_map(|open| open.wait.as_mut());
                change(waits.collect(), &mut lane.verdicts);
            }),
            Some(Parsed::Plan(_)) => changed::<Plan>(value, |plan| {
                let waits = plan.runs.iter_mut().filter_map(|run| run.wait.as_mut());
                change(waits.collect(), &mut plan.verdicts);
            }),
            _ => {}
        }
    }
}

/// Attempts a run again without a wait.
pub(super) struct TriesAtOnce;

impl Tamper for TriesAtOnce {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        entries(effects, &[CommitKind::WaitForRetry, CommitKind::Finish], |waits, _| {
            waits.into_iter().for_each(|wait| wait.until = Wall::MIN);
        });
    }
}

/// Takes every end for a failure.
pub(super) struct TakesAllForFailed;

impl Tamper for TakesAllForFailed {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        if let Input::Run { event: RunEvent::Ended(ended @ Ended::Succeeded), .. } = input {
            *ended = Ended::Failed(Some(1));
        }
    }
}

/// Gives attempts up, and says so to nobody.
pub(super) struct GivesUpQuietly;

impl Tamper for GivesUpQuietly {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        entries(effects, &[CommitKind::GiveUp, CommitKind::Finish, CommitKind::Withdraw], |_, verdicts| {
            verdicts.retain(|v| v.state != VerdictState::Skipped || v.attempt == 0);
        });
    }
}

/// Attempts a run again under the token of the attempt that failed.
pub(super) struct KeepsToken;

impl Tamper for KeepsToken {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        lanes(node, effects, &[CommitKind::Retry], |lane, known| {
            for open in &mut lane.open {
                let before = known.and_then(|known| known.open_of(&open.fire));
                open.seq = before.map_or(open.seq, |before| before.seq);
            }
        });
    }
}
