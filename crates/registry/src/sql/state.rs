//! Works out the results of a group in memory, from what its transaction has read under the counter's lock.
//!
//! It answers exactly as [`Store`](evenkeel_core::store::Store) does; the differential cases compare them.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Entry, Guard, LeaseId, Revision, Txn, Value, Write};
use evenkeel_core::time::Millis;

use super::config::SqlLimits;
use crate::TTL_MAX;
use crate::queue::WriteRequest;

/// An entry, without its value where that was not needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryHead {
    pub(super) revision: Revision,
    pub(super) born: Revision,
    pub(super) owner: Option<LeaseId>,
    /// `None` for the value in the table.
    pub(super) value: Option<Value>,
}

/// The state of a key: in the table, and by now.
#[derive(Debug, Default)]
pub(super) struct KeyState {
    pub(super) stored: bool,
    pub(super) head: Option<EntryHead>,
    pub(super) touched: bool,
}

/// A lease that was read or granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct SqlLease {
    pub(super) ttl: Millis,
    /// By the engine's clock.
    pub(super) ends: i64,
    pub(super) touched: bool,
}

/// The one row of the counter's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SqlMeta {
    /// The position of the total order.
    pub(super) revision: Revision,
    /// The feed has no changes up to here.
    pub(super) forgotten: Revision,
    /// How many rows the table of changes has.
    pub(super) changes: i64,
    /// The last number of a lease.
    pub(super) leases: u64,
    /// The time of the last act by a writer that could tell how much time had passed.
    pub(super) clock: i64,
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum SqlReply {
    Granted(Option<(LeaseId, Millis)>),
    Closed,
    Txns(Vec<SqlTxnResult>),
}

/// The result of a transaction.
#[derive(Debug)]
pub(super) enum SqlTxnResult {
    Applied(Revision),
    /// The state of every key that it names, at this revision.
    Refused(Vec<(Key, Option<EntryHead>)>, Revision),
}

/// The state that a group works on.
pub(super) struct SqlState {
    limits: SqlLimits,
    pub(super) now: i64,
    pub(super) meta: SqlMeta,
    pub(super) entries: BTreeMap<Key, KeyState>,
    pub(super) leases: BTreeMap<LeaseId, SqlLease>,
    pub(super) ended: BTreeSet<LeaseId>,
    /// The last revision at which each cold key changed.
    pub(super) changed: BTreeMap<Key, Revision>,
}

impl SqlState {
    pub(super) fn new(limits: SqlLimits, now: i64, meta: SqlMeta) -> Self {
        let (entries, leases, ended) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { limits, now, meta, entries, leases, ended, changed: BTreeMap::new() }
    }

    /// Adds an entry that the table has.
    pub(super) fn add_entry(&mut self, key: Key, head: EntryHead) {
        self.entries.insert(key, KeyState { stored: true, head: Some(head), touched: false });
    }

    /// Adds a lease that the table has.
    pub(super) fn add_lease(&mut self, id: LeaseId, ttl: Millis, ends: i64) {
        self.leases.insert(id, SqlLease { ttl, ends, touched: false });
    }

    /// Ends every lease that was over at the last act, among those that were read; usually the last act is now.
    pub(super) fn end_expired(&mut self) {
        let over: Vec<_> =
            self.leases.iter().filter(|(_, it)| it.ends <= self.meta.clock).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.close(id));
    }

    /// Applies a request.
    pub(super) fn apply(&mut self, ask: &WriteRequest) -> SqlReply {
        match ask {
            WriteRequest::Open(ttl, _) => {
                let ttl = (*ttl).clamp(self.limits.ttl_min, TTL_MAX);
                self.meta.leases += 1;
                let id = LeaseId(self.meta.leases);
                self.leases.insert(id, SqlLease { ttl, ends: self.now + ttl.0, touched: true });
                SqlReply::Granted(Some((id, ttl)))
            }
            WriteRequest::Renew(id, _) => {
                let now = self.now;
                SqlReply::Granted(self.leases.get_mut(id).map(|lease| {
                    (lease.ends, lease.touched) = (now + lease.ttl.0, true);
                    (*id, lease.ttl)
                }))
            }
            WriteRequest::Close(id, _) => {
                self.close(*id);
                SqlReply::Closed
            }
            WriteRequest::Commit(txns, _) => {
                SqlReply::Txns(txns.iter().map(|txn| self.apply_txn(txn)).collect())
            }
        }
    }

    /// Ends a lease and deletes its entries: all of them were read, or written by this group.
    fn close(&mut self, id: LeaseId) {
        if self.leases.remove(&id).is_none() {
            return;
        }
        self.ended.insert(id);
        let lives = |known: &KeyState| known.head.as_ref().is_some_and(|head| head.owner == Some(id));
        let owned: Vec<_> =
            self.entries.iter().filter(|(_, known)| lives(known)).map(|(key, _)| key.clone()).collect();
        if !owned.is_empty() {
            self.meta.revision.0 += 1;
        }
        owned.into_iter().for_each(|key| self.set(key, None));
    }

    /// Makes a transaction completely or not at all.
    fn apply_txn(&mut self, txn: &Txn) -> SqlTxnResult {
        if !self.limits.accepts(txn) || !self.guards_hold(txn) {
            let found = txn.keys().map(|key| (key.clone(), self.head(key).cloned())).collect();
            return SqlTxnResult::Refused(found, self.meta.revision);
        }
        let news = |write: &Write| match write {
            Write::Put { .. } => true,
            Write::Delete { key } => self.head(key).is_some(),
        };
        if txn.writes.iter().any(news) {
            self.meta.revision.0 += 1;
        }
        for write in &txn.writes {
            let old = self.head(write.key());
            match write {
                Write::Put { key, value, owner } => {
                    let revision = self.meta.revision;
                    let born = old.map_or(revision, |old| old.born);
                    let head = EntryHead { revision, born, owner: *owner, value: Some(value.clone()) };
                    self.set(key.clone(), Some(head));
                }
                Write::Delete { key } if old.is_some() => self.set(key.clone(), None),
                Write::Delete { .. } => {}
            }
        }
        SqlTxnResult::Applied(self.meta.revision)
    }

    fn guards_hold(&self, txn: &Txn) -> bool {
        let holds = |guard: &Guard| match guard {
            Guard::Absent(key) => self.head(key).is_none(),
            Guard::Present(key) => self.head(key).is_some(),
            Guard::At(key, revision) => self.head(key).is_some_and(|head| head.revision == *revision),
            Guard::Born(key, born) => self.head(key).is_some_and(|head| head.born == *born),
            Guard::Open(lease) => self.leases.contains_key(lease),
        };
        // An entry cannot be owned by an ended lease, so the transaction is refused as if by a guard.
        let owned = |write: &Write| match write {
            Write::Put { owner: Some(lease), .. } => self.leases.contains_key(lease),
            Write::Put { .. } | Write::Delete { .. } => true,
        };
        txn.guards.iter().all(holds) && txn.writes.iter().all(owned)
    }

    fn head(&self, key: &Key) -> Option<&EntryHead> {
        self.entries.get(key)?.head.as_ref()
    }

    fn set(&mut self, key: Key, head: Option<EntryHead>) {
        if key.is_cold() {
            self.changed.insert(key.clone(), self.meta.revision);
        }
        let known = self.entries.entry(key).or_default();
        (known.head, known.touched) = (head, true);
    }
}

impl EntryHead {
    /// The complete entry; `None` if its value is still in the table.
    pub(super) fn entry(self) -> Option<Entry> {
        let Self { revision, born, owner, value } = self;
        Some(Entry { value: value?, revision, born, owner })
    }
}
