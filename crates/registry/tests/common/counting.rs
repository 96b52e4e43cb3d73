//! Somebody who counts up while connections are cut: each step counts once, however often it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::registry::{Guard, TxnOutcome};
use evenkeel_registry::conformance::linear;
use tokio::task::JoinHandle;

use crate::proxy::{Proxy, ProxyMode};
use crate::requests::{SharedRegistry, commit, key, made, put, txn};
use crate::until::until;

/// Somebody who counts.
pub(crate) struct CountingClient {
    over: Arc<AtomicBool>,
    added: JoinHandle<u32>,
}

impl CountingClient {
    /// Counts from nothing, on through `far`, until the storm is over and so many steps were made.
    pub(crate) async fn start(near: &SharedRegistry, far: &SharedRegistry, least: u32) -> Self {
        made(near, vec![], vec![put("count", "0", None)]).await;
        let over = Arc::new(AtomicBool::new(false));
        let added = tokio::spawn(count(far.clone(), least, over.clone()));
        Self { over, added }
    }

    /// The storm is over: the count is that of the steps.
    ///
    /// # Panics
    /// Where one was lost or made twice.
    pub(crate) async fn check(self, near: &SharedRegistry) {
        self.over.store(true, Ordering::Relaxed);
        let added = self.added.await.unwrap();
        // A connection that was cut last may not be back yet.
        let read = until("the count", || async { near.read(vec![key("count")]).await.ok() }).await;
        let count = read[0].entry.clone().unwrap();
        assert_eq!(String::from_utf8_lossy(&count.value), added.to_string());
    }
}

async fn count(registry: SharedRegistry, least: u32, over: Arc<AtomicBool>) -> u32 {
    let mut added = 0;
    while added < least || !over.load(Ordering::Relaxed) {
        let Ok(found) = registry.read(vec![key("count")]).await else { continue };
        let found = found[0].entry.clone().unwrap();
        let next = String::from_utf8_lossy(&found.value).parse::<u32>().unwrap() + 1;
        let step =
            txn(vec![Guard::At(key("count"), found.revision)], vec![put("count", &next.to_string(), None)]);
        // Sent until it is answered: made now or before, it counts once.
        while let TxnOutcome::Unknown = commit(&registry, step.clone()).await {}
        added += 1;
    }
    added
}

/// Histories of clients of which half are behind this proxy, which swallows what comes and cuts, are as if nothing had been.
///
/// # Panics
/// Where they are not, or where no answer was lost.
pub(crate) async fn histories_hold(
    (near, far): (&[SharedRegistry; 2], &[SharedRegistry; 2]),
    (proxy, ways): (&Proxy, [ProxyMode; 2]),
    questions: usize,
) {
    let clients: Vec<_> = near.iter().chain(far).cycle().take(8).cloned().collect();
    let mut ways = ways.into_iter().cycle();
    linear::histories_under_faults(&clients, questions, async || {
        proxy.set(ways.next().unwrap());
        tokio::time::sleep(Duration::from_millis(30)).await;
        proxy.set(ProxyMode::Open);
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
    .await;
}
