//! Faults in the choice of eligible nodes.

use evenkeel_core::input::Input;
use evenkeel_core::labels::NodeSelector;
use evenkeel_core::node::Node;
use evenkeel_core::time::Now;

use super::commits::declarations;
use crate::mutation::Mutation;

/// Treats every node as eligible for every job.
pub(super) struct IgnoresNodeSelector;

impl Mutation for IgnoresNodeSelector {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| job.node_selector = NodeSelector::default());
    }
}
