//! Jobs of this node that wait for a seat in a pool, in the order in which they may have one.

use alloc::collections::{BTreeMap, BTreeSet};

use super::fair_queue::{FairQueue, Waiter};
use crate::ids::PoolName;
use crate::job::Priority;
use crate::view::JobId;

/// Jobs that wait for a seat, by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PoolWaiters {
    queues: BTreeMap<PoolName, FairQueue>,
    /// The pool that each waits for.
    of: BTreeMap<JobId, PoolName>,
    /// Pools in which there may be a seat.
    open: BTreeSet<PoolName>,
}

impl PoolWaiters {
    /// It waits from here on. Where nobody went before it when it was looked at, the pool needs no other look.
    pub fn wait(&mut self, pool: PoolName, waiter: Waiter, was_first: bool) {
        if was_first {
            self.open.remove(&pool);
        }
        self.queues.entry(pool.clone()).or_default().insert(waiter);
        self.of.insert(waiter.id, pool);
    }

    /// It waits no more, unless it says so again. Those behind it may have what it leaves.
    pub fn forget(&mut self, id: JobId) {
        let Some(pool) = self.of.remove(&id) else { return };
        let Some(queue) = self.queues.get_mut(&pool) else { return };
        if queue.first() == Some(id) {
            self.open.insert(pool);
        }
        queue.remove(id);
    }

    /// Whether nobody else who waits goes before it.
    #[must_use]
    pub fn is_first(&self, pool: &PoolName, waiter: &Waiter) -> bool {
        self.queues.get(pool).is_none_or(|queue| queue.is_first(waiter))
    }

    /// Whether another job waits for the pool whose priority is no lower than that of this one.
    #[must_use]
    pub fn has_rivals(&self, pool: &PoolName, (priority, id): (Priority, JobId)) -> bool {
        self.queues.get(pool).is_some_and(|queue| queue.has_rivals(priority, id))
    }

    /// A job took a seat. Where others wait for the pool, they have their turns before its next one.
    pub fn served(&mut self, pool: &PoolName, priority: Priority, id: JobId) {
        if let Some(queue) = self.queues.get_mut(pool) {
            queue.served(priority, id);
        }
    }

    /// All that waits was said, and all seats that were taken in a step.
    pub fn settle(&mut self) {
        self.queues.values_mut().for_each(FairQueue::settle);
    }

    /// Something of the pool has changed.
    pub fn open(&mut self, pool: &PoolName) {
        self.open.extend(self.queues.contains_key(pool).then(|| pool.clone()));
    }

    /// Something has changed that all pools may depend on.
    pub fn open_all(&mut self) {
        self.open.extend(self.queues.keys().cloned());
    }

    /// Whether there is anybody to look at.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.open.is_empty()
    }

    /// The first who waits for each pool that is open; they wait no more unless they say so again. The pool stays open until
    /// one does: whoever does not want in any more keeps nobody waiting.
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

    /// The node's life is over.
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
        let (mut seekers, pool): (_, PoolName) = (PoolWaiters::default(), "p".parse().unwrap());
        for (due, id) in [(1, 10), (2, 20), (3, 30)] {
            let first = seekers.is_first(&pool, &rank(due, id));
            seekers.wait(pool.clone(), rank(due, id), first);
        }
        assert!(!seekers.has_more() && seekers.is_first(&pool, &rank(1, 10)));
        seekers.open(&pool);
        assert_eq!(seekers.take(), [JobId(10)].into());
        assert!(seekers.has_more(), "the first went away without a word");
        assert_eq!(seekers.take(), [JobId(20)].into());
        seekers.wait(pool.clone(), rank(9, 20), false);
        assert!(seekers.has_more(), "it is behind another one now");
        assert_eq!(seekers.take(), [JobId(30)].into());
        seekers.wait(pool.clone(), rank(3, 30), true);
        assert!(!seekers.has_more() && seekers.is_first(&pool, &rank(3, 30)));
        assert!(!seekers.is_first(&pool, &rank(9, 20)));
        seekers.forget(JobId(30));
        assert_eq!(seekers.take(), [JobId(20)].into(), "who was behind it is looked at");
        assert_eq!((seekers.take(), seekers.has_more()), ([].into(), false));

        // The first one gives up in the same step in which another is looked at behind it.
        seekers.wait(pool.clone(), rank(1, 10), true);
        seekers.forget(JobId(10));
        seekers.wait(pool.clone(), rank(2, 20), false);
        assert_eq!(seekers.take(), [JobId(20)].into(), "it was looked at as one of those behind");
    }
}
