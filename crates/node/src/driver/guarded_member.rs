//! The member that the guard removes from the registry if this process dies.

use evenkeel_core::ids::Member;
use evenkeel_core::node::Node;

use crate::guard::MemberRemoval;

/// The member that the guard knows.
pub(super) struct GuardedMember {
    /// The registry's URL.
    registry: String,
    known: Option<Member>,
}

impl GuardedMember {
    pub(super) fn new(registry: String) -> Self {
        Self { registry, known: None }
    }

    /// What the guard needs to remove the node's member, if it does not know that member yet.
    pub(super) fn joined(&mut self, node: &Node) -> Option<MemberRemoval> {
        let entry = node.member_entry().filter(|entry| self.known.as_ref() != Some(&entry.member))?;
        self.known = Some(entry.member.clone());
        Some(MemberRemoval { entry, registry: self.registry.clone() })
    }
}
