//! The decision on one item of a command.

use alloc::format;

use crate::commit_kind::CommitKind;
use crate::ids::JobName;
use crate::input::{Answer, Refusal};
use crate::local::ItemOutcome;
use crate::registry::Txn;

/// The decision on an item in this context.
pub(super) enum ItemDecision {
    Commit(CommitKind, Txn),
    Complete(ItemOutcome),
    /// The item is looked at again when the view has moved.
    Wait,
}

pub(super) fn answer(answer: Answer) -> ItemDecision {
    ItemDecision::Complete(ItemOutcome::Answer(answer))
}

pub(super) fn refuse(kind: Refusal, text: alloc::string::String) -> ItemDecision {
    answer(Answer::Refused(kind, text))
}

pub(super) fn no_job(name: &JobName) -> ItemDecision {
    refuse(Refusal::NotFound, format!("there is no job {name}: `job list` shows those there are"))
}
