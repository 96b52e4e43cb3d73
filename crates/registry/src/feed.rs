//! News of the cold entries: one listener's place in the registry's order, whatever engine it listens to.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::registry::{Batch, Revision};
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::{BoxFuture, RegistryError};

/// How long a listener may stay unaware that the order went on without any news for it.
const QUIET: Duration = Duration::from_millis(100);

/// Where an engine remembers what changed.
pub trait Log: Send + Sync + 'static {
    /// What changed among the cold entries after a revision, in order; `None` when that is no longer known.
    ///
    /// Several changes of one key may be told as the last of them: what is told was true at the revision it bears.
    fn changes_after(
        self: Arc<Self>,
        after: Revision,
    ) -> BoxFuture<'static, Result<Option<Batch>, RegistryError>>;
}

/// A listener. Ordered, at least once, and without a gap: where one would be, it ends.
pub struct Feed {
    log: Arc<dyn Log>,
    /// Rings with each revision that is there to be read.
    bell: watch::Receiver<Revision>,
    /// Read up to here.
    read: Revision,
    /// Told up to here.
    told: Revision,
    /// Runs while `read` is ahead of `told`. Kept here so that a dropped `next` does not start it anew.
    quiet: Option<Pin<Box<Sleep>>>,
}

impl Feed {
    /// Listens to `log` from `after` on, woken by `bell`, and ends when the bell's owner is gone.
    #[must_use]
    pub fn new(log: Arc<dyn Log>, bell: watch::Receiver<Revision>, after: Revision) -> Self {
        Self { log, bell, read: after, told: after, quiet: None }
    }

    /// The next news; `None` after a gap or when the engine is gone: list again.
    ///
    /// A batch without changes says how far the order has gone when nothing in it was for listeners; it comes within
    /// about 100 ms and only when something was written. May be dropped at any point without losing news.
    pub async fn next(&mut self) -> Option<Batch> {
        loop {
            if !self.woken().await? {
                self.quiet = None;
                self.told = self.read;
                return Some(Batch { changes: Vec::new(), revision: self.read });
            }
            let batch = self.log.clone().changes_after(self.read).await.ok()??;
            self.read = self.read.max(batch.revision);
            if !batch.changes.is_empty() {
                self.quiet = None;
                self.told = self.read;
                return Some(batch);
            }
            if self.read > self.told && self.quiet.is_none() {
                self.quiet = Some(Box::pin(tokio::time::sleep(QUIET)));
            }
        }
    }

    /// Waits until there is something to read (`true`) or the quiet has lasted (`false`); `None` at the end.
    async fn woken(&mut self) -> Option<bool> {
        let read = self.read;
        let rung = self.bell.wait_for(|revision| *revision > read);
        match &mut self.quiet {
            None => rung.await.ok().map(|_| true),
            Some(quiet) => tokio::select! {
                biased;
                () = quiet => Some(false),
                rung = rung => rung.ok().map(|_| true),
            },
        }
    }
}
