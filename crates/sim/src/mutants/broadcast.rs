//! Faults with broadcast jobs.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, VerdictState};
use evenkeel_core::input::Input;
use evenkeel_core::job::Placement;
use evenkeel_core::keys::{ParsedKey, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{ShardRunState, decode, encode};
use evenkeel_core::registry::Write;
use evenkeel_core::time::Now;

use super::commits::{commits, declarations};
use super::sharding::change_written_assignments;
use crate::mutation::Mutation;

/// Treats every job as one that runs on as many nodes as it has shards.
pub(super) struct KeepsBroadcastTotal;

impl Mutation for KeepsBroadcastTotal {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| {
            if job.is_broadcast() {
                job.placement = Placement::Sharded;
            }
        });
    }
}

/// Assigns new numbers to the nodes that have some.
pub(super) struct RenumbersNodes;

impl Mutation for RenumbersNodes {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        change_written_assignments(effects, &[CommitKind::Reshard], |_, sharding| {
            let one_each = sharding.shard_map.is_one_each() && sharding.shard_map.draining.is_empty();
            if let [first, second, ..] = &mut sharding.shard_map.assignments[..]
                && one_each
            {
                std::mem::swap(&mut first.groups, &mut second.groups);
            }
        });
    }
}

/// Records nothing about the fires of a departed node.
pub(super) struct HidesDepartedFires;

impl Mutation for HidesDepartedFires {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for write in commits(effects, &[CommitKind::Reshard]).flat_map(|txn| &mut txn.writes) {
            if let Write::Put { key, value, .. } = write
                && let Some(ParsedKey::ShardRunState(..)) = parse(key)
                && let Some(mut run_state) = decode::<ShardRunState>(value)
            {
                run_state.verdicts.retain(|verdict| verdict.state != VerdictState::Skipped);
                *value = encode(&run_state);
            }
        }
    }
}
