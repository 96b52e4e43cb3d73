//! The decision on one item of a command.

use alloc::format;

use crate::commit_kind::CommitKind;
use crate::ids::JobName;
use crate::input::{Answer, Refusal};
use crate::keys::Key;
use crate::local::ItemOutcome;
use crate::record::{Declared, Versioned, encode};
use crate::registry::{Guard, Txn, Write};
use crate::view::KnownEntry;
use serde::Serialize;

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

/// The transaction that writes the next version of an object's entry, if the entry is as it is known.
pub(super) fn rewritten<T: Versioned + Serialize>(
    key: Key,
    known: Option<&KnownEntry<Declared<T>>>,
    record: impl FnOnce(u64) -> Declared<T>,
) -> Txn {
    let version = known.and_then(|entry| entry.value.as_ref()).map_or(0, Declared::version);
    let guard = known.map_or_else(|| Guard::Absent(key.clone()), |entry| entry.guard(key.clone()));
    let write = Write::Put { key, value: encode(&record(version + 1)), owner: None };
    Txn { guards: [guard].into(), writes: [write].into() }
}
