//! The membership of this node: the life in which it is a member, and how that ended.

use crate::ids::Member;
use crate::registry::LeaseId;
use crate::time::Mono;

/// The membership of this node, in this life and the one before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnMembership {
    /// The life in which this node is a member.
    joined: Option<Member>,
    /// An earlier life of this node that is certainly over; its membership may be deleted.
    predecessor: Option<u64>,
    /// The lease whose member entry went, and when that was noticed: whether the lease lives is being checked.
    evicted: Option<(LeaseId, Mono)>,
    /// Whether an operator closed the node from outside (S3-30): it asks for nothing more.
    closed: bool,
}

impl OwnMembership {
    /// No member yet, after an earlier life that is certainly over.
    pub(crate) fn new(predecessor: Option<u64>) -> Self {
        Self { joined: None, predecessor, evicted: None, closed: false }
    }

    /// Notes that the node is a member. Nothing remains to be deleted of the life before.
    pub(crate) fn join(&mut self, member: Member) {
        (self.joined, self.predecessor) = (Some(member), None);
    }

    /// Ends the membership on purpose: it is no loss.
    pub(crate) fn release(&mut self) {
        self.joined = None;
    }

    /// Ends the membership, which the next life may delete. Returns whether there was one.
    pub(crate) fn lose(&mut self) -> bool {
        let Some(member) = self.joined.take() else { return false };
        self.predecessor = Some(member.incarnation);
        true
    }

    /// Notes that the member entry went, and under which lease.
    pub(crate) fn evict(&mut self, lease: Option<LeaseId>, now: Mono) {
        self.evicted = lease.map(|lease| (lease, now));
    }

    /// Notes that it is known why the member entry went.
    pub(crate) fn explain_eviction(&mut self) {
        self.evicted = None;
    }

    /// Notes that an operator closed the node from outside.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// The life in which this node is a member.
    pub(crate) fn joined(&self) -> Option<&Member> {
        self.joined.as_ref()
    }

    /// Whether the node is a member.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.joined.is_some()
    }

    /// The earlier life that is certainly over, if its membership may be deleted.
    #[must_use]
    pub fn predecessor(&self) -> Option<u64> {
        self.predecessor
    }

    /// The lease whose member entry went for a reason that is not known yet, and when that was noticed.
    pub(crate) fn eviction(&self) -> Option<(LeaseId, Mono)> {
        self.evicted
    }

    /// Whether an operator closed the node from outside.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}
