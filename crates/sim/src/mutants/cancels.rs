//! Faults in cancelling waiting runs.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Effect;
use evenkeel_core::ids::Shard;
use evenkeel_core::input::{Command, Input};
use evenkeel_core::node::Node;
use evenkeel_core::time::Now;

use super::commits::change_run_states;
use crate::invariants::is_manual;
use crate::mutation::Mutation;

/// Reports a run as cancelled, and lets it wait on.
pub(super) struct ReportsFalseCancel;

impl Mutation for ReportsFalseCancel {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        change_run_states(node, effects, &[CommitKind::GiveUp], |run_state, known| {
            let ended = |fire| {
                run_state.verdicts.iter().any(|verdict| is_manual(verdict) && verdict.run.fire == fire)
            };
            let open = known.iter().flat_map(|known| &known.open);
            let kept: Vec<_> = open.filter(|open| ended(open.fire.clone())).cloned().collect();
            kept.into_iter().for_each(|open| run_state.put_open(open));
        });
    }
}

/// Cancels another shard than the requested one.
pub(super) struct CancelsOtherShard;

impl Mutation for CancelsOtherShard {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        let Input::Asked(_, Command::Kill(run)) = input else { return };
        let mut neighbour = run.clone();
        neighbour.shard = Shard(run.shard.0 ^ 1);
        if node.awaits(&neighbour) {
            *run = neighbour;
        }
    }
}
