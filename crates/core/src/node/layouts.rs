//! The layout of the tree: how a node handles one that it does not know, and when it may be raised.

use super::Node;
use crate::record::UnknownLayout;
use crate::time::Now;

impl Node {
    /// The layout of the tree, if this program does not know it: then it decides nothing, and writes nothing. That
    /// happens only where an operator changed the cluster's entry, or restored a backup of it.
    pub(super) fn unknown_layout(&self) -> Option<UnknownLayout> {
        self.local.settings.knows.lacks(self.view.cluster().value.as_ref()?.layout)
    }

    /// All members that joined before a layout was requested must be known before it is raised.
    pub(super) fn list_for_layout(&mut self, now: Now) {
        let wants = self.view.cluster().value.as_ref().is_some_and(|cluster| cluster.wanted.is_some());
        if !wants || self.view.knows_who_joined() || self.local.reads.is_listing() {
            return;
        }
        if self.local.commands.idle_items().any(|(_, _, item)| item.is_finalize_upgrade()) {
            self.local.reads.list_at(now.mono);
        }
    }
}
