//! What the tests of faults ask of a registry, in few words.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Entry, Guard, LeaseId, Revision, Txn, TxnOutcome, Write};
use evenkeel_registry::{Feed, Registry, RegistryError, open};

/// Any engine.
pub(crate) type SharedRegistry = Arc<dyn Registry>;

pub(crate) fn key(text: &str) -> Key {
    Key::from_stored(text)
}

pub(crate) fn put(at: &str, value: &str, owner: Option<LeaseId>) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner }
}

pub(crate) fn txn(guards: Vec<Guard>, writes: Vec<Write>) -> Txn {
    Txn { guards, writes }
}

pub(crate) async fn connect(url: &str) -> SharedRegistry {
    open(url).await.unwrap()
}

/// Why it may not be connected to.
pub(crate) async fn refused(url: &str) -> String {
    match open(url).await.map(drop) {
        Err(RegistryError::Refused(why)) => why,
        other => panic!("should have been refused: {other:?}"),
    }
}

pub(crate) async fn commit(registry: &SharedRegistry, txn: Txn) -> TxnOutcome {
    registry.commit(vec![txn]).await.remove(0)
}

pub(crate) async fn made(registry: &SharedRegistry, guards: Vec<Guard>, writes: Vec<Write>) -> Revision {
    match commit(registry, txn(guards, writes)).await {
        TxnOutcome::Applied(revision) => revision,
        other => panic!("should have been made: {other:?} {:?}", registry.last_error()),
    }
}

pub(crate) async fn entry(registry: &SharedRegistry, at: &str) -> Option<Entry> {
    registry.read(vec![key(at)]).await.unwrap().remove(0).entry
}

/// The keys of the next news, or the end of the feed; either must come.
pub(crate) async fn next(feed: &mut Feed) -> Option<Vec<String>> {
    loop {
        let batch =
            tokio::time::timeout(Duration::from_secs(120), feed.next()).await.expect("news in time")?;
        if !batch.changes.is_empty() {
            return Some(batch.changes.into_iter().map(|change| change.key.as_str().to_owned()).collect());
        }
    }
}
