//! What a handle asks its node for.

use std::os::fd::OwnedFd;
use std::time::Duration;

use evenkeel_core::input::{Answer, Command};
use evenkeel_core::keys::Key;
use evenkeel_core::registry::Change;
use evenkeel_registry::RegistryError;
use tokio::sync::oneshot;

use crate::audit::{AuditAction, AuditOutcome, Requester};
use crate::upgrade::ProgramFile;

/// The answer of a node that has stopped.
pub(crate) const ENDED: &str = "this node has stopped: ask another one";

/// A request from a handle to its node.
pub(crate) enum HandleRequest {
    /// A command of the node's own work, without an audit entry.
    Ask(Command, oneshot::Sender<Answer>),
    /// A requested change, with an audit entry.
    Change(Requester, Command, oneshot::Sender<Answer>),
    /// Writes an audit entry about a decision made beside the node.
    LogDecision(Requester, AuditAction, (AuditOutcome, String)),
    /// Reads these entries, which the feed does not carry.
    Read(Vec<Key>, oneshot::Sender<Result<Vec<Change>, RegistryError>>),
    /// Continues the node in another program.
    Upgrade(Box<NodeUpgrade>),
    Halt,
}

/// A request to continue the node in another program.
pub(crate) struct NodeUpgrade {
    pub(crate) program: ProgramFile,
    /// The listener of the node's HTTP interface.
    pub(crate) listener: Option<OwnedFd>,
    /// How long the upgrade may wait.
    pub(crate) wait: Duration,
    /// Receives why the upgrade was refused; nothing if it was done.
    pub(crate) refused: oneshot::Sender<String>,
}
