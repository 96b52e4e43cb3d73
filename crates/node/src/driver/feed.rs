//! Lists the registry, watches its feed, and reads entries that the feed does not carry.

use std::sync::Arc;

use evenkeel_core::input::Input;
use evenkeel_core::keys::Key;
use evenkeel_registry::Registry;
use tokio::task::AbortHandle;

use super::inbox::{DriverEvent, EventSender};

/// The one feed that is watched.
#[derive(Default)]
pub(super) struct FeedListener(Option<AbortHandle>);

impl FeedListener {
    /// Lists everything, then watches from there on. Stops watching the earlier feed.
    pub(super) fn list(&mut self, registry: &Arc<dyn Registry>, sender: &EventSender) {
        let (registry, sender) = (registry.clone(), sender.clone());
        let task = tokio::spawn(async move {
            // One sender for both, so that no change arrives before the list.
            let tell = |input| sender.registry.send(DriverEvent::Inputs(vec![input]));
            let listed = registry.list().await;
            let batch = match listed {
                Ok(batch) => batch,
                Err(e) => {
                    tracing::warn!("the registry could not be listed: {e}");
                    let _ = tell(Input::Listed(None)).await;
                    return;
                }
            };
            let revision = batch.revision;
            if tell(Input::Listed(Some(batch))).await.is_err() {
                return;
            }
            match registry.watch(revision).await {
                Ok(mut feed) => {
                    while let Some(batch) = feed.next().await {
                        if tell(Input::Changed(batch)).await.is_err() {
                            return;
                        }
                    }
                    feed.error().iter().for_each(|e| tracing::warn!("the registry's feed ended: {e}"));
                }
                Err(e) => tracing::warn!("the registry's feed could not be opened: {e}"),
            }
            let _ = tell(Input::Gap).await;
        });
        if let Some(before) = self.0.replace(task.abort_handle()) {
            before.abort();
        }
    }
}

impl Drop for FeedListener {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// Reads entries. An entry that cannot be read gives `None`.
pub(super) fn read(keys: Vec<Key>, registry: &Arc<dyn Registry>, sender: &EventSender) {
    let (registry, sender) = (registry.clone(), sender.clone());
    tokio::spawn(async move {
        let read = registry.read(keys).await;
        let read = read.inspect_err(|e| tracing::warn!("entries could not be read: {e}")).ok();
        let _ = sender.registry.send(DriverEvent::Inputs(vec![Input::Read(read)])).await;
    });
}

#[cfg(test)]
mod tests {
    use evenkeel_core::registry::{
        Change, ChangeBatch, EngineFacts, LeaseGrant, LeaseId, Revision, Txn, TxnOutcome,
    };
    use evenkeel_core::time::Millis;
    use evenkeel_registry::{BoxFuture, Feed, RegistryError};
    use tokio::sync::mpsc;

    use super::*;

    /// A registry whose feed cannot be opened, and whose list may or may not work.
    struct MuteRegistry {
        lists: bool,
    }

    type RegistryFuture<'a, T> = BoxFuture<'a, Result<T, RegistryError>>;

    fn away<T: Send + 'static>() -> RegistryFuture<'static, T> {
        Box::pin(async { Err(RegistryError::Unavailable("the connection is lost".into())) })
    }

    impl Registry for MuteRegistry {
        fn facts(&self) -> EngineFacts {
            unreachable!("a feed asks for no facts")
        }
        fn open(&self, _: Millis) -> RegistryFuture<'_, LeaseGrant> {
            away()
        }
        fn renew(&self, _: LeaseId) -> RegistryFuture<'_, Option<LeaseGrant>> {
            away()
        }
        fn close(&self, _: LeaseId) -> RegistryFuture<'_, ()> {
            away()
        }
        fn commit(&self, txns: Vec<Txn>) -> BoxFuture<'_, Vec<TxnOutcome>> {
            Box::pin(async move { vec![TxnOutcome::Unknown; txns.len()] })
        }
        fn list(&self) -> RegistryFuture<'_, ChangeBatch> {
            if !self.lists {
                return away();
            }
            Box::pin(async { Ok(ChangeBatch { changes: Vec::new(), revision: Revision(7) }) })
        }
        fn read(&self, _: Vec<Key>) -> RegistryFuture<'_, Vec<Change>> {
            away()
        }
        fn watch(&self, _: Revision) -> RegistryFuture<'_, Feed> {
            away()
        }
    }

    /// The inputs of a node that lists this registry and then watches it.
    async fn inputs(lists: bool) -> Vec<Input> {
        let ((lease, _), (sender, mut inbox)) = (mpsc::channel(1), mpsc::channel(1));
        let registry: Arc<dyn Registry> = Arc::new(MuteRegistry { lists });
        let mut listening = FeedListener::default();
        listening.list(&registry, &EventSender { metrics: Arc::default(), lease, registry: sender });
        let mut heard = Vec::new();
        while let Some(DriverEvent::Inputs(inputs)) = inbox.recv().await {
            heard.extend(inputs);
        }
        heard
    }

    /// The node lists again after either failure.
    ///
    /// proves: S4-21
    #[tokio::test]
    async fn a_feed_that_cannot_be_opened_is_a_gap_and_a_registry_that_cannot_be_listed_says_so() {
        let listed = inputs(true).await;
        assert!(matches!(&listed[..], [Input::Listed(Some(_)), Input::Gap]), "{listed:?}");
        let failed = inputs(false).await;
        assert!(matches!(&failed[..], [Input::Listed(None)]), "{failed:?}");
    }
}
