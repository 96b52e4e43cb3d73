//! What a group of verbs comes to, worked out in memory from what its transaction has read under the counter's lock.
//!
//! It answers exactly as [`Store`](evenkeel_core::store::Store) does; the differential cases hold them together.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Entry, Guard, LeaseId, Revision, Txn, Value, Write};
use evenkeel_core::time::Millis;

use super::Limits;
use crate::TTL_MAX;
use crate::queue::Ask;

/// An entry, its value aside where that has not been needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) revision: Revision,
    pub(super) born: Revision,
    pub(super) owner: Option<LeaseId>,
    /// `None` for the one in the table.
    pub(super) value: Option<Value>,
}

/// One key: as the table has it, and as it is by now.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) stored: bool,
    pub(super) head: Option<Head>,
    pub(super) touched: bool,
}

/// A lease that was read or granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) ttl: Millis,
    /// By the engine's clock.
    pub(super) ends: i64,
    pub(super) touched: bool,
}

/// The one row of the counter's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// Where the total order stands.
    pub(super) revision: Revision,
    /// The feed knows nothing of what happened up to here.
    pub(super) forgotten: Revision,
    /// How many rows the table of changes has.
    pub(super) changes: i64,
    /// The last number given to a lease.
    pub(super) leases: u64,
    /// When anybody last acted who could tell what time had passed.
    pub(super) clock: i64,
}

/// What a verb came to.
#[derive(Debug)]
pub(super) enum Answer {
    Granted(Option<(LeaseId, Millis)>),
    Closed,
    Verdicts(Vec<Verdict>),
}

/// What a transaction came to.
#[derive(Debug)]
pub(super) enum Verdict {
    Made(Revision),
    /// Every key it names, as it stood, at this revision.
    Refused(Vec<(Key, Option<Head>)>, Revision),
}

/// The state a group works on.
pub(super) struct Book {
    limits: Limits,
    pub(super) now: i64,
    pub(super) meta: Meta,
    pub(super) entries: BTreeMap<Key, Known>,
    pub(super) leases: BTreeMap<LeaseId, Lease>,
    pub(super) ended: BTreeSet<LeaseId>,
    /// The last revision at which each cold key changed.
    pub(super) notes: BTreeMap<Key, Revision>,
}

impl Book {
    pub(super) fn new(limits: Limits, now: i64, meta: Meta) -> Self {
        let (entries, leases, ended) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { limits, now, meta, entries, leases, ended, notes: BTreeMap::new() }
    }

    /// Takes in an entry that the table has.
    pub(super) fn found(&mut self, key: Key, head: Head) {
        self.entries.insert(key, Known { stored: true, head: Some(head), touched: false });
    }

    /// Takes in a lease that the table has.
    pub(super) fn found_lease(&mut self, id: LeaseId, ttl: Millis, ends: i64) {
        self.leases.insert(id, Lease { ttl, ends, touched: false });
    }

    /// Ends every lease whose time was over when anybody last acted, of those that were read: now, as a rule.
    pub(super) fn sweep(&mut self) {
        let over: Vec<_> =
            self.leases.iter().filter(|(_, it)| it.ends <= self.meta.clock).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.close(id));
    }

    /// Does what was asked.
    pub(super) fn work(&mut self, ask: &Ask) -> Answer {
        match ask {
            Ask::Open(ttl, _) => {
                let ttl = (*ttl).clamp(self.limits.ttl_min, TTL_MAX);
                self.meta.leases += 1;
                let id = LeaseId(self.meta.leases);
                self.leases.insert(id, Lease { ttl, ends: self.now + ttl.0, touched: true });
                Answer::Granted(Some((id, ttl)))
            }
            Ask::Renew(id, _) => {
                let now = self.now;
                Answer::Granted(self.leases.get_mut(id).map(|lease| {
                    (lease.ends, lease.touched) = (now + lease.ttl.0, true);
                    (*id, lease.ttl)
                }))
            }
            Ask::Close(id, _) => {
                self.close(*id);
                Answer::Closed
            }
            Ask::Commit(txns, _) => Answer::Verdicts(txns.iter().map(|txn| self.make(txn)).collect()),
        }
    }

    /// Ends a lease and deletes what lives by it: all of that was read, or written by this group.
    fn close(&mut self, id: LeaseId) {
        if self.leases.remove(&id).is_none() {
            return;
        }
        self.ended.insert(id);
        let lives = |known: &Known| known.head.as_ref().is_some_and(|head| head.owner == Some(id));
        let owned: Vec<_> =
            self.entries.iter().filter(|(_, known)| lives(known)).map(|(key, _)| key.clone()).collect();
        if !owned.is_empty() {
            self.meta.revision.0 += 1;
        }
        owned.into_iter().for_each(|key| self.set(key, None));
    }

    /// Makes all of a transaction or nothing of it.
    fn make(&mut self, txn: &Txn) -> Verdict {
        if !self.limits.fit(txn) || !self.all_hold(txn) {
            let found = txn.keys().map(|key| (key.clone(), self.head(key).cloned())).collect();
            return Verdict::Refused(found, self.meta.revision);
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
                    let head = Head { revision, born, owner: *owner, value: Some(value.clone()) };
                    self.set(key.clone(), Some(head));
                }
                Write::Delete { key } if old.is_some() => self.set(key.clone(), None),
                Write::Delete { .. } => {}
            }
        }
        Verdict::Made(self.meta.revision)
    }

    fn all_hold(&self, txn: &Txn) -> bool {
        let holds = |guard: &Guard| match guard {
            Guard::Absent(key) => self.head(key).is_none(),
            Guard::Present(key) => self.head(key).is_some(),
            Guard::At(key, revision) => self.head(key).is_some_and(|head| head.revision == *revision),
            Guard::Born(key, born) => self.head(key).is_some_and(|head| head.born == *born),
            Guard::Open(lease) => self.leases.contains_key(lease),
        };
        // An entry cannot live by a lease that has ended, so the transaction is refused as if it had said so.
        let owned = |write: &Write| match write {
            Write::Put { owner: Some(lease), .. } => self.leases.contains_key(lease),
            Write::Put { .. } | Write::Delete { .. } => true,
        };
        txn.guards.iter().all(holds) && txn.writes.iter().all(owned)
    }

    fn head(&self, key: &Key) -> Option<&Head> {
        self.entries.get(key)?.head.as_ref()
    }

    fn set(&mut self, key: Key, head: Option<Head>) {
        if key.is_cold() {
            self.notes.insert(key.clone(), self.meta.revision);
        }
        let known = self.entries.entry(key).or_default();
        (known.head, known.touched) = (head, true);
    }
}

impl Head {
    /// The whole entry; `None` where its value is still in the table.
    pub(super) fn entry(self) -> Option<Entry> {
        let Self { revision, born, owner, value } = self;
        Some(Entry { value: value?, revision, born, owner })
    }
}
