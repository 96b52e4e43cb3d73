//! The jobs of this node that wait for a permit of a pool, in the order in which they get it.

use alloc::collections::{BTreeMap, BTreeSet};

use super::fair_queue::{FairQueue, Waiter};
use crate::ids::PoolName;
use crate::job::Priority;
use crate::view::JobId;

/// Jobs that wait for a permit, by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PoolWaiters {
    queues: BTreeMap<PoolName, FairQueue>,
    /// The pool that each waits for.
    of: BTreeMap<JobId, PoolName>,
    /// Pools that may have a free permit.
    open: BTreeSet<PoolName>,
}

impl PoolWaiters {
    /// Adds a job that was first in line when it was looked at: the pool needs no other look.
    pub fn wait_as_first(&mut self, pool: PoolName, waiter: Waiter) {
        self.open.remove(&pool);
        self.wait(pool, waiter);
    }

    /// Adds a job that was behind another one.
    pub fn wait(&mut self, pool: PoolName, waiter: Waiter) {
        self.queues.entry(pool.clone()).or_default().insert(waiter);
        self.of.insert(waiter.id, pool);
    }

    /// Removes a job, unless it asks again. Those behind it may take what it leaves.
    pub fn forget(&mut self, id: JobId) {
        let Some(pool) = self.of.remove(&id) else { return };
        let Some(queue) = self.queues.get_mut(&pool) else { return };
        if queue.first() == Some(id) {
            self.open.insert(pool);
        }
        queue.remove(id);
    }

    /// Whether no other job that waits is ahead of it.
    #[must_use]
    pub fn is_first(&self, pool: &PoolName, waiter: &Waiter) -> bool {
        self.queues.get(pool).is_none_or(|queue| queue.is_first(waiter))
    }

    /// Whether another job waits for the pool whose priority is no lower than that of this one.
    #[must_use]
    pub fn has_rivals(&self, pool: &PoolName, (priority, id): (Priority, JobId)) -> bool {
        self.queues.get(pool).is_some_and(|queue| queue.has_rivals(priority, id))
    }

    /// Notes that a job took a permit. Where others wait for the pool, they have their turns before its next one.
    pub fn served(&mut self, pool: &PoolName, priority: Priority, id: JobId) {
        if let Some(queue) = self.queues.get_mut(pool) {
            queue.served(priority, id);
        }
    }

    /// Ends a step: all waiting jobs and all permits taken are noted.
    pub fn settle(&mut self) {
        self.queues.values_mut().for_each(FairQueue::settle);
    }

    /// Notes that a pool has changed.
    pub fn open(&mut self, pool: &PoolName) {
        self.open.extend(self.queues.contains_key(pool).then(|| pool.clone()));
    }

    /// Notes a change that all pools may depend on.
    pub fn open_all(&mut self) {
        self.open.extend(self.queues.keys().cloned());
    }

    /// Whether there is a job to look at.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.open.is_empty()
    }

    /// The first job that waits for each open pool; each is removed unless it asks again. The pool stays open until one
    /// does: a job that does not want a permit any more keeps no other waiting.
    pub fn take(&mut self) -> BTreeSet<JobId> {
        let Self { queues, of, open } = self;
        if open.is_empty() {
            return BTreeSet::new();
        }
        queues.retain(|_, queue| !queue.is_empty());
        open.retain(|pool| queues.contains_key(pool));
        let first: BTreeSet<JobId> =
            open.iter().filter_map(|pool| queues.get_mut(pool)?.pop_first()).collect();
        for id in &first {
            of.remove(id);
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
        let (mut pool_waiters, pool): (_, PoolName) = (PoolWaiters::default(), "p".parse().unwrap());
        for (due, id) in [(1, 10), (2, 20), (3, 30)] {
            let first = pool_waiters.is_first(&pool, &rank(due, id));
            match first {
                true => pool_waiters.wait_as_first(pool.clone(), rank(due, id)),
                false => pool_waiters.wait(pool.clone(), rank(due, id)),
            }
        }
        assert!(!pool_waiters.has_more() && pool_waiters.is_first(&pool, &rank(1, 10)));
        pool_waiters.open(&pool);
        assert_eq!(pool_waiters.take(), [JobId(10)].into());
        assert!(pool_waiters.has_more(), "the first went away without a word");
        assert_eq!(pool_waiters.take(), [JobId(20)].into());
        pool_waiters.wait(pool.clone(), rank(9, 20));
        assert!(pool_waiters.has_more(), "it is behind another one now");
        assert_eq!(pool_waiters.take(), [JobId(30)].into());
        pool_waiters.wait_as_first(pool.clone(), rank(3, 30));
        assert!(!pool_waiters.has_more() && pool_waiters.is_first(&pool, &rank(3, 30)));
        assert!(!pool_waiters.is_first(&pool, &rank(9, 20)));
        pool_waiters.forget(JobId(30));
        assert_eq!(pool_waiters.take(), [JobId(20)].into(), "who was behind it is looked at");
        assert_eq!((pool_waiters.take(), pool_waiters.has_more()), ([].into(), false));

        // The first one gives up in the same step in which another is looked at behind it.
        pool_waiters.wait_as_first(pool.clone(), rank(1, 10));
        pool_waiters.forget(JobId(10));
        pool_waiters.wait(pool.clone(), rank(2, 20));
        assert_eq!(pool_waiters.take(), [JobId(20)].into(), "it was looked at as one of those behind");
    }
}
