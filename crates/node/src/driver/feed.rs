//! Listing, listening, and reading what the feed does not carry.

use std::sync::Arc;

use evenkeel_core::input::Input;
use evenkeel_core::keys::Key;
use evenkeel_registry::Registry;
use tokio::task::AbortHandle;

use super::inbox::{Happening, Sender};

/// The one feed that is listened to.
#[derive(Default)]
pub(super) struct Listening(Option<AbortHandle>);

impl Listening {
    /// Reads everything, then listens from there on. The feed before it is left.
    pub(super) fn list(&mut self, registry: &Arc<dyn Registry>, sender: &Sender) {
        let (registry, sender) = (registry.clone(), sender.clone());
        let task = tokio::spawn(async move {
            // One sender for both, so that nothing heard comes before what was listed.
            let tell = |input| sender.registry.send(Happening::Inputs(vec![input]));
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
                    feed.why().iter().for_each(|e| tracing::warn!("the registry's feed ended: {e}"));
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

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// Reads entries; what cannot be read is answered by `None`.
pub(super) fn read(keys: Vec<Key>, registry: &Arc<dyn Registry>, sender: &Sender) {
    let (registry, sender) = (registry.clone(), sender.clone());
    tokio::spawn(async move {
        let read = registry.read(keys).await;
        let read = read.inspect_err(|e| tracing::warn!("entries could not be read: {e}")).ok();
        let _ = sender.registry.send(Happening::Inputs(vec![Input::Read(read)])).await;
    });
}
