//! Histories: several clients at once, whose questions and answers are noted and judged afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Entry, Guard, Outcome, Revision, Txn, Write};

use super::history::{self, Call, Said};
use super::{Dice, Stage, key};
use crate::Registry;

/// Few enough that they meet, cold and hot.
const KEYS: [&str; 4] = ["job/a/place", "job/b/place", "lane/a/claim", "lock/l"];

/// How many connections, and how many clients share each.
const CONNECTIONS: usize = 4;
const EACH: usize = 2;

/// How many questions a history has.
const QUESTIONS: usize = 400;

/// How many histories a case plays, unless `EVENKEEL_HISTORIES` says another number.
const HISTORIES: u32 = 3;

fn histories() -> u32 {
    std::env::var("EVENKEEL_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES)
}

/// How many times as long as usual a case may take.
pub(super) fn times() -> u32 {
    histories().div_ceil(HISTORIES)
}

/// proves: S1-05, S1-09, I46
pub async fn histories_can_have_happened_one_after_the_other(stage: Stage) {
    let mut connections = vec![stage.registry.clone()];
    for _ in 1..CONNECTIONS {
        connections.push(stage.another().await);
    }
    let clients: Vec<_> = (0..CONNECTIONS * EACH).map(|nth| connections[nth % CONNECTIONS].clone()).collect();
    for nth in 0..histories() {
        clear(&stage).await;
        let calls = play(&clients, nth.into()).await;
        if let Err(why) = history::check(&calls) {
            let told: Vec<_> = calls.iter().map(|call| format!("{call:?}")).collect();
            panic!("history {nth} cannot have been: {why}\n{}", told.join("\n"));
        }
    }
}

async fn clear(stage: &Stage) {
    stage.made([], KEYS.map(|at| Write::Delete { key: key(at) })).await;
}

/// What all clients of a history share.
#[derive(Default)]
struct Notes {
    /// Counts beginnings and ends: whatever the clocks say, what is counted later was later.
    moment: AtomicU64,
    calls: Mutex<Vec<Call>>,
}

impl Notes {
    fn now(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, begin: u64, said: Said) {
        let call = Call { begin, end: self.now(), said };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}

/// Plays one history, and looks at what it left.
async fn play(clients: &[Arc<dyn Registry>], seed: u64) -> Vec<Call> {
    let notes = Arc::<Notes>::default();
    let players: Vec<_> = clients
        .iter()
        .enumerate()
        .map(|(name, registry)| {
            let dice = Dice(0x5eed_0001 + (seed << 16) + name as u64);
            let player = Player {
                registry: registry.clone(),
                notes: notes.clone(),
                name,
                dice,
                known: BTreeMap::new(),
                values: 0,
            };
            tokio::spawn(player.play(QUESTIONS / clients.len()))
        })
        .collect();
    for player in players {
        player.await.expect("a player ends");
    }
    for registry in clients {
        let begin = notes.now();
        let found = registry.read(KEYS.map(key).to_vec()).await.expect("the entries");
        notes.note(begin, Said::Read(KEYS.map(key).to_vec(), found));
    }
    std::mem::take(&mut *notes.calls.lock().unwrap_or_else(PoisonError::into_inner))
}

/// One client.
struct Player {
    registry: Arc<dyn Registry>,
    notes: Arc<Notes>,
    name: usize,
    dice: Dice,
    /// What it saw last.
    known: BTreeMap<Key, Option<Entry>>,
    values: u32,
}

impl Player {
    async fn play(mut self, questions: usize) {
        for _ in 0..questions {
            match self.dice.below(10) {
                0..6 => self.commit().await,
                6..9 => self.read().await,
                _ => self.list().await,
            }
        }
    }

    async fn commit(&mut self) {
        let txns: Vec<_> = (0..self.dice.pick(&[1, 1, 1, 2, 3])).map(|_| self.txn()).collect();
        let begin = self.notes.now();
        let outcomes = self.registry.commit(txns.clone()).await;
        self.notes.note(begin, Said::Commit(txns.clone(), outcomes.clone()));
        for (txn, outcome) in txns.iter().zip(outcomes) {
            match outcome {
                Outcome::Applied(revision) => self.learn_writes(txn, revision),
                Outcome::Refused(found) => self.learn(found),
                Outcome::Unknown => panic!("should have been answered: {:?}", self.registry.trouble()),
            }
        }
    }

    async fn read(&mut self) {
        let keys: Vec<_> = (0..=self.dice.below(3)).map(|_| self.key()).collect();
        let begin = self.notes.now();
        let found = self.registry.read(keys.clone()).await.expect("the entries");
        self.notes.note(begin, Said::Read(keys, found.clone()));
        self.learn(found);
    }

    async fn list(&mut self) {
        let begin = self.notes.now();
        let listed = self.registry.list().await.expect("the listing");
        self.notes.note(begin, Said::List(listed.changes.clone(), listed.revision));
        self.learn(listed.changes);
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
        key(self.dice.pick(&KEYS))
    }

    /// One whose guards hold as often as not, as far as this client knows.
    fn txn(&mut self) -> Txn {
        let mut guards: Vec<_> = (0..self.dice.pick(&[0, 1, 1, 2])).map(|_| self.guard()).collect();
        let mut writes: BTreeMap<Key, Write> = BTreeMap::new();
        for _ in 0..self.dice.pick(&[0, 1, 1, 1, 2]) {
            let write = self.write();
            writes.insert(write.key().clone(), write);
        }
        if writes.values().all(|write| matches!(write, Write::Delete { .. })) {
            guards.extend(writes.keys().map(|key| match self.dice.below(4) {
                0 => Guard::Absent(key.clone()),
                _ => Guard::Present(key.clone()),
            }));
        }
        Txn { guards, writes: writes.into_values().collect() }
    }

    fn guard(&mut self) -> Guard {
        let key = self.key();
        let known = self.known.get(&key).cloned().flatten();
        match (known, self.dice.below(5)) {
            (_, 0) => Guard::Present(key),
            (Some(entry), 1 | 2) => Guard::At(key, entry.revision),
            (Some(entry), 3) => Guard::Born(key, entry.born),
            _ => Guard::Absent(key),
        }
    }

    fn write(&mut self) -> Write {
        let key = self.key();
        if self.dice.below(4) == 0 {
            return Write::Delete { key };
        }
        self.values += 1;
        let value = format!("{}.{}", self.name, self.values).into_bytes().into();
        Write::Put { key, value, owner: None }
    }
}
