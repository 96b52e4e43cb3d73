//! The registry, asked on a thread of its own: what its client packs, sends and reads takes turns with no step of the node.

use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Batch, Change, Facts, Granted, LeaseId, Outcome, Revision, Txn};
use evenkeel_core::time::Millis;
use evenkeel_registry::{BoxFuture, Examined, Feed, Registry, RegistryError};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// A registry, and where it is asked. Whoever stops waiting for an answer ends the question.
pub(super) struct Aside {
    registry: Arc<dyn Registry>,
    thread: Handle,
}

impl Aside {
    /// Opens the registry at a URL there.
    ///
    /// # Errors
    /// As [`evenkeel_registry::open`].
    pub(super) async fn open(url: &str, thread: Handle) -> Result<Arc<dyn Registry>, RegistryError> {
        let url = url.to_owned();
        let registry = ask(&thread, async move { evenkeel_registry::open(&url).await }).await?;
        Ok(Arc::new(Self { registry, thread }))
    }
}

type Answer<T> = Result<T, RegistryError>;

/// Asks at once; the answer can be waited for anywhere.
fn ask<T: Send + 'static>(
    thread: &Handle,
    question: impl Future<Output = Answer<T>> + Send + 'static,
) -> BoxFuture<'static, Answer<T>> {
    let asked = AbortOnDropHandle::new(thread.spawn(question));
    let stopped = || Err(RegistryError::Fatal("the registry's thread has stopped: see the log".into()));
    Box::pin(async move { asked.await.unwrap_or_else(|_| stopped()) })
}

impl Registry for Aside {
    fn facts(&self) -> Facts {
        self.registry.facts()
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, Answer<Granted>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.open(ttl).await })
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, Answer<Option<Granted>>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.renew(lease).await })
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, Answer<()>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.close(lease).await })
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<Outcome>> {
        let (registry, all) = (self.registry.clone(), txns.len());
        let asked = AbortOnDropHandle::new(self.thread.spawn(async move { registry.commit(txns).await }));
        Box::pin(async move { asked.await.unwrap_or_else(|_| vec![Outcome::Unknown; all]) })
    }

    fn list(&self) -> BoxFuture<'_, Answer<Batch>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.list().await })
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, Answer<Vec<Change>>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.read(keys).await })
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Answer<Feed>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.watch(after).await })
    }

    fn examine(&self) -> BoxFuture<'_, Answer<Examined>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.examine().await })
    }

    fn trouble(&self) -> Option<Arc<RegistryError>> {
        self.registry.trouble()
    }
}
