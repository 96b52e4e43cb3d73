//! What the driver knows of an upgrade that was asked for.

use evenkeel_core::time::Mono;
use tokio::sync::{mpsc, oneshot};

use crate::guard::GuardTransfer;
use crate::request::NodeUpgrade;

/// An upgrade that waits until no run is inside the process.
pub(super) struct PendingUpgrade {
    pub(super) upgrade: NodeUpgrade,
    pub(super) until: Mono,
}

/// The state of an upgrade in the driver.
pub(super) struct UpgradeState {
    /// The registry's URL without its password.
    pub(super) url: String,
    /// Gives access to the guard client.
    pub(super) guard_client: Option<HandoffSender>,
    pub(super) pending: Option<PendingUpgrade>,
}

impl UpgradeState {
    pub(super) fn new(url: String, keeper: Option<HandoffSender>) -> Self {
        Self { url, guard_client: keeper, pending: None }
    }

    /// Until when the pending upgrade waits, if there is one.
    pub(super) fn until(&self) -> Option<Mono> {
        self.pending.as_ref().map(|waiting| waiting.until)
    }
}

/// Asks the guard client for the guard.
pub(super) type HandoffSender = mpsc::Sender<oneshot::Sender<GuardTransfer>>;
