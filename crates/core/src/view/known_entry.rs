//! An entry as a view knows it, and what a change does to it.

use alloc::boxed::Box;

use crate::keys::Key;
use crate::registry::{Change, Entry, Guard, Revision};

/// An entry's record with the revision at which it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownEntry<T> {
    /// The record; `None` when the entry is absent or unreadable.
    pub value: Option<T>,
    /// When it was written, or found absent.
    pub revision: Revision,
    absent: bool,
}

impl<T> KnownEntry<T> {
    /// The guard that the entry under `key` is still as it is known.
    #[must_use]
    pub fn guard(&self, key: Key) -> Guard {
        if self.value.is_none() && self.absent { Guard::Absent(key) } else { Guard::At(key, self.revision) }
    }

    /// Whether there is an entry that cannot be decoded.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.value.is_none() && !self.absent
    }

    /// An entry known to be absent since this revision.
    #[must_use]
    pub fn absent(revision: Revision) -> Self {
        Self { value: None, revision, absent: true }
    }

    /// An entry as read; `value` is `None` when it is unreadable.
    #[must_use]
    pub fn present(value: Option<T>, revision: Revision) -> Self {
        Self { value, revision, absent: false }
    }

    /// The same entry with its record in a box.
    pub(super) fn boxed(self) -> KnownEntry<Box<T>> {
        KnownEntry { value: self.value.map(Box::new), revision: self.revision, absent: self.absent }
    }
}

impl<T> Default for KnownEntry<T> {
    fn default() -> Self {
        Self::absent(Revision(0))
    }
}

/// What a change does to a known entry.
pub(super) enum EntryUpdate<'a> {
    /// Nothing: as much is known already.
    Stale,
    /// The entry is gone, as of this revision.
    Gone(Revision),
    /// The entry is another one.
    Put(&'a Entry),
}

/// What a change does to an entry that is known as of this revision.
pub(super) fn newer(known: Option<Revision>, change: &Change) -> EntryUpdate<'_> {
    let known = known.unwrap_or_default();
    match &change.entry {
        Some(entry) if entry.revision > known => EntryUpdate::Put(entry),
        None if change.revision >= known => EntryUpdate::Gone(change.revision),
        _ => EntryUpdate::Stale,
    }
}
