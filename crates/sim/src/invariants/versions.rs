//! Checks neighbouring versions: which programs know the layout of the registry data.

use evenkeel_core::keys::{self, ParsedKey, parse};
use evenkeel_core::record::{ClusterRecord, decode};
use evenkeel_core::registry::Write;
use evenkeel_core::store::Store;

use super::quiet_facts::QuietCluster;
use super::{CommittedTxn, Invariant, InvariantChecker, InvariantResults};
use crate::workload::NEW;

impl InvariantChecker {
    /// The writer knows the layout of the registry data, and so does each member, by the program that it truly runs.
    pub(super) fn check_layout(
        &mut self,
        act: &CommittedTxn<'_>,
        written: &[(ParsedKey, &Write)],
        store: &Store,
    ) {
        let Some(layout) = layout(store) else { return };
        let knows = self.ticket_knows(act);
        self.findings.test(act.at, Invariant::I49, knows.is_some_and(|knows| knows.knows(layout)), || {
            format!(
                "{} of {} wrote in layout {layout} ({}) and knows {knows:?}",
                act.kind, act.node, act.ticket.0
            )
        });
        if !written.iter().any(|(what, _)| matches!(what, ParsedKey::Node(_) | ParsedKey::Cluster)) {
            return;
        }
        for (key, _) in store.entries() {
            let Some(ParsedKey::Node(member)) = parse(key) else { continue };
            let knows = self.knows.get(&member);
            self.findings.test(
                act.at,
                Invariant::I49,
                knows.is_some_and(|knows| knows.knows(layout)),
                || format!("{member} is a member in layout {layout} ({}) and knows {knows:?}", act.kind),
            );
        }
    }
}

impl QuietCluster<'_> {
    /// Checks that the layout is raised, once all nodes have the newer program and it was requested.
    pub(super) fn layout(&self, store: &Store, findings: &mut InvariantResults) {
        if self.workload.versions {
            let layout = layout(store);
            let raised = layout == Some(NEW.newest);
            findings.test(self.at, Invariant::I49, raised, || format!("the layout stayed {layout:?}"));
        }
    }
}

/// The layout of the registry data; `None` if it is not written.
fn layout(store: &Store) -> Option<u32> {
    let record: Option<ClusterRecord> = store.entry(&keys::cluster()).and_then(|entry| decode(&entry.value));
    record.map(|record| record.layout)
}
