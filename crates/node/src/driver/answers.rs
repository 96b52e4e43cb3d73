//! The callers that wait for an answer of the node.

use evenkeel_core::ids::LockName;
use evenkeel_core::input::Answer;
use tokio::sync::oneshot;

/// A caller that waits for an answer, and the lock that it would hold.
pub(super) struct PendingAnswer {
    pub(super) answer: oneshot::Sender<Answer>,
    pub(super) lock: Option<LockName>,
}
