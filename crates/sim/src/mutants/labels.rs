//! Faults in which nodes jobs may run on.

use evenkeel_core::input::Input;
use evenkeel_core::labels::Nodes;
use evenkeel_core::node::Node;
use evenkeel_core::record::{SpecRecord, decode, encode};
use evenkeel_core::registry::Outcome;
use evenkeel_core::time::Now;

use crate::tamper::Tamper;

/// Takes every job for one that any node may run.
pub(super) struct RunsEverywhere;

impl Tamper for RunsEverywhere {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        let changes = match input {
            Input::Listed(Some(batch)) | Input::Changed(batch) => &mut batch.changes,
            Input::Committed { outcome: Outcome::Refused(found), .. } => found,
            _ => return,
        };
        for entry in changes.iter_mut().filter_map(|change| change.entry.as_mut()) {
            if let Some(SpecRecord::Live(mut spec)) = decode(&entry.value) {
                spec.job.nodes = Nodes::default();
                entry.value = encode(&SpecRecord::Live(spec));
            }
        }
    }
}
