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
        struct Ends(mpsc::Sender<()>);
        impl Drop for Ends {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let (thread, (ends, ended)) = (thread(), mpsc::channel());
        let ends = Ends(ends);
        let question = ask::<()>(thread.handle(), async move {
            let _ends = ends;
            std::future::pending().await
        });
        assert!(ended.try_recv().is_err());
        drop(question);
        assert_eq!(ended.recv_timeout(Duration::from_secs(120)), Ok(()));
    }

    /// What an engine whose code is at fault has done nobody knows.
    #[test]
    fn an_engine_that_panics_is_an_answer_too() {
        let thread = thread();
        let aside = Aside { registry: Arc::new(Broken), thread: thread.handle().clone() };
        let outcomes = thread.block_on(aside.commit(vec![Txn::default(); 2]));
        assert_eq!(outcomes, [Outcome::Unknown, Outcome::Unknown]);
        let said = thread.block_on(aside.list()).unwrap_err().to_string();
        assert!(said.contains("thread has stopped"), "{said}");
        assert!(matches!(thread.block_on(aside.renew(LeaseId(1))), Err(RegistryError::Fatal(_))));
    }

    /// A registry that is nothing but faults.
    struct Broken;

    fn fault<T: Send + 'static>() -> BoxFuture<'static, T> {
        Box::pin(async { panic!("a fault of the engine") })
    }

    impl Registry for Broken {
        fn facts(&self) -> Facts {
            panic!("a fault of the engine")
        }
        fn open(&self, _: Millis) -> BoxFuture<'_, Answer<Granted>> {
            fault()
        }
        fn renew(&self, _: LeaseId) -> BoxFuture<'_, Answer<Option<Granted>>> {
            fault()
        }
        fn close(&self, _: LeaseId) -> BoxFuture<'_, Answer<()>> {
            fault()
        }
        fn commit(&self, _: Vec<Txn>) -> BoxFuture<'_, Vec<Outcome>> {
            fault()
        }
        fn list(&self) -> BoxFuture<'_, Answer<Batch>> {
            fault()
        }
        fn read(&self, _: Vec<Key>) -> BoxFuture<'_, Answer<Vec<Change>>> {
            fault()
        }
        fn watch(&self, _: Revision) -> BoxFuture<'_, Answer<Feed>> {
            fault()
        }
        fn examine(&self) -> BoxFuture<'_, Answer<Examined>> {
            fault()
        }
        fn trouble(&self) -> Option<Arc<RegistryError>> {
            None
        }
    }
}
