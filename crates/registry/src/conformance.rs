//! The suite that every engine passes: one `#[test]` a case, about twenty lines an engine.
//!
//! ```text
//! conformance!(|clock| MyEngine::new(clock));
//! conformance!(server: |_| ServerEngine::find("ENGINE", REAL));
//! ```
//! With a [`ManualClock`] no case sleeps through a lease, and every bound is met to the millisecond. A server has its
//! own time, so there a case waits until a lease is seen to be over, and never fails because the machine is slow: if a
//! lease ended rightly while the machine stalled, the case starts again with a longer term, and so does one that fails
//! after the engine timed out a request. How soon a lease must be over is measured by a case of its own, which only the
//! soak runs. Cases compare revisions only with each other.

#[doc(hidden)]
pub mod differential;
#[doc(hidden)]
pub mod feeds;
#[doc(hidden)]
pub mod guards;
#[doc(hidden)]
pub mod leases;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod linear;
mod linearizability;
mod list;
#[doc(hidden)]
pub mod races;
#[doc(hidden)]
pub mod reads;
mod server;
mod timeouts;
mod timing;
#[doc(hidden)]
pub mod transactions;
#[doc(hidden)]
pub mod writes;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, Entry, Guard, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome, Write,
};
use evenkeel_core::time::Millis;

use crate::clock::ManualClock;
use crate::{BoxFuture, Feed, Registry, RegistryError};
use timeouts::{TimeoutLog, TimeoutMonitor};
use timing::{ATTEMPTS, StageTime};

pub use server::{ServerEngine, server_url, with_fresh_namespace};
pub use timing::{CaseResult, MachineStall, ServerTiming, TimeSource, TimedLease};

/// One registry of an engine, for any number of connections. Dropped when its case is over.
pub trait Engine: Send + Sync + 'static {
    /// Connects to the registry, as another process would.
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>>;

    /// Where its time comes from.
    fn time_source(&self) -> TimeSource {
        TimeSource::Manual
    }

    /// Whether the engine can be tested here; if not, it has printed why.
    fn is_available(&self) -> bool {
        true
    }
}

impl<E: Engine> Engine for Option<E> {
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
        match self {
            Some(engine) => engine.connect(),
            None => {
                Box::pin(async { Err(RegistryError::Unavailable("there is no such engine here".into())) })
            }
        }
    }

    fn time_source(&self) -> TimeSource {
        self.as_ref().map_or(TimeSource::Manual, Engine::time_source)
    }

    fn is_available(&self) -> bool {
        self.as_ref().is_some_and(Engine::is_available)
    }
}

/// The stage of a case: a registry that began empty.
pub struct Stage {
    /// A connection to the registry.
    pub registry: Arc<dyn Registry>,
    time: StageTime,
    engine: Box<dyn Engine>,
}

/// How long a case waits for an expected event: long enough for a busy machine, short enough for a person.
const WAIT: Duration = Duration::from_secs(60);

/// A usual term.
const TTL: Millis = Millis::secs(10);

/// Runs one case. Called by [`conformance!`](crate::conformance!).
///
/// # Panics
/// When the engine fails the case.
pub fn run<E: Engine, F: Future<Output: CaseResult>>(
    engine: impl Fn(Arc<ManualClock>) -> E,
    case: impl Fn(Stage) -> F,
) {
    for attempt in 0..ATTEMPTS {
        let notes = TimeoutLog::start();
        let played = AssertUnwindSafe(|| run_attempt(attempt, &notes, &engine, &case));
        let played = catch_unwind(played);
        assert!(!notes.too_soon(), "the engine is unavailable, and it cannot have waited for long");
        match played {
            Ok(stalled) if !stalled => return,
            Err(why) if !notes.gave_up() => resume_unwind(why),
            _ => eprintln!("this machine stood still for too long: the case begins again"),
        }
    }
    panic!(
        "this machine stood still for too long in each of {ATTEMPTS} attempts, the last one with a term 16 times as long"
    );
}

/// Runs a case for the `nth` time, counted from 0. Returns whether it has to begin again.
fn run_attempt<E: Engine, F: Future<Output: CaseResult>>(
    nth: u32,
    notes: &TimeoutLog,
    engine: impl Fn(Arc<ManualClock>) -> E,
    case: impl Fn(Stage) -> F,
) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a test may start threads").block_on(async {
        let clock = Arc::new(ManualClock::default());
        let engine = Box::new(TimeoutMonitor { inner: engine(clock.clone()), log: notes.clone() });
        if !engine.is_available() {
            return false;
        }
        let time = match engine.time_source() {
            TimeSource::Manual => StageTime::Manual(clock),
            TimeSource::Server(real) => StageTime::Server(real.for_attempt(nth)),
        };
        let registry = engine.connect().await.expect("the engine connects");
        let longest = WAIT * 4 * linear::time_factor();
        let verdict = tokio::time::timeout(longest, case(Stage { registry, time, engine })).await;
        verdict.expect("the case ends").is_stalled()
    })
}

impl Stage {
    /// Another connection to the same registry.
    pub async fn connect_again(&self) -> Arc<dyn Registry> {
        self.engine.connect().await.expect("the engine connects again")
    }

    /// Closes all connections, and connects again.
    pub async fn restart(self) -> Self {
        let Self { registry, time, engine } = self;
        drop(registry);
        let registry = engine.connect().await.expect("the engine connects after a restart");
        Self { registry, time, engine }
    }

    /// Sends one transaction.
    pub async fn commit(&self, txn: Txn) -> TxnOutcome {
        let mut outcomes = self.registry.commit(vec![txn]).await;
        assert_eq!(outcomes.len(), 1, "one answer a transaction");
        outcomes.remove(0)
    }

    /// Sends a transaction that must be made.
    pub async fn commit_applied(
        &self,
        guards: impl Into<Vec<Guard>>,
        writes: impl Into<Vec<Write>>,
    ) -> Revision {
        match self.commit(txn(guards, writes)).await {
            TxnOutcome::Applied(revision) => revision,
            other => panic!("should have been made: {other:?}"),
        }
    }

    /// Makes many writes, in as few transactions as the engine takes.
    pub async fn fill(&self, writes: Vec<Write>) {
        for part in writes.chunks(self.registry.facts().operations_max) {
            self.commit_applied([], part).await;
        }
    }

    /// Sends a transaction that must be refused, and returns the entries of the answer.
    pub async fn commit_refused(
        &self,
        guards: impl Into<Vec<Guard>>,
        writes: impl Into<Vec<Write>>,
    ) -> Vec<Change> {
        match self.commit(txn(guards, writes)).await {
            TxnOutcome::Refused(found) => found,
            other => panic!("should have been refused: {other:?}"),
        }
    }

    /// Whether guards hold, by a transaction that writes nothing.
    pub async fn holds(&self, guards: impl Into<Vec<Guard>>) -> bool {
        match self.commit(txn(guards, [])).await {
            TxnOutcome::Applied(_) => true,
            TxnOutcome::Refused(_) => false,
            TxnOutcome::Unknown => panic!("should have been answered"),
        }
    }

    /// Opens a lease whose end the case does not wait for.
    pub async fn lease(&self) -> LeaseId {
        self.open(self.long_ttl()).await.lease
    }

    /// Opens a lease.
    pub async fn open(&self, ttl: Millis) -> LeaseGrant {
        self.registry.open(ttl).await.expect("a lease")
    }

    /// Renews a lease.
    pub async fn renew(&self, lease: LeaseId) -> Option<LeaseGrant> {
        self.registry.renew(lease).await.expect("an answer to the renewal")
    }

    /// Ends a lease.
    pub async fn close(&self, lease: LeaseId) {
        self.registry.close(lease).await.expect("the lease is closed");
    }

    /// The entry at a key.
    pub async fn entry(&self, at: &str) -> Option<Entry> {
        self.read([at]).await.remove(0).entry
    }

    /// The value at a key as text.
    pub async fn value(&self, at: &str) -> Option<String> {
        self.entry(at).await.map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
    }

    /// Reads some keys.
    pub async fn read<const N: usize>(&self, keys: [&str; N]) -> Vec<Change> {
        self.registry.read(keys.map(key).to_vec()).await.expect("the entries")
    }

    /// Lists.
    pub async fn list(&self) -> ChangeBatch {
        self.registry.list().await.expect("the listing")
    }

    /// Opens a feed.
    pub async fn watch(&self, after: Revision) -> Feed {
        self.registry.watch(after).await.expect("the feed")
    }
}

/// The next batch, which must come.
async fn next_batch(feed: &mut Feed) -> ChangeBatch {
    let next = tokio::time::timeout(WAIT, feed.next()).await.expect("news in time");
    next.expect("news without a gap")
}

/// The next batch that has changes, which must come.
async fn next_changes(feed: &mut Feed) -> ChangeBatch {
    loop {
        let batch = next_batch(feed).await;
        if !batch.changes.is_empty() {
            return batch;
        }
    }
}

/// Every change up to a revision, which must come.
async fn changes_until(feed: &mut Feed, revision: Revision) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let batch = next_batch(feed).await;
        changes.extend(batch.changes);
        if batch.revision >= revision {
            return changes;
        }
    }
}

fn key(text: &str) -> Key {
    Key::from_stored(text)
}

fn txn(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Txn {
    Txn { guards: guards.into(), writes: writes.into() }
}

fn put(at: &str, value: &str) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner: None }
}

fn put_by(lease: LeaseId, at: &str, value: &str) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner: Some(lease) }
}

fn delete(at: &str) -> Write {
    Write::Delete { key: key(at) }
}

fn absent(at: &str) -> Guard {
    Guard::Absent(key(at))
}

fn present(at: &str) -> Guard {
    Guard::Present(key(at))
}

fn at(key_text: &str, revision: Revision) -> Guard {
    Guard::At(key(key_text), revision)
}

fn born(key_text: &str, revision: Revision) -> Guard {
    Guard::Born(key(key_text), revision)
}

/// A reproducible random generator (xorshift).
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let bound = u64::try_from(from.len()).expect("a length is a number");
        from[usize::try_from(self.below(bound)).expect("below a length")]
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{Engine, MachineStall, Stage, run};
    use crate::memory::Memory;
    use crate::{BoxFuture, Registry, RegistryError};

    struct InProcessEngine(Arc<Memory>);

    impl Engine for InProcessEngine {
        fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>> {
            Box::pin(async { Ok(self.0.clone() as Arc<dyn Registry>) })
        }
    }

    #[test]
    fn a_case_begins_again_where_the_machine_stood_still_and_not_where_it_fails() {
        let memory = |clock: Arc<crate::clock::ManualClock>| InProcessEngine(Arc::new(Memory::new(clock)));
        let attempts = AtomicU32::new(0);
        let begun = || attempts.fetch_add(1, Ordering::Relaxed);
        run(memory, async |_: Stage| if begun() < 2 { Err(MachineStall) } else { Ok(()) });
        assert_eq!(attempts.swap(0, Ordering::Relaxed), 3);
        let fails = || run(memory, async |_: Stage| assert_eq!(begun(), 7, "it fails"));
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
        assert_eq!(attempts.swap(0, Ordering::Relaxed), 1);
        let stalls = || run(memory, async |_: Stage| if begun() < 100 { Err(MachineStall) } else { Ok(()) });
        assert!(catch_unwind(AssertUnwindSafe(stalls)).is_err());
        assert_eq!(attempts.load(Ordering::Relaxed), super::ATTEMPTS);
    }

    /// A case that is not on the list proves nothing.
    #[test]
    fn every_case_is_on_the_list() {
        let list = include_str!("conformance/list.rs");
        for subject in [
            include_str!("conformance/differential.rs"),
            include_str!("conformance/feeds.rs"),
            include_str!("conformance/guards.rs"),
            include_str!("conformance/leases.rs"),
            include_str!("conformance/limits.rs"),
            include_str!("conformance/linear.rs"),
            include_str!("conformance/races.rs"),
            include_str!("conformance/reads.rs"),
            include_str!("conformance/transactions.rs"),
            include_str!("conformance/writes.rs"),
        ] {
            let cases =
                subject.split("\npub async fn ").skip(1).filter_map(|text| text.split_once("(stage: Stage)"));
            for (case, _) in cases.filter(|(case, _)| !case.contains('(')) {
                let is_listed = list.lines().any(|line| {
                    let entry = line.strip_prefix("                ").and_then(|line| line.strip_suffix(','));
                    entry.is_some_and(|entry| entry.split(": ").next() == Some(case))
                });
                assert!(is_listed, "{case} is not in conformance!");
            }
        }
    }

    /// The page about engines has the number of cases of each subject, and how many of these only the soak runs.
    #[test]
    fn the_cases_are_counted_in_the_docs() {
        let (list, page) = (include_str!("conformance/list.rs"), include_str!("../../../docs/engines.md"));
        let (mut all, mut in_gate) = (0, 0);
        for block in list.split("            ]\n").filter(|block| block.contains(": [\n")) {
            let (head, cases) = block.rsplit_once(": [\n").unwrap();
            let (subject, count) = (head.rsplit(' ').next().unwrap(), cases.lines().count());
            let marked =
                |mark: &str| cases.lines().filter(|line| line.ends_with(&format!(": {mark},"))).count();
            let soak = marked("waits") + marked("server_only");
            let row = format!("\n| {subject} | {count} | {soak} | ");
            assert!(page.contains(&row), "{subject} has {count} cases, {soak} of them in the soak");
            let marks: usize =
                ["waits_in_gate", "waits", "clock_only", "server_only"].into_iter().map(marked).sum();
            assert_eq!(marks, cases.matches(": ").count(), "{subject} has a mark of no known kind");
            all += count;
            in_gate += marked("waits_in_gate");
        }
        assert!(all >= 120, "{all} cases");
        assert_eq!(in_gate, 6, "the gate waits for time on a server in so many cases");
    }
}
