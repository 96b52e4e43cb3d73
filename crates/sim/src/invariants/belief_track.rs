//! The checker's track of what a node's process may believe: its trust, the drain intent, its jobs.

use std::collections::BTreeMap;

use evenkeel_core::ids::{Member, NodeName};
use evenkeel_core::keys;
use evenkeel_core::labels::Labels;
use evenkeel_core::record::{NodeIntent, decode};
use evenkeel_core::registry::{Change, ChangeBatch, Revision};
use evenkeel_core::time::{Millis, Mono};

/// The checker's knowledge of a node's process.
#[derive(Clone, Debug, Default)]
pub(super) struct BeliefTrack {
    /// The term of its leases.
    pub(super) ttl: Millis,
    /// How long its leader's predecessor takes to notice, and how much before its term its registry ends a lease.
    pub(super) notice: Millis,
    pub(super) early: Millis,
    /// The labels of the node.
    pub(super) labels: Labels,
    /// Until when each of its leases may be trusted, by its inputs.
    pub(super) trust: BTreeMap<u64, Mono>,
    /// The latest intent to drain it that it received.
    pub(super) drain: (Revision, bool),
    /// The number of its jobs after its last step, the number of enabled ones, and its incarnation.
    pub(super) held: (Option<Member>, usize, usize),
    /// The number of claims above the threshold without an alarm yet.
    pub(super) owes_alarms: usize,
}

impl BeliefTrack {
    pub(super) fn observe_changes(&mut self, name: &NodeName, changes: &[Change]) {
        for change in changes.iter().filter(|change| is_intent(&change.key, name)) {
            match &change.entry {
                Some(entry) if entry.revision > self.drain.0 => {
                    self.drain = (entry.revision, wanted(&entry.value));
                }
                None if change.revision >= self.drain.0 => self.drain = (change.revision, false),
                _ => {}
            }
        }
    }

    /// Records the drain intent of the node's own commit.
    pub(super) fn observe_drain(&mut self, revision: Revision, drained: bool) {
        if revision > self.drain.0 {
            self.drain = (revision, drained);
        }
    }

    pub(super) fn observe_listing(&mut self, name: &NodeName, batch: &ChangeBatch) {
        self.observe_changes(name, &batch.changes);
        if batch.revision >= self.drain.0 && !batch.changes.iter().any(|c| is_intent(&c.key, name)) {
            self.drain = (batch.revision, false);
        }
    }
}

/// Whether this is the entry of the drain intent for this node.
fn is_intent(key: &keys::Key, name: &NodeName) -> bool {
    // A cheap test first, for most keys.
    key.as_str().ends_with(name.as_str()) && *key == keys::intent(name)
}

/// Whether an entry is an intent to drain its node.
pub(super) fn wanted(value: &[u8]) -> bool {
    decode::<NodeIntent>(value).is_some_and(|intent| intent.wanted)
}
