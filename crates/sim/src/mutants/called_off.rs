//! Faults in ending by hand what waits.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Effect;
use evenkeel_core::input::{Command, Input};
use evenkeel_core::node::Node;
use evenkeel_core::time::Now;
use evenkeel_core::words::Shard;

use super::commits::lanes;
use crate::invariants::is_by_hand;
use crate::tamper::Tamper;

/// Says of a run that it is ended, and lets it wait on.
pub(super) struct EndsInWords;

impl Tamper for EndsInWords {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        lanes(node, effects, &[CommitKind::GiveUp], |lane, known| {
            let ended =
                |fire| lane.verdicts.iter().any(|verdict| is_by_hand(verdict) && verdict.run.fire == fire);
            let open = known.iter().flat_map(|known| &known.open);
            let kept: Vec<_> = open.filter(|open| ended(open.fire.clone())).cloned().collect();
            kept.into_iter().for_each(|open| lane.put_open(open));
        });
    }
}

/// Ends another shard than the one that is named.
pub(super) struct EndsTheNeighbour;

impl Tamper for EndsTheNeighbour {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        let Input::Asked(_, Command::Kill(run)) = input else { return };
        let mut neighbour = run.clone();
        neighbour.shard = Shard(run.shard.0 ^ 1);
        if node.awaits(&neighbour) {
            *run = neighbour;
        }
    }
}
