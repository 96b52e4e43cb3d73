//! Random operations on the engine and on [`Store`]: equal answers and equal contents, until everything has happened.
//!
//! With a manual clock the numbers are equal too. A server has its own numbers and its own time:
//! there the run has no expired leases, and the numbers are mapped, which must keep their order.

use std::collections::BTreeMap;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, ChangeBatch, Entry, Guard, LeaseId, Revision, Txn, TxnOutcome, Write};
use evenkeel_core::store::Store;
use evenkeel_core::time::{Millis, Mono};

use super::{Stage, Xorshift, changes_until, key};

/// Few enough that operations conflict; cold and hot.
const KEYS: [&str; 7] = [
    "job/a/assignment",
    "job/a/spec",
    "job/b/assignment",
    "node/x@1",
    "lock/l",
    "run/a/claim",
    "run/b/claim",
];

/// A run is over when everything has happened this often, and after this many steps.
const MANUAL_CLOCK: (u32, u32) = (20, 2_000);
const REAL_CLOCK: (u32, u32) = (5, 400);

/// A number that no engine gives.
const NEVER: u64 = 1 << 62;

/// Guards and writes, each where it holds and where it does not; likewise the verbs of leases.
const EVERYTHING: [&str; 24] = [
    "absent held",
    "absent failed",
    "present held",
    "present failed",
    "at held",
    "at failed",
    "born held",
    "born failed",
    "open held",
    "open failed",
    "creation made",
    "creation refused",
    "replacement made",
    "replacement refused",
    "owned put made",
    "owned put refused",
    "deletion made",
    "deletion refused",
    "deletion of nothing made",
    "deletion of nothing refused",
    "renewed",
    "not renewed",
    "closed",
    "restarted",
];

/// proves: S1-05, S1-06, I46
pub async fn answers_as_the_store_does(stage: Stage) {
    DifferentialRun::new(stage, 0x5eed).run().await;
}

/// proves: S1-05, S1-06, I46
pub async fn answers_as_the_store_does_by_other_dice(stage: Stage) {
    DifferentialRun::new(stage, 0xd1ce).run().await;
}

struct DifferentialRun {
    stage: Stage,
    oracle: Store,
    random: Xorshift,
    leases: Vec<LeaseId>,
    counts: BTreeMap<&'static str, u32>,
    /// The engine's revisions and leases by those of the oracle.
    revisions: BTreeMap<Revision, Revision>,
    granted: BTreeMap<LeaseId, LeaseId>,
}

impl DifferentialRun {
    fn new(stage: Stage, seed: u64) -> Self {
        let happened = EVERYTHING.into_iter().map(|what| (what, 0)).collect();
        let leases = vec![LeaseId(99)];
        let (revisions, granted) = (BTreeMap::new(), BTreeMap::new());
        Self {
            stage,
            oracle: Store::default(),
            random: Xorshift(seed),
            leases,
            counts: happened,
            revisions,
            granted,
        }
    }

    async fn run(mut self) {
        let (often, least) = if self.is_exact() { MANUAL_CLOCK } else { REAL_CLOCK };
        for moves in 1.. {
            self = self.random_step().await;
            if moves >= least && self.counts.values().all(|times| *times >= often) {
                break;
            }
            assert!(moves < 20 * least, "chance should have done everything by now: {:?}", self.counts);
        }
        self.compare().await;
        let mut feed = self.stage.watch(Revision(0)).await;
        let mut view = BTreeMap::new();
        for change in changes_until(&mut feed, self.stage.list().await.revision).await {
            match change.entry {
                Some(entry) => drop(view.insert(change.key, entry)),
                None => drop(view.remove(&change.key)),
            }
        }
        let cold = self.oracle.entries().filter(|(key, _)| key.is_cold());
        let expected = cold.map(|(key, entry)| (key.clone(), self.entry(entry))).collect();
        assert_eq!(view, expected, "what the feed told");
    }

    /// Whether the engine's numbers and moments equal the oracle's.
    fn is_exact(&self) -> bool {
        self.stage.manual_clock().is_some()
    }

    async fn random_step(mut self) -> Self {
        match self.random.below(200) {
            0..120 => self.commit().await,
            120..135 => self.open().await,
            135..155 => self.renew().await,
            155..162 => self.close().await,
            162..190 => {
                let span = self.random.pick(&[1, 50, 300, 499, 501, 900, 1_100, 4_000]);
                if let Some(clock) = self.stage.manual_clock() {
                    clock.advance(Millis(span));
                }
            }
            190..198 => self.compare().await,
            _ => {
                self.stage = self.stage.restart().await;
                self.count("restarted");
            }
        }
        self
    }

    async fn commit(&mut self) {
        let batch: Vec<_> = (0..=self.random.below(3)).map(|_| self.txn()).collect();
        let now = self.now();
        let mut expected = Vec::new();
        for txn in &batch {
            self.oracle.sweep(now);
            let before = self.oracle.clone();
            let outcome = self.oracle.commit(now, txn);
            self.count_txn(&before, txn, &outcome);
            expected.push(outcome);
        }
        let sent = batch.iter().map(|txn| self.txn_sent(txn)).collect();
        let answers = self.stage.registry.commit(sent).await;
        if self.is_exact() {
            assert_eq!(answers, expected, "answers to {batch:?}");
        }
        assert_eq!(answers.len(), expected.len());
        let called = self.revisions.values().max().copied();
        for (answer, expected) in answers.iter().zip(&expected) {
            match (answer, expected) {
                (TxnOutcome::Applied(ours), TxnOutcome::Applied(oracle)) => {
                    // An engine may order independent transactions of a batch as it likes.
                    let grows = !self.revisions.contains_key(oracle);
                    let ordered = called.is_none_or(|called| *ours > called || (*ours == called && !grows));
                    assert!(ordered, "{ours} after {called:?}");
                    self.revisions.entry(*oracle).or_insert(*ours);
                }
                (TxnOutcome::Refused(ours), TxnOutcome::Refused(oracle)) => self.same(ours, oracle),
                _ => panic!("{answer:?} instead of {expected:?} in answer to {batch:?}"),
            }
        }
    }

    /// Compares the engine's answer about some keys with the oracle's.
    fn same(&self, ours: &[Change], oracle: &[Change]) {
        let told = ours.iter().map(|change| (change.key.clone(), change.entry.clone()));
        let so =
            oracle.iter().map(|change| (change.key.clone(), change.entry.as_ref().map(|e| self.entry(e))));
        assert_eq!(told.collect::<Vec<_>>(), so.collect::<Vec<_>>());
        assert!(ours.iter().all(|it| it.entry.as_ref().is_none_or(|entry| entry.revision <= it.revision)));
    }

    /// An entry of the oracle with the engine's numbers.
    fn entry(&self, oracle: &Entry) -> Entry {
        Entry {
            value: oracle.value.clone(),
            revision: self.revision(oracle.revision),
            born: self.revision(oracle.born),
            owner: oracle.owner.map(|lease| self.engine_lease(lease)),
        }
    }

    fn revision(&self, oracle: Revision) -> Revision {
        if self.is_exact() {
            return oracle;
        }
        self.revisions.get(&oracle).copied().unwrap_or(Revision(NEVER))
    }

    fn engine_lease(&self, lease: LeaseId) -> LeaseId {
        if self.is_exact() {
            return lease;
        }
        self.granted.get(&lease).copied().unwrap_or(LeaseId(NEVER))
    }

    /// A transaction of the oracle with the engine's numbers.
    fn txn_sent(&self, txn: &Txn) -> Txn {
        let guard = |guard: &Guard| match guard {
            Guard::At(key, at) => Guard::At(key.clone(), self.revision(*at)),
            Guard::Born(key, born) => Guard::Born(key.clone(), self.revision(*born)),
            Guard::Open(lease) => Guard::Open(self.engine_lease(*lease)),
            Guard::Absent(_) | Guard::Present(_) => guard.clone(),
        };
        let write = |write: &Write| match write {
            Write::Put { key, value, owner } => Write::Put {
                key: key.clone(),
                value: value.clone(),
                owner: owner.map(|lease| self.engine_lease(lease)),
            },
            Write::Delete { .. } => write.clone(),
        };
        Txn { guards: txn.guards.iter().map(guard).collect(), writes: txn.writes.iter().map(write).collect() }
    }

    async fn open(&mut self) {
        let ttl = Millis(self.random.pick(&[1_000, 1_500, 6_000]));
        let lease = self.oracle.open(self.now(), ttl);
        let granted = self.stage.open(if self.is_exact() { ttl } else { self.stage.long_ttl() }).await;
        if self.is_exact() {
            let next_end = self.oracle.next_end().map(|end| end - self.now());
            assert_eq!((granted.lease, granted.ttl, granted.next_end), (lease, ttl, next_end));
        }
        assert!(self.granted.values().all(|known| *known != granted.lease), "given twice");
        self.granted.insert(lease, granted.lease);
        self.leases.push(lease);
    }

    async fn renew(&mut self) {
        let lease = self.lease();
        let alive = self.oracle.renew(self.now(), lease);
        let granted = self.stage.renew(self.engine_lease(lease)).await;
        if self.is_exact() {
            let next_end = self.oracle.next_end().map(|end| end - self.now());
            let expected = self.oracle.term(lease).map(|ttl| (lease, ttl, next_end));
            assert_eq!(granted.map(|g| (g.lease, g.ttl, g.next_end)), expected);
        }
        assert_eq!(granted.map(|g| g.lease), alive.then(|| self.engine_lease(lease)));
        self.count(if alive { "renewed" } else { "not renewed" });
    }

    async fn close(&mut self) {
        let lease = self.lease();
        if self.oracle.is_open(lease) {
            self.count("closed");
        }
        self.oracle.close(lease);
        self.stage.close(self.engine_lease(lease)).await;
    }

    async fn compare(&mut self) {
        let (listed, oracle) = (self.stage.list().await, self.oracle.list());
        let (found, there) = (self.stage.read(KEYS).await, self.oracle.read(&KEYS.map(key)));
        if self.is_exact() {
            assert_eq!((&listed, &found), (&oracle, &there));
        }
        let ChangeBatch { changes, revision } = listed;
        let by_key = |changes: Vec<Change>| changes.into_iter().map(|it| (it.key.clone(), it)).collect();
        let (listed, oracle): (BTreeMap<_, _>, BTreeMap<_, _>) = (by_key(changes), by_key(oracle.changes));
        self.same(&listed.into_values().collect::<Vec<_>>(), &oracle.into_values().collect::<Vec<_>>());
        self.same(&found, &there);
        assert!(self.revisions.values().all(|called| *called <= revision));
    }

    /// The oracle's time. It is independent of a server's own time, in which no lease of this run expires.
    fn now(&self) -> Mono {
        if self.is_exact() { self.stage.now() } else { Mono(1_000_000) }
    }

    /// One of the latest leases, some of them over.
    fn lease(&mut self) -> LeaseId {
        let latest = self.leases.len().saturating_sub(6);
        self.random.pick(&self.leases[latest..])
    }

    fn txn(&mut self) -> Txn {
        let guards = (0..self.random.below(3)).map(|_| self.guard()).collect();
        let mut writes: Vec<_> = (0..self.random.below(4)).map(|_| self.write()).collect();
        if !self.is_exact() {
            // Some engines refuse to delete a key and put it again at once, or do not count a change without effect.
            while let Some(place) = undone(&writes) {
                writes.remove(place);
            }
        }
        Txn { guards, writes }
    }

    fn guard(&mut self) -> Guard {
        let key = key(self.random.pick(&KEYS));
        let entry = self.oracle.read(std::slice::from_ref(&key)).remove(0).entry;
        let (miss, kind) = (self.random.below(3) == 0, self.random.below(5));
        let near = |good: Option<Revision>| {
            let missed = Revision(self.oracle.revision().0.saturating_sub(1));
            match good {
                Some(good) if !miss => good,
                // Two independent writes may have one revision in the engine.
                Some(good) if self.revision(good) == self.revision(missed) => Revision(NEVER),
                _ => missed,
            }
        };
        match kind {
            0 => Guard::Absent(key),
            1 => Guard::Present(key),
            2 => Guard::At(key, near(entry.map(|e| e.revision))),
            3 => Guard::Born(key, near(entry.map(|e| e.born))),
            _ => Guard::Open(self.lease()),
        }
    }

    fn write(&mut self) -> Write {
        let key: Key = key(self.random.pick(&KEYS));
        let value = self.random.below(1 << 20).to_string().into_bytes().into();
        match self.random.below(5) {
            0 | 1 => Write::Put { key, value, owner: None },
            2 => Write::Put { key, value, owner: Some(self.lease()) },
            _ => Write::Delete { key },
        }
    }

    fn count_txn(&mut self, before: &Store, txn: &Txn, outcome: &TxnOutcome) {
        for guard in &txn.guards {
            let alone = Txn { guards: vec![guard.clone()], writes: vec![] };
            let held = matches!(before.clone().commit(self.now(), &alone), TxnOutcome::Applied(_));
            self.count(match (guard, held) {
                (Guard::Absent(_), true) => "absent held",
                (Guard::Absent(_), false) => "absent failed",
                (Guard::Present(_), true) => "present held",
                (Guard::Present(_), false) => "present failed",
                (Guard::At(..), true) => "at held",
                (Guard::At(..), false) => "at failed",
                (Guard::Born(..), true) => "born held",
                (Guard::Born(..), false) => "born failed",
                (Guard::Open(_), true) => "open held",
                (Guard::Open(_), false) => "open failed",
            });
        }
        let made = matches!(outcome, TxnOutcome::Applied(_));
        for write in &txn.writes {
            let there = before.read(std::slice::from_ref(write.key())).remove(0).entry.is_some();
            self.count(match (write, there, made) {
                (Write::Put { owner: Some(_), .. }, _, true) => "owned put made",
                (Write::Put { owner: Some(_), .. }, _, false) => "owned put refused",
                (Write::Put { .. }, false, true) => "creation made",
                (Write::Put { .. }, false, false) => "creation refused",
                (Write::Put { .. }, true, true) => "replacement made",
                (Write::Put { .. }, true, false) => "replacement refused",
                (Write::Delete { .. }, true, true) => "deletion made",
                (Write::Delete { .. }, true, false) => "deletion refused",
                (Write::Delete { .. }, false, true) => "deletion of nothing made",
                (Write::Delete { .. }, false, false) => "deletion of nothing refused",
            });
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

/// The index of a write that a later one of the other kind undoes.
fn undone(writes: &[Write]) -> Option<usize> {
    let is_put = |write: &Write| matches!(write, Write::Put { .. });
    let undoes = |later: &Write, write: &Write| later.key() == write.key() && is_put(later) != is_put(write);
    (0..writes.len()).find(|place| writes[*place..].iter().any(|later| undoes(later, &writes[*place])))
}
