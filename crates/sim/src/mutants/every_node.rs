//! Faults in what nodes make of jobs that run on every node.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, VerdictState};
use evenkeel_core::input::Input;
use evenkeel_core::job::Placement;
use evenkeel_core::keys::{Parsed, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{ShardLane, decode, encode};
use evenkeel_core::registry::Write;
use evenkeel_core::time::Now;

use super::commits::{commits, declarations};
use super::shares::writes_places;
use crate::tamper::Tamper;

/// Takes every job for one that runs on as many nodes as it has shards.
pub(super) struct CutsIntoOne;

impl Tamper for CutsIntoOne {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| {
            if job.is_broadcast() {
                job.placement = Placement::Sharded;
            }
        });
    }
}

/// Deals the nodes that have numbers other ones.
pub(super) struct ShufflesNumbers;

impl Tamper for ShufflesNumbers {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        writes_places(effects, &[CommitKind::CutShares], |_, sharding| {
            let one_each = sharding.cut.is_one_each() && sharding.cut.pinned.is_empty();
            if let [first, second, ..] = &mut sharding.cut.portions[..]
                && one_each
            {
                std::mem::swap(&mut first.groups, &mut second.groups);
            }
        });
    }
}

/// Tells nobody of the fires that went with a node.
pub(super) struct ForgetsTheGone;

impl Tamper for ForgetsTheGone {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for write in commits(effects, &[CommitKind::CutShares]).flat_map(|txn| &mut txn.writes) {
            if let Write::Put { key, value, .. } = write
                && let Some(Parsed::ShardLane(..)) = parse(key)
                && let Some(mut lane) = decode::<ShardLane>(value)
            {
                lane.verdicts.retain(|verdict| verdict.state != VerdictState::Skipped);
                *value = encode(&lane);
            }
        }
    }
}
