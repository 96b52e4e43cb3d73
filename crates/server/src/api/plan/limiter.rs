//! Limits concurrent plans.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// How many plans a node works out at once; others wait.
const AT_ONCE: usize = 1;

/// The limit of plans that a node works out at once: one of many jobs keeps a processor busy for a second.
#[derive(Clone, Debug)]
pub(crate) struct PlanLimiter(pub(super) Arc<Semaphore>);

impl PlanLimiter {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}
