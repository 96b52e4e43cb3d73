//! Runs the registry client on a thread of its own: packing, sending and reading never delay a step of the node.

use std::sync::Arc;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    Change, ChangeBatch, EngineFacts, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome,
};
use evenkeel_core::time::Millis;
use evenkeel_registry::{BoxFuture, Feed, HealthReport, Registry, RegistryError};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::sealed_registry::SealedRegistry;
use crate::SealKeys;

/// A registry and the thread that runs its requests. Dropping the wait for an answer cancels the request.
pub(super) struct RegistryThread {
    registry: Arc<dyn Registry>,
    thread: Handle,
}

impl RegistryThread {
    /// Opens the registry at a URL on that thread, where seals are made and checked, too.
    ///
    /// # Errors
    /// As [`evenkeel_registry::open`].
    pub(super) async fn open(
        url: &str,
        seals: Option<SealKeys>,
        thread: Handle,
    ) -> Result<Arc<dyn Registry>, RegistryError> {
        let url = url.to_owned();
        let registry = ask(&thread, async move { evenkeel_registry::open(&url).await }).await?;
        let registry = Arc::new(SealedRegistry::new(registry, seals));
        Ok(Arc::new(Self { registry, thread }))
    }
}

type RegistryResult<T> = Result<T, RegistryError>;

/// Starts a request at once; the answer can be awaited anywhere.
fn ask<T: Send + 'static>(
    thread: &Handle,
    question: impl Future<Output = RegistryResult<T>> + Send + 'static,
) -> BoxFuture<'static, RegistryResult<T>> {
    let asked = AbortOnDropHandle::new(thread.spawn(question));
    let stopped = || Err(RegistryError::Fatal("the registry's thread has stopped: see the log".into()));
    Box::pin(async move { asked.await.unwrap_or_else(|_| stopped()) })
}

impl Registry for RegistryThread {
    fn facts(&self) -> EngineFacts {
        self.registry.facts()
    }

    fn open(&self, ttl: Millis) -> BoxFuture<'_, RegistryResult<LeaseGrant>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.open(ttl).await })
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, RegistryResult<Option<LeaseGrant>>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.renew(lease).await })
    }

    fn close(&self, lease: LeaseId) -> BoxFuture<'_, RegistryResult<()>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.close(lease).await })
    }

    fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
        let (registry, all) = (self.registry.clone(), txns.len());
        let asked = AbortOnDropHandle::new(self.thread.spawn(async move { registry.commit(txns).await }));
        Box::pin(async move { asked.await.unwrap_or_else(|_| vec![TxnOutcome::Unknown; all]) })
    }

    fn list(&self) -> BoxFuture<'_, RegistryResult<ChangeBatch>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.list().await })
    }

    fn read(&self, keys: Vec<Key>) -> BoxFuture<'_, RegistryResult<Vec<Change>>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.read(keys).await })
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, RegistryResult<Feed>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.watch(after).await })
    }

    fn check_health(&self) -> BoxFuture<'_, RegistryResult<HealthReport>> {
        let registry = self.registry.clone();
        ask(&self.thread, async move { registry.check_health().await })
    }

    fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.registry.last_error()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn thread() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    #[test]
    fn who_stops_waiting_ends_the_question() {
        struct DropSignal(mpsc::Sender<()>);
        impl Drop for DropSignal {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let (thread, (ends, ended)) = (thread(), mpsc::channel());
        let ends = DropSignal(ends);
        let question = ask::<()>(thread.handle(), async move {
            let _ends = ends;
            std::future::pending().await
        });
        assert!(ended.try_recv().is_err());
        drop(question);
        assert_eq!(ended.recv_timeout(Duration::from_secs(120)), Ok(()));
    }

    /// The effect of a request to a faulty engine is unknown.
    #[test]
    fn an_engine_that_panics_is_an_answer_too() {
        let thread = thread();
        let aside = RegistryThread { registry: Arc::new(PanickingRegistry), thread: thread.handle().clone() };
        let outcomes = thread.block_on(aside.commit(vec![Txn::default(); 2]));
        assert_eq!(outcomes, [TxnOutcome::Unknown, TxnOutcome::Unknown]);
        let said = thread.block_on(aside.list()).unwrap_err().to_string();
        assert!(said.contains("thread has stopped"), "{said}");
        assert!(matches!(thread.block_on(aside.renew(LeaseId(1))), Err(RegistryError::Fatal(_))));
    }

    /// A registry whose every call panics.
    struct PanickingRegistry;

    fn fault<T: Send + 'static>() -> BoxFuture<'static, T> {
        Box::pin(async { panic!("a fault of the engine") })
    }

    impl Registry for PanickingRegistry {
        fn facts(&self) -> EngineFacts {
            panic!("a fault of the engine")
        }
        fn open(&self, _: Millis) -> BoxFuture<'_, RegistryResult<LeaseGrant>> {
            fault()
        }
        fn renew(&self, _: LeaseId) -> BoxFuture<'_, RegistryResult<Option<LeaseGrant>>> {
            fault()
        }
        fn close(&self, _: LeaseId) -> BoxFuture<'_, RegistryResult<()>> {
            fault()
        }
        fn commit(&self, _: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
            fault()
        }
        fn list(&self) -> BoxFuture<'_, RegistryResult<ChangeBatch>> {
            fault()
        }
        fn read(&self, _: Vec<Key>) -> BoxFuture<'_, RegistryResult<Vec<Change>>> {
            fault()
        }
        fn watch(&self, _: Revision) -> BoxFuture<'_, RegistryResult<Feed>> {
            fault()
        }
        fn check_health(&self) -> BoxFuture<'_, RegistryResult<HealthReport>> {
            fault()
        }
        fn last_error(&self) -> Option<Arc<RegistryError>> {
            None
        }
    }
}
