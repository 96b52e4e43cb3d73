//! Reads from the history what may need a person.

use evenkeel_core::ids::Namespace;
use evenkeel_core::time::Wall;

use crate::handle::Handle;
use crate::history::{FailingShard, HistoryError, MissedFires};

impl Handle {
    /// Reads which shards' latest outcome in the history is a failure, by the names of their jobs; also those of jobs
    /// that are deleted or disabled by now.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn failing(&self) -> Result<Vec<FailingShard>, HistoryError> {
        self.shared.history.failing().await
    }

    /// Reads which jobs have fires that were due from this moment on and were skipped, the latest first; of one
    /// namespace, or of all.
    ///
    /// # Errors
    /// The history cannot be read.
    pub async fn missed(
        &self,
        since: Wall,
        namespace: Option<Namespace>,
    ) -> Result<Vec<MissedFires>, HistoryError> {
        self.shared.history.missed(since, namespace).await
    }
}
