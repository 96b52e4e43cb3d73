//! The tasks of a guard whose node's process has died.

use evenkeel_core::member_entry::MemberEntry;
use evenkeel_core::registry::LeaseId;

/// What the guard does after the death of its node's process.
#[derive(Clone, Debug, Default)]
pub(crate) enum GuardTask {
    /// Nothing: the process lives, or all is done.
    #[default]
    None,
    /// It ends the runs and then removes this member.
    EndRuns(MemberEntry),
    /// It tries to remove this member, for the last time when no try is left.
    Remove(MemberEntry, u32),
    /// It has removed the member, and closes its lease: a late request to join would make the member again.
    Close(LeaseId),
}
