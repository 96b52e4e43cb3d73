//! What history reports to the driver.

use evenkeel_core::ids::RunId;
use evenkeel_core::input::CommandId;

use super::notice::Notice;

/// An event from history to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HistoryEvent {
    /// This verdict is durable.
    Recorded { run: RunId, attempt: u32 },
    /// This entry of the audit log is durable, so its change may be tried.
    AuditWritten(CommandId),
    /// Whether the database accepts entries.
    Writable(bool),
    /// A file was deleted, replaced or damaged while in use, or a folder accepts no writes: which one, and what to do.
    StorageFailed(String),
    /// This notice is durable and has to be sent.
    Notice(Box<Notice>),
}
