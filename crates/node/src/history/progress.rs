//! How far the writer has come with what was given to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// The writer's progress.
#[derive(Clone)]
pub(super) struct WriteProgress {
    /// How many entries were queued.
    pub(super) put: Arc<AtomicU64>,
    /// How many of them are written or given up.
    pub(super) written: watch::Receiver<u64>,
}

impl WriteProgress {
    /// How many entries wait.
    pub(super) fn waiting(&self) -> u64 {
        self.put.load(Ordering::Relaxed).saturating_sub(*self.written.borrow())
    }

    /// Waits until everything queued so far is durable, at most this long. Returns whether it is.
    pub(super) async fn settle(&self, bound: Duration) -> bool {
        let (put, mut written) = (self.put.load(Ordering::Relaxed), self.written.clone());
        let settled = written.wait_for(|written| *written >= put);
        tokio::time::timeout(bound, settled).await.is_ok_and(|settled| settled.is_ok())
    }
}
