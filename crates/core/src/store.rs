//! The reference registry as a pure value: the memory engine, the simulator's engine, and every engine's oracle.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::keys::Key;
use crate::registry::{Change, ChangeBatch, Entry, Guard, LeaseId, Revision, Txn, TxnOutcome, Write};
use crate::time::{Millis, Mono};

/// How many changes the feed remembers before a slow listener must list again.
const LOG_MAX: usize = 65_536;

/// The numbers of revisions and leases that an engine gives after it went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumbersAfterRollback {
    /// None is given twice.
    GoOn,
    /// Those since the state that it went back to are given once more.
    Repeat,
}

/// A registry without IO. Time is the caller's: leases live by the `now` of the calls, which must not go back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    revision: Revision,
    entries: BTreeMap<Key, Entry>,
    leases: BTreeMap<LeaseId, StoredLease>,
    last_lease: u64,
    /// When the engine last acted; a long gap means it was away and no holder could renew.
    clock: Mono,
    log: Vec<Change>,
    log_floor: Revision,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StoredLease {
    ttl: Millis,
    ends: Mono,
    owned: BTreeSet<Key>,
}

impl Store {
    /// The present revision of the total order.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Grants a new lease and returns its number.
    pub fn open(&mut self, now: Mono, ttl: Millis) -> LeaseId {
        self.sweep(now);
        self.last_lease += 1;
        let id = LeaseId(self.last_lease);
        self.leases.insert(id, StoredLease { ttl, ends: now + ttl, owned: BTreeSet::new() });
        id
    }

    /// Prolongs a living lease by its term; `false` when it has ended.
    pub fn renew(&mut self, now: Mono, id: LeaseId) -> bool {
        self.sweep(now);
        match self.leases.get_mut(&id) {
            Some(lease) => {
                lease.ends = now + lease.ttl;
                true
            }
            None => false,
        }
    }

    /// Ends a lease and deletes what lives by it. Ending one that has ended is no change.
    pub fn close(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.remove(&id)
            && !lease.owned.is_empty()
        {
            self.revision.0 += 1;
            for key in lease.owned {
                self.entries.remove(&key);
                self.note(key, None);
            }
        }
    }

    /// Ends every expired lease. A lease is dead when this has deleted its member (docs/design/protocol.md).
    ///
    /// When the engine did not act for longer than half a lease's term, it was away itself: the lease is first given
    /// its term again, for its holder had no chance.
    pub fn sweep(&mut self, now: Mono) {
        let away = now - self.clock;
        self.clock = self.clock.max(now);
        // Each lease by its own term: were the shortest to decide for all, the long ones might never end.
        for lease in self.leases.values_mut().filter(|l| away.0 > l.ttl.0 / 2) {
            lease.ends = lease.ends + lease.ttl;
        }
        let over: Vec<_> = self.leases.iter().filter(|(_, l)| l.ends <= now).map(|(id, _)| *id).collect();
        for id in over {
            self.close(id);
        }
    }

    /// When the engine has to act next, if there is a lease: when one ends, or before the pause would give one its term
    /// again. Else a node that renews seldom would keep the short lease of a dead one alive for ever.
    #[must_use]
    pub fn next_end(&self) -> Option<Mono> {
        self.leases.values().map(|l| l.ends.min(self.clock + Millis(l.ttl.0 / 3))).min()
    }

    /// The term of a living lease.
    #[must_use]
    pub fn term(&self, id: LeaseId) -> Option<Millis> {
        self.leases.get(&id).map(|l| l.ttl)
    }

    /// Whether a lease is alive.
    #[must_use]
    pub fn is_open(&self, id: LeaseId) -> bool {
        self.leases.contains_key(&id)
    }

    /// Applies all of a transaction or nothing of it.
    pub fn commit(&mut self, now: Mono, txn: &Txn) -> TxnOutcome {
        self.sweep(now);
        if !txn.guards.iter().all(|guard| self.holds(guard)) {
            return TxnOutcome::Refused(self.found(txn));
        }
        let owners = txn.writes.iter().filter_map(|w| match w {
            Write::Put { owner, .. } => *owner,
            Write::Delete { .. } => None,
        });
        // An entry cannot live by a lease that has ended, so such a transaction is refused as if it had said so.
        if owners.into_iter().any(|id| !self.is_open(id)) {
            return TxnOutcome::Refused(self.found(txn));
        }
        if txn.writes.iter().any(|w| self.changes(w)) {
            self.revision.0 += 1;
        }
        for write in &txn.writes {
            self.write(write);
        }
        TxnOutcome::Applied(self.revision)
    }

    fn holds(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Absent(key) => !self.entries.contains_key(key),
            Guard::Present(key) => self.entries.contains_key(key),
            Guard::At(key, revision) => self.entries.get(key).is_some_and(|e| e.revision == *revision),
            Guard::Born(key, born) => self.entries.get(key).is_some_and(|e| e.born == *born),
            Guard::Open(lease) => self.is_open(*lease),
        }
    }

    fn changes(&self, write: &Write) -> bool {
        match write {
            Write::Put { .. } => true,
            Write::Delete { key } => self.entries.contains_key(key),
        }
    }

    fn write(&mut self, write: &Write) {
        if !self.changes(write) {
            return;
        }
        let key = write.key().clone();
        if let Some(old) = self.entries.get(&key).and_then(|e| e.owner)
            && let Some(lease) = self.leases.get_mut(&old)
        {
            lease.owned.remove(&key);
        }
        match write {
            Write::Put { value, owner, .. } => {
                let born = self.entries.get(&key).map_or(self.revision, |e| e.born);
                let entry = Entry { value: value.clone(), revision: self.revision, born, owner: *owner };
                if let Some(lease) = owner.and_then(|id| self.leases.get_mut(&id)) {
                    lease.owned.insert(key.clone());
                }
                self.entries.insert(key.clone(), entry.clone());
                self.note(key, Some(entry));
            }
            Write::Delete { .. } => {
                self.entries.remove(&key);
                self.note(key, None);
            }
        }
    }

    fn note(&mut self, key: Key, entry: Option<Entry>) {
        if !key.is_cold() {
            return;
        }
        self.log.push(Change { key, entry, revision: self.revision });
        if self.log.len() > LOG_MAX {
            self.log_floor = self.log[LOG_MAX / 2].revision;
            self.log.drain(..=LOG_MAX / 2);
        }
    }

    /// The state of every key that a transaction names, in key order.
    #[must_use]
    pub fn found(&self, txn: &Txn) -> Vec<Change> {
        txn.keys().map(|key| self.state(key)).collect()
    }

    fn state(&self, key: &Key) -> Change {
        Change { key: key.clone(), entry: self.entries.get(key).cloned(), revision: self.revision }
    }

    /// One entry, if it is there.
    #[must_use]
    pub fn entry(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The requested entries as they stand, absent ones included.
    #[must_use]
    pub fn read(&self, keys: &[Key]) -> Vec<Change> {
        keys.iter().map(|key| self.state(key)).collect()
    }

    /// Every cold entry.
    #[must_use]
    pub fn list(&self) -> ChangeBatch {
        let cold = self.entries.keys().filter(|key| key.is_cold());
        ChangeBatch { changes: cold.map(|key| self.state(key)).collect(), revision: self.revision }
    }

    /// The changes of cold entries after `after`, in order; `None` when they are no longer known and the
    /// listener must list again.
    #[must_use]
    pub fn changes_after(&self, after: Revision) -> Option<ChangeBatch> {
        if after < self.log_floor {
            return None;
        }
        let start = self.log.partition_point(|c| c.revision <= after);
        Some(ChangeBatch { changes: self.log[start..].to_vec(), revision: self.revision })
    }

    /// Drops the feed's memory up to now, as an engine's compaction does.
    pub fn compact(&mut self) {
        self.log.clear();
        self.log_floor = self.revision;
    }

    /// Goes back to the state `then`, as an engine restored from a backup, or whose replica lagged. Some engines then
    /// give the numbers of revisions and leases once more.
    pub fn go_back(&mut self, then: Self, numbers: NumbersAfterRollback) {
        let now = core::mem::replace(self, then);
        if numbers == NumbersAfterRollback::GoOn {
            self.revision = Revision(now.revision.0 + 1);
            self.last_lease = now.last_lease;
        }
        self.compact();
    }

    /// Every entry, hot ones included, in key order.
    pub fn entries(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn key(text: &str) -> Key {
        Key::from_stored(text)
    }

    fn put(k: &str, v: &str, owner: Option<LeaseId>) -> Write {
        Write::Put { key: key(k), value: v.as_bytes().into(), owner }
    }

    fn txn(guards: Vec<Guard>, writes: Vec<Write>) -> Txn {
        Txn { guards, writes }
    }

    #[test]
    fn a_refused_transaction_writes_nothing_and_tells_what_is_there() {
        let mut store = Store::default();
        assert_eq!(
            store.commit(Mono(0), &txn(vec![], vec![put("a", "1", None)])),
            TxnOutcome::Applied(Revision(1))
        );
        let refused = store.commit(Mono(0), &txn(vec![Guard::Absent(key("a"))], vec![put("b", "2", None)]));
        let TxnOutcome::Refused(found) = refused else { panic!("applied") };
        assert_eq!(found.len(), 2);
        assert!(found[0].entry.is_some() && found[1].entry.is_none());
        assert_eq!(store.revision(), Revision(1));
    }

    #[test]
    fn what_lives_by_a_lease_goes_with_it_and_the_feed_says_so() {
        let mut store = Store::default();
        let lease = store.open(Mono(0), Millis(100));
        store.commit(Mono(0), &txn(vec![Guard::Open(lease)], vec![put("node/a@1", "x", Some(lease))]));
        assert!(store.renew(Mono(50), lease));
        store.sweep(Mono(100));
        assert!(store.is_open(lease));
        store.sweep(Mono(149));
        store.sweep(Mono(150));
        assert!(!store.is_open(lease) && !store.renew(Mono(150), lease));
        let gone = store.changes_after(Revision(1)).unwrap();
        assert_eq!(gone.changes, vec![Change { key: key("node/a@1"), entry: None, revision: Revision(2) }]);
    }

    #[test]
    fn an_engine_that_was_away_gives_everyone_their_term_again() {
        let mut store = Store::default();
        let lease = store.open(Mono(0), Millis(100));
        store.sweep(Mono(180));
        assert!(store.is_open(lease));
        store.sweep(Mono(220));
        assert!(!store.is_open(lease));
    }

    #[test]
    fn a_short_lease_of_somebody_else_does_not_keep_a_long_one_alive() {
        let mut store = Store::default();
        let (long, short) = (store.open(Mono(0), Millis(100)), store.open(Mono(0), Millis(20)));
        for now in (0..=100).step_by(15) {
            store.renew(Mono(now), short);
        }
        store.sweep(Mono(100));
        assert!(!store.is_open(long));
    }

    #[test]
    fn what_went_back_gives_no_number_twice_where_it_counts_on() {
        let mut store = Store::default();
        store.commit(Mono(0), &txn(vec![], vec![put("a", "1", None)]));
        let then = store.clone();
        store.commit(Mono(0), &txn(vec![], vec![put("a", "2", None), put("b", "2", None)]));
        let (lost, lease) = (store.revision(), store.open(Mono(0), Millis(100)));
        let mut anew = store.clone();
        anew.go_back(then.clone(), NumbersAfterRollback::Repeat);
        assert_eq!((anew.revision(), anew.open(Mono(0), Millis(100))), (then.revision(), lease));
        store.go_back(then, NumbersAfterRollback::GoOn);
        assert_eq!(store.entry(&key("a")).map(|e| (&*e.value, e.revision)), Some((&b"1"[..], Revision(1))));
        assert!(store.entry(&key("b")).is_none() && !store.is_open(lease));
        assert!(store.open(Mono(0), Millis(100)) > lease);
        assert_eq!(store.changes_after(lost), None, "whoever heard what is gone lists again");
        let again = store.commit(Mono(0), &txn(vec![], vec![put("b", "3", None)]));
        assert!(matches!(again, TxnOutcome::Applied(at) if at > lost));
    }

    #[test]
    fn a_listener_from_before_the_compaction_must_list_again() {
        let mut store = Store::default();
        store.commit(Mono(0), &txn(vec![], vec![put("a", "1", None)]));
        store.compact();
        assert_eq!(store.changes_after(Revision(0)), None);
        assert_eq!(store.changes_after(Revision(1)).map(|b| b.changes.len()), Some(0));
    }
}
