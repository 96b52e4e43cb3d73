//! The contract with the registry as types: entries, guards, writes, and answers.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::keys::Key;
use crate::time::{Millis, Mono, Wall};

/// A point in the registry's total order of writes. 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// A lease, by the number the engine gave it. Numbers are never 0 and never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// The bytes of an entry.
pub type Value = Arc<[u8]>;

/// The present state of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its bytes.
    pub value: Value,
    /// When it was last written.
    pub revision: Revision,
    /// When it was created, after its last deletion.
    pub born: Revision,
    /// The lease it lives by; `None` for a persistent entry.
    pub owner: Option<LeaseId>,
}

/// A condition that the registry checks in the same instant as it writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// The entry does not exist.
    Absent(Key),
    /// The entry exists.
    Present(Key),
    /// The entry was last written at exactly this revision.
    At(Key, Revision),
    /// The entry exists and was created at exactly this revision, whatever was written since.
    Born(Key, Revision),
    /// The lease is alive by the engine's clock.
    Open(LeaseId),
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Creates or replaces an entry. With `owner` it is deleted when that lease ends.
    Put {
        /// The key.
        key: Key,
        /// The value.
        value: Value,
        /// The lease it lives by.
        owner: Option<LeaseId>,
    },
    /// Removes an entry; removing what is not there is no change.
    Delete {
        /// The key.
        key: Key,
    },
}

impl Write {
    /// The key this write changes.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

impl Guard {
    /// The key this guard looks at; `None` for a lease.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Absent(key) | Self::Present(key) | Self::At(key, _) | Self::Born(key, _) => Some(key),
            Self::Open(_) => None,
        }
    }
}

/// A transaction: applied as a whole or not at all.
///
/// A sender that never received the answer sends the same transaction again; so each one must be made false by its
/// own success (law 5): its guards hold at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Txn {
    /// The guards; all must hold.
    pub guards: Vec<Guard>,
    /// The writes; all are applied, at one revision.
    pub writes: Vec<Write>,
}

impl Txn {
    /// Every key that it names, once, in key order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        let guarded = self.guards.iter().filter_map(Guard::key);
        guarded.chain(self.writes.iter().map(Write::key)).collect::<BTreeSet<_>>().into_iter()
    }

    /// A key that it writes and whose entry stays for ever.
    #[must_use]
    pub fn keeps(&self) -> Option<&Key> {
        self.writes.iter().find_map(|write| match write {
            Write::Put { key, owner: None, .. } if !key.is_of_a_member() => Some(key),
            _ => None,
        })
    }

    /// The total bytes of the keys of its guards and of the keys and values of its writes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let guards = self.guards.iter().filter_map(Guard::key).map(|key| key.as_str().len());
        let writes = self.writes.iter().map(|write| match write {
            Write::Put { key, value, .. } => key.as_str().len() + value.len(),
            Write::Delete { key } => key.as_str().len(),
        });
        guards.chain(writes).sum()
    }
}

/// The change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// The entry now; `None` when it is gone.
    pub entry: Option<Entry>,
    /// The revision at which this was true.
    pub revision: Revision,
}

/// A batch of changes that a listing or a feed carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChangeBatch {
    /// The changes in the registry's order.
    pub changes: Vec<Change>,
    /// Everything up to here is in this batch or an earlier one.
    pub revision: Revision,
}

/// The answer to one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TxnOutcome {
    /// It was applied, at this revision.
    Applied(Revision),
    /// A guard did not hold and nothing was written. Carries every key the transaction names, as it stands.
    Refused(Vec<Change>),
    /// Unknown: the answer was lost. Settled by sending the same transaction again (I46).
    Unknown,
}

/// The answer to `open` and `renew`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseGrant {
    /// The lease.
    pub lease: LeaseId,
    /// Its term as the engine granted it, at least the engine's minimum.
    pub ttl: Millis,
    /// The engine's calendar clock, where it has one.
    pub clock: Option<Wall>,
    /// How long until some node should act, which a renewal does: the next lease of any node may end then, or no node
    /// would have acted for so long that one lease is given its term again.
    pub next_end: Option<Millis>,
}

/// The durability of an engine's answers (reliability §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DurabilityClass {
    /// Efficiency only: claims may be lost.
    C,
    /// As A, except for a stated window of loss.
    B,
    /// One claim survives every crash and partition that the engine survives.
    A,
}

/// How an engine reports changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FeedKind {
    /// The engine sends them.
    Pushed,
    /// The node asks this often.
    Polled(Millis),
}

/// The properties of an engine. Constant while it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineFacts {
    /// The engine's name, as in its URL.
    pub engine: &'static str,
    /// The durability class of its claims.
    pub class: DurabilityClass,
    /// How changes arrive.
    pub feed: FeedKind,
    /// Worst time from losing a lease to noticing, for a holder that keeps no deadline (S4's T1).
    pub notice: Millis,
    /// How much before its term a lease may end by the engine's clock.
    pub early: Millis,
    /// The shortest term it grants.
    pub ttl_min: Millis,
    /// The largest value in bytes.
    pub value_max: usize,
    /// The most guards and writes in one transaction.
    pub operations_max: usize,
    /// The most bytes of one transaction, as [`Txn::bytes`] counts them.
    pub bytes_max: usize,
    /// Rises whenever the registry may have gone back in time (restore, failover with loss).
    pub generation: u16,
}

/// The moment a request left, kept beside its answer: trust is counted from here (law 1).
pub type RequestedAt = Mono;

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
