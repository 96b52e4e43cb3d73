//! The feed of changes of the cold entries: one listener's position in the registry's order, for every engine.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::registry::{ChangeBatch, Revision};
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::{BoxFuture, RegistryError};

/// How long a listener may stay unaware that the order advanced without a change for it.
const QUIET: Duration = Duration::from_millis(100);

/// How long a log is left alone that lacks the announced revision, as when another server answers than announced it.
const REST: Duration = Duration::from_millis(10);

/// An engine's log of changes.
pub trait ChangeLog: Send + Sync + 'static {
    /// The changes of cold entries after a revision, in order; `None` when they are no longer known.
    ///
    /// Several changes of one key may be reported as the last of them: a reported entry was true at its revision.
    fn changes_after(
        self: Arc<Self>,
        after: Revision,
    ) -> BoxFuture<'static, Result<Option<ChangeBatch>, RegistryError>>;
}

/// A feed of changes. It is ordered, delivers at least once, and has no gap: where one would be, it ends.
pub struct Feed {
    log: Arc<dyn ChangeLog>,
    /// Carries each revision that can be read.
    bell: watch::Receiver<Revision>,
    /// Read up to here.
    read: Revision,
    /// Reported up to here.
    reported: Revision,
    /// Runs while `read` is ahead of `reported`. Kept here so that a dropped `next` does not restart it.
    quiet_timer: Option<Pin<Box<Sleep>>>,
    /// Until when the log is left alone.
    rest_timer: Option<Pin<Box<Sleep>>>,
    /// Why the feed ended.
    error: Option<RegistryError>,
    /// What is done to each batch before it is returned.
    map: Option<BatchMap>,
}

/// A change of batches.
type BatchMap = Box<dyn Fn(&mut ChangeBatch) + Send + Sync>;

impl Feed {
    /// Reads `log` from `after` on, woken by `bell`, and ends when the bell's sender is dropped.
    #[must_use]
    pub fn new(log: Arc<dyn ChangeLog>, bell: watch::Receiver<Revision>, after: Revision) -> Self {
        Self {
            log,
            bell,
            read: after,
            reported: after,
            quiet_timer: None,
            rest_timer: None,
            error: None,
            map: None,
        }
    }

    /// The same feed with each of its batches changed before it is returned.
    #[must_use]
    pub fn map(mut self, map: impl Fn(&mut ChangeBatch) + Send + Sync + 'static) -> Self {
        self.map = Some(Box::new(map));
        self
    }

    /// The next changes; `None` after a gap or when the engine is gone: list again.
    ///
    /// A batch without changes says how far the order has advanced without changes for listeners; it comes within
    /// about 100 ms and only when something was written. May be dropped at any point without losing changes.
    pub async fn next(&mut self) -> Option<ChangeBatch> {
        loop {
            if !self.wait_readable().await? {
                self.quiet_timer = None;
                self.reported = self.read;
                return Some(ChangeBatch { changes: Vec::new(), revision: self.read });
            }
            let mut batch = match self.log.clone().changes_after(self.read).await {
                Ok(batch) => batch?,
                Err(why) => {
                    self.error = Some(why);
                    return None;
                }
            };
            if batch.changes.is_empty() && batch.revision <= self.read {
                self.rest_timer = Some(Box::pin(tokio::time::sleep(REST)));
            }
            self.read = self.read.max(batch.revision);
            if !batch.changes.is_empty() {
                self.quiet_timer = None;
                self.reported = self.read;
                if let Some(map) = &self.map {
                    map(&mut batch);
                }
                return Some(batch);
            }
            if self.read > self.reported && self.quiet_timer.is_none() {
                self.quiet_timer = Some(Box::pin(tokio::time::sleep(QUIET)));
            }
        }
    }

    /// Why the feed ended, if that was a failure of the engine; `None` after a gap.
    #[must_use]
    pub fn error(&self) -> Option<&RegistryError> {
        self.error.as_ref()
    }

    /// Waits until there is something to read (`true`) or the quiet time is over (`false`); `None` at the end.
    async fn wait_readable(&mut self) -> Option<bool> {
        let read = self.read;
        let (bell, rest) = (&mut self.bell, &mut self.rest_timer);
        let rung = async {
            if let Some(rest) = rest {
                rest.await;
            }
            *rest = None;
            bell.wait_for(|revision| *revision > read).await.map(drop)
        };
        match &mut self.quiet_timer {
            None => rung.await.ok().map(|()| true),
            Some(quiet) => tokio::select! {
                biased;
                () = quiet => Some(false),
                rung = rung => rung.ok().map(|()| true),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A log that lacks its changes until it was asked this often, then fails.
    struct LaggingLog(AtomicU64);

    impl ChangeLog for LaggingLog {
        fn changes_after(
            self: Arc<Self>,
            after: Revision,
        ) -> BoxFuture<'static, Result<Option<ChangeBatch>, RegistryError>> {
            Box::pin(async move {
                match self.0.fetch_add(1, Ordering::Relaxed) {
                    100.. => Err(RegistryError::Unavailable("out of reach".into())),
                    _ => Ok(Some(ChangeBatch { changes: Vec::new(), revision: after })),
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_is_behind_its_bell_is_asked_from_time_to_time_and_its_failure_is_told() {
        let (bell, log) = (watch::Sender::new(Revision(9)), Arc::new(LaggingLog(AtomicU64::new(0))));
        let mut feed = Feed::new(log.clone(), bell.subscribe(), Revision(7));
        let waited = tokio::time::timeout(Duration::from_millis(505), feed.next()).await;
        assert!(waited.is_err(), "there is no news: {waited:?}");
        let asked = log.0.load(Ordering::Relaxed);
        assert!((40..=60).contains(&asked), "{asked} times in half a second");
        assert_eq!(feed.error(), None);
        assert_eq!(feed.next().await, None);
        assert_eq!(feed.error(), Some(&RegistryError::Unavailable("out of reach".into())));
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_anew_all_the_time_does_not_keep_the_log_at_rest() {
        let (bell, log) = (watch::Sender::new(Revision(9)), Arc::new(LaggingLog(AtomicU64::new(0))));
        let mut feed = Feed::new(log.clone(), bell.subscribe(), Revision(7));
        for _ in 0..500 {
            let waited = tokio::time::timeout(Duration::from_millis(1), feed.next()).await;
            assert!(waited.is_err(), "there is no news: {waited:?}");
        }
        let asked = log.0.load(Ordering::Relaxed);
        assert!((40..=60).contains(&asked), "{asked} times in half a second");
    }
}
