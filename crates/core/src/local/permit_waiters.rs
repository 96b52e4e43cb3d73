//! The jobs of this node that wait for a permit of a limit, in the order in which they get it.

use alloc::collections::{BTreeMap, BTreeSet};

use super::fair_queue::{FairQueue, Waiter};
use crate::job::Priority;
use crate::run_limit::RunLimit;
use crate::view::JobId;

/// Jobs that wait for a permit, by limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PermitWaiters {
    queues: BTreeMap<RunLimit, FairQueue>,
    /// The limits that each waits for: mostly one, but each open fire of a sharded job waits for one of its own.
    of: BTreeMap<JobId, BTreeSet<RunLimit>>,
    /// Limits that may have a free permit.
    open: BTreeSet<RunLimit>,
}

impl PermitWaiters {
    /// Adds a job that was first in line when it was looked at: the limit needs no other look.
    pub fn wait_as_first(&mut self, limit: RunLimit, waiter: Waiter) {
        self.open.remove(&limit);
        self.wait(limit, waiter);
    }

    /// Adds a job that was behind another one.
    pub fn wait(&mut self, limit: RunLimit, waiter: Waiter) {
        self.queues.entry(limit.clone()).or_default().insert(waiter);
        self.of.entry(waiter.id).or_default().insert(limit);
    }

    /// Removes a job, unless it asks again. Those behind it may take what it leaves.
    pub fn forget(&mut self, id: JobId) {
        for limit in self.of.remove(&id).unwrap_or_default() {
            let Some(queue) = self.queues.get_mut(&limit) else { continue };
            if queue.first() == Some(id) {
                self.open.insert(limit);
            }
            queue.remove(id);
        }
    }

    /// How many jobs wait; each counts once for each limit that it waits for.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.of.values().map(BTreeSet::len).sum()
    }

    /// Whether no other job that waits is ahead of it.
    #[must_use]
    pub fn is_first(&self, limit: &RunLimit, waiter: &Waiter) -> bool {
        self.queues.get(limit).is_none_or(|queue| queue.is_first(waiter))
    }

    /// Whether another job waits for it whose priority is no lower than that of this one.
    #[must_use]
    pub fn has_rivals(&self, limit: &RunLimit, (priority, id): (Priority, JobId)) -> bool {
        self.queues.get(limit).is_some_and(|queue| queue.has_rivals(priority, id))
    }

    /// Notes that a job took a permit. Where others wait for it too, they have their turns before its next one.
    pub fn served(&mut self, limit: &RunLimit, priority: Priority, id: JobId) {
        if let Some(queue) = self.queues.get_mut(limit) {
            queue.served(priority, id);
        }
    }

    /// Ends a step: all waiting jobs and all permits taken are noted.
    pub fn settle(&mut self) {
        self.queues.values_mut().for_each(FairQueue::settle);
    }

    /// Notes that a limit has changed.
    pub fn open(&mut self, limit: &RunLimit) {
        self.open.extend(self.queues.contains_key(limit).then(|| limit.clone()));
    }

    /// Notes a change that all limits may depend on.
    pub fn open_all(&mut self) {
        self.open.extend(self.queues.keys().cloned());
    }

    /// Whether there is a job to look at.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.open.is_empty()
    }

    /// The first job that waits for each open limit; each is removed unless it asks again. The limit stays open until one
    /// does: a job that does not want a permit any more keeps no other waiting.
    pub fn take(&mut self) -> BTreeSet<JobId> {
        let Self { queues, of, open } = self;
        if open.is_empty() {
            return BTreeSet::new();
        }
        queues.retain(|_, queue| !queue.is_empty());
        open.retain(|limit| queues.contains_key(limit));
        let mut first = BTreeSet::new();
        for limit in open.iter() {
            let Some(id) = queues.get_mut(limit).and_then(FairQueue::pop_first) else { continue };
            if let Some(limits) = of.get_mut(&id) {
                limits.remove(limit);
            }
            first.insert(id);
        }
        first
    }

    /// Clears the state at the end of the node's life.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use core::cmp::Reverse;

    use super::*;
    use crate::time::Wall;

    fn rank(due: i64, id: u32) -> Waiter {
        Waiter { priority: Reverse(Priority::default()), due: Wall(due), again: Wall::MAX, id: JobId(id) }
    }

    /// proves: I55
    #[test]
    fn who_does_not_want_in_any_more_keeps_nobody_waiting_and_who_still_does_keeps_its_place() {
        let (mut permit_waiters, pool) = (PermitWaiters::default(), RunLimit::Pool("p".parse().unwrap()));
        for (due, id) in [(1, 10), (2, 20), (3, 30)] {
            let first = permit_waiters.is_first(&pool, &rank(due, id));
            match first {
                true => permit_waiters.wait_as_first(pool.clone(), rank(due, id)),
                false => permit_waiters.wait(pool.clone(), rank(due, id)),
            }
        }
        assert!(!permit_waiters.has_more() && permit_waiters.is_first(&pool, &rank(1, 10)));
        permit_waiters.open(&pool);
        assert_eq!(permit_waiters.take(), [JobId(10)].into());
        assert!(permit_waiters.has_more(), "the first went away without a word");
        assert_eq!(permit_waiters.take(), [JobId(20)].into());
        permit_waiters.wait(pool.clone(), rank(9, 20));
        assert!(permit_waiters.has_more(), "it is behind another one now");
        assert_eq!(permit_waiters.take(), [JobId(30)].into());
        permit_waiters.wait_as_first(pool.clone(), rank(3, 30));
        assert!(!permit_waiters.has_more() && permit_waiters.is_first(&pool, &rank(3, 30)));
        assert!(!permit_waiters.is_first(&pool, &rank(9, 20)));
        permit_waiters.forget(JobId(30));
        assert_eq!(permit_waiters.take(), [JobId(20)].into(), "who was behind it is looked at");
        assert_eq!((permit_waiters.take(), permit_waiters.has_more()), ([].into(), false));

        // The first one gives up in the same step in which another is looked at behind it.
        permit_waiters.wait_as_first(pool.clone(), rank(1, 10));
        permit_waiters.forget(JobId(10));
        permit_waiters.wait(pool.clone(), rank(2, 20));
        assert_eq!(permit_waiters.take(), [JobId(20)].into(), "it was looked at as one of those behind");
    }
}
