//! Counts of commits in flight by kind.

use alloc::collections::BTreeMap;

use crate::commit_kind::CommitKind;

/// How many commits of each kind are in flight. What each fire needs to know is counted as they come and go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CommitCounts {
    each: BTreeMap<CommitKind, usize>,
    paced: usize,
    claims: usize,
}

impl CommitCounts {
    /// Adds a commit in flight.
    pub(super) fn begin(&mut self, kind: CommitKind) {
        *self.each.entry(kind).or_default() += 1;
        self.paced += usize::from(kind.is_paced());
        self.claims += usize::from(kind.takes_slot());
    }

    /// Removes a commit in flight.
    pub(super) fn end(&mut self, kind: CommitKind) {
        let Some(count) = self.each.get_mut(&kind).filter(|count| **count > 0) else { return };
        *count -= 1;
        self.paced -= usize::from(kind.is_paced());
        self.claims -= usize::from(kind.takes_slot());
    }

    /// The number of this kind.
    #[must_use]
    pub(super) fn of(&self, kind: CommitKind) -> usize {
        self.each.get(&kind).copied().unwrap_or(0)
    }

    /// The number of claims and confirmations of fires.
    #[must_use]
    pub(super) fn paced(&self) -> usize {
        self.paced
    }

    /// The number of commits that will take a slot.
    #[must_use]
    pub(super) fn claims(&self) -> usize {
        self.claims
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CommitKind::{ClaimFire, Confirm, EnterPool, HandOver, Join};

    #[test]
    fn commits_under_way_are_counted_by_kind() {
        let mut acts = CommitCounts::default();
        for kind in [ClaimFire, ClaimFire, Confirm, EnterPool, Join] {
            acts.begin(kind);
        }
        assert_eq!((acts.of(ClaimFire), acts.of(HandOver), acts.paced(), acts.claims()), (2, 0, 3, 3));
        for kind in [ClaimFire, EnterPool, Join, Join] {
            acts.end(kind);
        }
        assert_eq!((acts.of(ClaimFire), acts.of(Join), acts.paced(), acts.claims()), (1, 0, 2, 1));
    }
}
