//! A node's request to the registry.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Ticket;
use evenkeel_core::ids::Member;
use evenkeel_core::keys::Key;
use evenkeel_core::registry::{LeaseId, Txn};
use evenkeel_core::time::{Millis, Mono};

/// How long a node waits for an answer before it takes the outcome for unknown, in milliseconds.
pub(crate) const TIMEOUT: i64 = 1_000;
/// An operation of the registry.
#[derive(Clone, Debug)]
pub(crate) enum RegistryOperation {
    Open(Millis),
    Renew(LeaseId),
    Close(LeaseId),
    List,
    Read(Vec<Key>),
    Commit(Ticket, CommitKind, Txn),
}

/// A pending request.
#[derive(Clone, Debug)]
pub(crate) struct SimRequest {
    pub(super) life: u64,
    /// The number of rewinds when its sender began.
    pub(super) rewinds: u32,
    pub(super) member: Option<Member>,
    /// The time of the request, by the sender's clock.
    pub(super) asked: Mono,
    /// The time after which the sender no longer waits.
    pub(super) until: i64,
    pub(super) operation: RegistryOperation,
}
