//! Faults in which nodes jobs may run on.

use evenkeel_core::input::Input;
use evenkeel_core::labels::Nodes;
use evenkeel_core::node::Node;
use evenkeel_core::time::Now;

use super::commits::declarations;
use crate::tamper::Tamper;

/// Takes every job for one that any node may run.
pub(super) struct RunsEverywhere;

impl Tamper for RunsEverywhere {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| job.node_selector = Nodes::default());
    }
}
