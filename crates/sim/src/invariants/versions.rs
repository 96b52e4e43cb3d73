//! Neighbouring versions: who knows the layout in which the tree is written.

use evenkeel_core::keys::{self, Parsed, parse};
use evenkeel_core::record::{ClusterRecord, decode};
use evenkeel_core::registry::Write;
use evenkeel_core::store::Store;

use super::healed::Rest;
use super::{Act, Findings, Invariant, Watch};
use crate::swarm::NEW;

impl Watch {
    /// Whoever wrote knows the layout of the tree, and so does each member, by the program that it truly runs.
    pub(super) fn check_layout(&mut self, act: &Act<'_>, written: &[(Parsed, &Write)], store: &Store) {
        let Some(layout) = layout(store) else { return };
        let knows = self.ticket_knows(act);
        self.findings.test(act.at, Invariant::I49, knows.is_some_and(|knows| knows.knows(layout)), || {
            format!(
                "{} of {} wrote in layout {layout} ({}) and knows {knows:?}",
                act.kind, act.node, act.ticket.0
            )
        });
        if !written.iter().any(|(what, _)| matches!(what, Parsed::Node(_) | Parsed::Cluster)) {
            return;
        }
        for (key, _) in store.entries() {
            let Some(Parsed::Node(member)) = parse(key) else { continue };
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

impl Rest<'_> {
    /// Everybody has the newer program and somebody wanted the layout raised.
    pub(super) fn layout(&self, store: &Store, findings: &mut Findings) {
        if self.swarm.versions {
            let layout = layout(store);
            let raised = layout == Some(NEW.newest);
            findings.test(self.at, Invariant::I49, raised, || format!("the layout stayed {layout:?}"));
        }
    }
}

/// The layout in which the tree is written; `None` where nobody says.
fn layout(store: &Store) -> Option<u32> {
    let record: Option<ClusterRecord> = store.entry(&keys::cluster()).and_then(|entry| decode(&entry.value));
    record.map(|record| record.layout)
}
