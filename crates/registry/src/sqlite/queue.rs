//! What waits for the writer. Leases go first: a renewal never waits behind decisions (protocol §3.10).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use evenkeel_core::registry::{Granted, LeaseId, Outcome, Txn};
use evenkeel_core::time::Millis;
use tokio::sync::oneshot;

use crate::RegistryError;

/// How many transactions one group takes at most: some 50 ms of work.
const GROUP: usize = 4_096;

pub(super) type Reply<T> = oneshot::Sender<Result<T, RegistryError>>;

/// One verb that waits, and where its answer goes.
pub(super) enum Ask {
    Open(Millis, Reply<Granted>),
    Renew(LeaseId, Reply<Option<Granted>>),
    Close(LeaseId, Reply<()>),
    Commit(Vec<Txn>, oneshot::Sender<Vec<Outcome>>),
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

#[derive(Default)]
struct Waiting {
    leases: VecDeque<Ask>,
    commits: VecDeque<Ask>,
    closed: bool,
}

impl Queue {
    /// Lines up.
    pub(super) fn push(&self, ask: Ask) {
        let mut waiting = self.lock();
        match ask {
            Ask::Commit(..) => waiting.commits.push_back(ask),
            _ => waiting.leases.push_back(ask),
        }
        self.filled.notify_one();
    }

    /// No more will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Waits until something is there; `false` when nothing is and no more will come.
    pub(super) fn wait(&self) -> bool {
        let waiting = self.filled.wait_while(self.lock(), |waiting| waiting.is_empty() && !waiting.closed);
        !waiting.unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether something is there.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Takes the next group.
    pub(super) fn take(&self) -> Vec<Ask> {
        let mut waiting = self.lock();
        let mut group: Vec<Ask> = waiting.leases.drain(..).collect();
        let mut txns = 0;
        while let Some(Ask::Commit(next, _)) = waiting.commits.front() {
            txns += next.len();
            if txns > GROUP && !group.is_empty() {
                break;
            }
            group.extend(waiting.commits.pop_front());
        }
        group
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.commits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(txns: usize) -> Ask {
        Ask::Commit(vec![Txn::default(); txns], oneshot::channel().0)
    }

    fn renew(lease: u64) -> Ask {
        Ask::Renew(LeaseId(lease), oneshot::channel().0)
    }

    fn sizes(group: &[Ask]) -> Vec<usize> {
        group.iter().map(|ask| if let Ask::Commit(txns, _) = ask { txns.len() } else { 0 }).collect()
    }

    #[test]
    fn renewals_never_wait_behind_commits() {
        let queue = Queue::default();
        (0..10).for_each(|_| queue.push(commit(1_000)));
        queue.push(renew(1));
        assert_eq!(sizes(&queue.take()), [0, 1_000, 1_000, 1_000, 1_000]);
        queue.push(renew(1));
        assert_eq!(sizes(&queue.take()), [0, 1_000, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn a_commit_larger_than_a_group_is_a_group() {
        let queue = Queue::default();
        queue.push(commit(2 * GROUP));
        queue.push(commit(1));
        assert_eq!(sizes(&queue.take()), [2 * GROUP]);
        assert_eq!(sizes(&queue.take()), [1]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_was_asked_before_the_end_is_still_there() {
        let queue = Queue::default();
        queue.push(commit(1));
        queue.close();
        assert!(queue.wait());
        queue.take();
        assert!(!queue.wait());
    }
}
