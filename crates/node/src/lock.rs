//! A lock of the cluster, held by an embedder.

use evenkeel_core::ids::{LockName, Token};
use evenkeel_core::input::{Answer, Command, Refusal};

use crate::handle::Handle;
use crate::request::HandleRequest;

/// A held lock. Dropping it releases it, once for each time it was taken (`S1-09`).
pub struct LockGuard {
    handle: Handle,
    name: LockName,
    token: Token,
    depth: u32,
}

impl LockGuard {
    pub(crate) async fn take(handle: Handle, name: LockName) -> Result<Self, String> {
        loop {
            // The node waits for the holder, for a while.
            match handle.ask(Command::Lock(name.clone())).await {
                Answer::Locked(token, depth) => return Ok(Self { handle, name, token, depth }),
                Answer::Refused(Refusal::Conflict, _) => {}
                Answer::Refused(_, why) => return Err(why),
                other => return Err(format!("lock {name} was answered by {other:?}")),
            }
        }
    }

    /// The fencing token: it rises with each new holder, and stays the same while one holder takes the lock again.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// How many times this node held the lock when this guard was made.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let unlock = Command::Unlock(self.name.clone());
        let (answer, _) = tokio::sync::oneshot::channel();
        if let Err(tokio::sync::mpsc::error::TrySendError::Full(order)) =
            self.handle.shared.requests.try_send(HandleRequest::Ask(unlock, answer))
        {
            let orders = self.handle.shared.requests.clone();
            // The queue is full for a moment. Without a runtime nothing could wait, and the lease bounds the lock.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { orders.send(order).await });
            }
        }
    }
}
