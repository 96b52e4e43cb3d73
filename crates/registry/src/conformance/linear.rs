//! Histories: several clients at once, whose calls are recorded and checked afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Entry, Guard, Revision, Txn, TxnOutcome, Value, Write};
use tokio::task::JoinHandle;

use super::linearizability::{self, CallRecord, HistoryCall};
use super::{Stage, Xorshift, key};
use crate::Registry;

/// Few enough that operations conflict; cold and hot.
const KEYS: [&str; 4] = ["job/a/assignment", "job/b/assignment", "run/a/claim", "lock/l"];

/// How many connections, and how many clients share each.
const CONNECTIONS: usize = 4;
const EACH: usize = 2;

/// How many calls a history has.
const QUESTIONS: usize = 400;

/// How many histories a case runs, unless `EVENKEEL_HISTORIES` sets another number, as the soak does.
const HISTORIES: u32 = 1;

/// How many histories fit into the time that a case may take.
const IN_TIME: u32 = 10;

fn histories() -> u32 {
    std::env::var("EVENKEEL_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES)
}

/// How many times as long as usual a case may take.
pub(super) fn time_factor() -> u32 {
    histories().div_ceil(IN_TIME)
}

/// proves: S1-05, S1-09, I46
pub async fn histories_can_have_happened_one_after_the_other(stage: Stage) {
    let mut connections = vec![stage.registry.clone()];
    for _ in 1..CONNECTIONS {
        connections.push(stage.connect_again().await);
    }
    let clients: Vec<_> = (0..CONNECTIONS * EACH).map(|nth| connections[nth % CONNECTIONS].clone()).collect();
    for nth in 0..histories() {
        clear(&stage).await;
        let game = HistoryRun::start(&clients, nth.into(), QUESTIONS, false);
        assert_linearizable(&game.finish(&clients).await);
    }
}

/// How many answers a run with faults loses at least, and after how many times its calls it gives up otherwise.
const LOST: usize = 3;
const PATIENCE: usize = 30;

/// Runs a history of at least this many calls on a new registry while `fault` happens to some connections, again and
/// again, until answers were lost: how often a fault hits an answer is up to chance. A call without an answer is
/// repeated until it has one.
///
/// # Panics
/// When the history is impossible, or when no answer was lost.
pub async fn histories_under_faults(
    clients: &[Arc<dyn Registry>],
    questions: usize,
    mut fault: impl AsyncFnMut(),
) {
    let game = HistoryRun::start(clients, 0x5707, questions, true);
    while !game.is_over() {
        fault().await;
    }
    let calls = game.finish(clients).await;
    assert_linearizable(&calls);
    assert!(calls.iter().any(|call| call.lost), "no answer was lost");
}

fn assert_linearizable(calls: &[HistoryCall]) {
    if let Err(why) = linearizability::check(calls) {
        let told: Vec<_> = calls.iter().map(|call| format!("{call:?}")).collect();
        panic!("this history cannot have been: {why}\n{}", told.join("\n"));
    }
}

async fn clear(stage: &Stage) {
    stage.commit_applied([], KEYS.map(|at| Write::Delete { key: key(at) })).await;
}

/// What all clients of a history share.
#[derive(Default)]
struct CallRecorder {
    /// Numbers the begins and ends of calls: a higher number was later, whatever the clocks say.
    counter: AtomicU64,
    calls: Mutex<Vec<HistoryCall>>,
    /// How many answers were lost.
    lost: AtomicUsize,
}

impl CallRecorder {
    fn now(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::SeqCst)
    }

    fn record(&self, begin: u64, said: CallRecord, lost: bool) {
        let call = HistoryCall { begin, end: self.now(), record: said, lost };
        self.lost.fetch_add(lost.into(), Ordering::Relaxed);
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}

/// One history in progress.
struct HistoryRun {
    recorder: Arc<CallRecorder>,
    clients: Vec<JoinHandle<()>>,
}

impl HistoryRun {
    fn start(clients: &[Arc<dyn Registry>], seed: u64, questions: usize, stormy: bool) -> Self {
        let notes = Arc::<CallRecorder>::default();
        let questions = questions / clients.len();
        let player = |(name, registry): (usize, &Arc<dyn Registry>)| {
            let dice = Xorshift(0x5eed_0001 + (seed << 16) + name as u64);
            let mark = stormy.then(|| key(&format!("run/mark/{name}")));
            let (registry, notes, known) = (registry.clone(), notes.clone(), BTreeMap::new());
            let player = HistoryClient {
                registry,
                recorder: notes,
                name,
                random: dice,
                known,
                values: 0,
                outcome_key: mark,
            };
            tokio::spawn(player.run(questions))
        };
        let players = clients.iter().enumerate().map(player).collect();
        Self { recorder: notes, clients: players }
    }

    fn is_over(&self) -> bool {
        self.clients.iter().all(JoinHandle::is_finished)
    }

    /// Waits for all clients, and reads the final entries.
    async fn finish(self, clients: &[Arc<dyn Registry>]) -> Vec<HistoryCall> {
        let marks = (0..self.clients.len()).map(|name| key(&format!("run/mark/{name}")));
        let all: Vec<_> = KEYS.map(key).into_iter().chain(marks).collect();
        for player in self.clients {
            player.await.expect("a player ends");
        }
        for registry in clients {
            let found = loop {
                let begin = self.recorder.now();
                if let Ok(found) = registry.read(all.clone()).await {
                    break (begin, found);
                }
            };
            self.recorder.record(found.0, CallRecord::Read(all.clone(), found.1), false);
        }
        std::mem::take(&mut *self.recorder.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One client.
struct HistoryClient {
    registry: Arc<dyn Registry>,
    recorder: Arc<CallRecorder>,
    name: usize,
    random: Xorshift,
    /// The last observed entries.
    known: BTreeMap<Key, Option<Entry>>,
    values: u32,
    /// With faults: the key that it writes with each transaction, to learn the outcome of one.
    outcome_key: Option<Key>,
}

impl HistoryClient {
    async fn run(mut self, questions: usize) {
        let most = if self.outcome_key.is_some() { PATIENCE * questions } else { questions };
        for asked in 0..most {
            if asked >= questions && self.recorder.lost.load(Ordering::Relaxed) >= LOST {
                break;
            }
            match self.random.below(10) {
                0..6 => self.commit().await,
                6..9 => self.read().await,
                _ => self.list().await,
            }
        }
    }

    async fn commit(&mut self) {
        if let Some(mark) = self.outcome_key.clone() {
            return self.commit_until_answered(mark).await;
        }
        let txns: Vec<_> = (0..self.random.pick(&[1, 1, 1, 2, 3])).map(|_| self.txn()).collect();
        let begin = self.recorder.now();
        let outcomes = self.registry.commit(txns.clone()).await;
        self.recorder.record(begin, CallRecord::Commit(txns.clone(), outcomes.clone()), false);
        for (txn, outcome) in txns.iter().zip(outcomes) {
            match outcome {
                TxnOutcome::Applied(revision) => self.learn_writes(txn, revision),
                TxnOutcome::Refused(found) => self.learn(found),
                TxnOutcome::Unknown => panic!("should have been answered: {:?}", self.registry.last_error()),
            }
        }
    }

    /// Sends a transaction until it is answered.
    async fn commit_until_answered(&mut self, mark: Key) {
        let mut txn = self.txn();
        txn.guards.push(match self.known.get(&mark).and_then(Option::as_ref) {
            Some(entry) => Guard::At(mark.clone(), entry.revision),
            None => Guard::Absent(mark.clone()),
        });
        let value: Value = self.value();
        txn.writes.push(Write::Put { key: mark.clone(), value: value.clone(), owner: None });
        let (begin, mut lost) = (self.recorder.now(), false);
        let outcome = loop {
            match self.registry.commit(vec![txn.clone()]).await.remove(0) {
                TxnOutcome::Unknown => lost = true,
                known => break known,
            }
        };
        let told = match &outcome {
            TxnOutcome::Refused(found) if lost => {
                let marked = found.iter().find(|change| change.key == mark);
                let ours = marked.and_then(|it| it.entry.as_ref()).filter(|entry| entry.value == value);
                // If it was not made yet, an earlier try may still be.
                ours.map_or(TxnOutcome::Unknown, |entry| TxnOutcome::Applied(entry.revision))
            }
            known => known.clone(),
        };
        self.recorder.record(begin, CallRecord::Commit(vec![txn.clone()], vec![told]), lost);
        match outcome {
            TxnOutcome::Applied(revision) => self.learn_writes(&txn, revision),
            TxnOutcome::Refused(found) => self.learn(found),
            TxnOutcome::Unknown => {}
        }
    }

    async fn read(&mut self) {
        let keys: Vec<_> = (0..=self.random.below(3)).map(|_| self.key()).collect();
        let begin = self.recorder.now();
        match self.registry.read(keys.clone()).await {
            Ok(found) => {
                self.recorder.record(begin, CallRecord::Read(keys, found.clone()), false);
                self.learn(found);
            }
            Err(why) => assert!(self.outcome_key.is_some(), "{why}"),
        }
    }

    async fn list(&mut self) {
        let begin = self.recorder.now();
        match self.registry.list().await {
            Ok(listed) => {
                let said = CallRecord::List(listed.changes.clone(), listed.revision);
                self.recorder.record(begin, said, false);
                self.learn(listed.changes);
            }
            Err(why) => assert!(self.outcome_key.is_some(), "{why}"),
        }
    }

    fn learn(&mut self, found: Vec<Change>) {
        self.known.extend(found.into_iter().map(|change| (change.key, change.entry)));
    }

    fn learn_writes(&mut self, txn: &Txn, revision: Revision) {
        for write in &txn.writes {
            let now = match write {
                Write::Put { key, value, owner } => {
                    let before = self.known.get(key).and_then(Option::as_ref);
                    let born = before.map_or(revision, |entry| entry.born);
                    Some(Entry { value: value.clone(), revision, born, owner: *owner })
                }
                Write::Delete { .. } => None,
            };
            self.known.insert(write.key().clone(), now);
        }
    }

    fn key(&mut self) -> Key {
        key(self.random.pick(&KEYS))
    }

    /// A transaction whose guards hold about half of the time, as far as this client knows.
    fn txn(&mut self) -> Txn {
        let mut guards: Vec<_> = (0..self.random.pick(&[0, 1, 1, 2])).map(|_| self.guard()).collect();
        let mut writes: BTreeMap<Key, Write> = BTreeMap::new();
        for _ in 0..self.random.pick(&[0, 1, 1, 1, 2]) {
            let write = self.write();
            writes.insert(write.key().clone(), write);
        }
        if writes.values().all(|write| matches!(write, Write::Delete { .. })) {
            guards.extend(writes.keys().map(|key| match self.random.below(4) {
                0 => Guard::Absent(key.clone()),
                _ => Guard::Present(key.clone()),
            }));
        }
        Txn { guards, writes: writes.into_values().collect() }
    }

    fn guard(&mut self) -> Guard {
        let key = self.key();
        let known = self.known.get(&key).cloned().flatten();
        match (known, self.random.below(5)) {
            (_, 0) => Guard::Present(key),
            (Some(entry), 1 | 2) => Guard::At(key, entry.revision),
            (Some(entry), 3) => Guard::Born(key, entry.born),
            _ => Guard::Absent(key),
        }
    }

    fn write(&mut self) -> Write {
        let key = self.key();
        if self.random.below(4) == 0 {
            return Write::Delete { key };
        }
        let value = self.value();
        Write::Put { key, value, owner: None }
    }

    /// A unique value.
    fn value(&mut self) -> Value {
        self.values += 1;
        format!("{}.{}", self.name, self.values).into_bytes().into()
    }
}
