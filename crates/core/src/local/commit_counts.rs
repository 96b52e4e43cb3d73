//! Commits under way, counted by their kind.

use alloc::collections::BTreeMap;

use crate::commit_kind::CommitKind;

/// How many commits of each kind are under way. What is asked for at each fire is counted as they come and go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommitCounts {
    each: BTreeMap<CommitKind, usize>,
    paced: usize,
    claims: usize,
}

impl CommitCounts {
    /// One more is under way.
    pub fn begin(&mut self, kind: CommitKind) {
        *self.each.entry(kind).or_default() += 1;
        self.paced += usize::from(kind.is_paced());
        self.claims += usize::from(kind.takes_slot());
    }

    /// One that was under way is over.
    pub fn end(&mut self, kind: CommitKind) {
        let Some(count) = self.each.get_mut(&kind).filter(|count| **count > 0) else { return };
        *count -= 1;
        self.paced -= usize::from(kind.is_paced());
        self.claims -= usize::from(kind.takes_slot());
    }

    /// How many of this kind.
    #[must_use]
    pub fn of(&self, kind: CommitKind) -> usize {
        self.each.get(&kind).copied().unwrap_or(0)
    }

    /// How many claims and confirmations of fires.
    #[must_use]
    pub fn paced(&self) -> usize {
        self.paced
    }

    /// How many that will take a slot.
    #[must_use]
    pub fn claims(&self) -> usize {
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
