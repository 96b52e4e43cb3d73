//! Who waits for something of which there is too little, in the order in which they may have it.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

use crate::job::Priority;
use crate::time::Wall;
use crate::view::JobId;

/// Who goes before whom: by priority, then by what is due.
pub type Rank = (Reverse<Priority>, Wall, JobId);

/// Jobs that wait, each in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    order: BTreeSet<Rank>,
    of: BTreeMap<JobId, Rank>,
}

impl Queue {
    /// Puts a job in its place, or leaves it in a better one that it has.
    pub fn insert(&mut self, rank: Rank) {
        let id = rank.2;
        if self.of.get(&id).is_some_and(|had| *had <= rank) {
            return;
        }
        self.remove(id);
        self.order.insert(rank);
        self.of.insert(id, rank);
    }

    /// It waits no more.
    pub fn remove(&mut self, id: JobId) {
        if let Some(rank) = self.of.remove(&id) {
            self.order.remove(&rank);
        }
    }

    /// The first.
    #[must_use]
    pub fn first(&self) -> Option<JobId> {
        self.order.first().map(|(.., id)| *id)
    }

    /// The first, who waits no more.
    pub fn pop_first(&mut self) -> Option<JobId> {
        let (.., id) = self.order.pop_first()?;
        self.of.remove(&id);
        Some(id)
    }

    /// Whether nobody else who waits goes before it.
    #[must_use]
    pub fn is_first(&self, rank: &Rank) -> bool {
        self.order.iter().find(|(.., id)| *id != rank.2).is_none_or(|other| rank < other)
    }

    /// Whether it waits.
    #[must_use]
    pub fn contains(&self, id: JobId) -> bool {
        self.of.contains_key(&id)
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(due: i64, id: u32) -> Rank {
        (Reverse(Priority::default()), Wall(due), JobId(id))
    }

    #[test]
    fn a_job_has_one_place_its_best() {
        let mut queue = Queue::default();
        [rank(5, 1), rank(3, 2), rank(2, 1), rank(9, 1)].into_iter().for_each(|rank| queue.insert(rank));
        assert!(queue.is_first(&rank(2, 1)) && !queue.is_first(&rank(3, 2)) && queue.is_first(&rank(1, 3)));
        assert_eq!(queue.pop_first(), Some(JobId(1)));
        assert!(!queue.contains(JobId(1)) && queue.contains(JobId(2)));
        queue.remove(JobId(2));
        assert_eq!(queue, Queue::default());
    }
}
