//! Limits concurrent searches.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// The maximum number of concurrent searches of jobs; others wait.
const SEARCHES_MAX: usize = 2;

/// Limits concurrent searches.
#[derive(Clone, Debug)]
pub(crate) struct SearchLimiter(pub(super) Arc<Semaphore>);

impl SearchLimiter {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(SEARCHES_MAX)))
    }
}
