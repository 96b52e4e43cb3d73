//! Faults in which nodes jobs may run on.

use evenkeel_core::input::Input;
use evenkeel_core::labels::NodeSelector;
use evenkeel_core::node::Node;
use evenkeel_core::time::Now;

use super::commits::declarations;
use crate::mutation::Mutation;

/// Takes every job for one that any node may run.
pub(super) struct IgnoresNodeSelector;

impl Mutation for IgnoresNodeSelector {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| job.node_selector = NodeSelector::default());
    }
}
