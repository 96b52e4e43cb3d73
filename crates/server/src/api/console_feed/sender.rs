//! Sends the snapshots of the console to all viewers.

use std::sync::Arc;

use tokio::sync::watch;

/// The console's snapshot, computed once for all viewers, and only while there is a viewer.
#[derive(Default)]
pub(crate) struct ConsoleFeed {
    pub(super) snapshot: watch::Sender<Arc<str>>,
}
