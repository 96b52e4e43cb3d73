//! The stage of a case, with the short forms of keys, guards and writes that cases use.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, Entry, Guard, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome, Write,
};
use evenkeel_core::time::Millis;

use super::timing::{StageTime, TimeSource};
use crate::{BoxFuture, Feed, Registry, RegistryError};

/// One registry of an engine, for any number of connections. Dropped when its case is over.
pub trait Engine: Send + Sync + 'static {
    /// Connects to the registry, as another process would.
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>>;

    /// The registry's URL. In the memory of one process, any of that engine.
    fn url(&self) -> String;

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

    fn url(&self) -> String {
        self.as_ref().map_or_else(String::new, Engine::url)
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
    pub(super) time: StageTime,
    pub(super) engine: Box<dyn Engine>,
}

/// How long a case waits for an expected event: long enough for a busy machine, short enough for a person.
pub(super) const WAIT: Duration = Duration::from_secs(60);

/// A usual term.
pub(super) const TTL: Millis = Millis::secs(10);

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
pub(super) async fn next_batch(feed: &mut Feed) -> ChangeBatch {
    let next = tokio::time::timeout(WAIT, feed.next()).await.expect("news in time");
    next.expect("news without a gap")
}

/// The next batch that has changes, which must come.
pub(super) async fn next_changes(feed: &mut Feed) -> ChangeBatch {
    loop {
        let batch = next_batch(feed).await;
        if !batch.changes.is_empty() {
            return batch;
        }
    }
}

/// Every change up to a revision, which must come.
pub(super) async fn changes_until(feed: &mut Feed, revision: Revision) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let batch = next_batch(feed).await;
        changes.extend(batch.changes);
        if batch.revision >= revision {
            return changes;
        }
    }
}

pub(super) fn key(text: &str) -> Key {
    Key::from_stored(text)
}

pub(super) fn txn(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Txn {
    Txn { guards: guards.into(), writes: writes.into() }
}

pub(super) fn put(at: &str, value: &str) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner: None }
}

pub(super) fn put_by(lease: LeaseId, at: &str, value: &str) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner: Some(lease) }
}

pub(super) fn delete(at: &str) -> Write {
    Write::Delete { key: key(at) }
}

pub(super) fn absent(at: &str) -> Guard {
    Guard::Absent(key(at))
}

pub(super) fn present(at: &str) -> Guard {
    Guard::Present(key(at))
}

pub(super) fn at(key_text: &str, revision: Revision) -> Guard {
    Guard::At(key(key_text), revision)
}

pub(super) fn born(key_text: &str, revision: Revision) -> Guard {
    Guard::Born(key(key_text), revision)
}
