//! What waits for an engine's one writer, and who is to be told: so many callers cost one trip and one sync of the disk.
//!
//! Leases go first: a renewal never waits behind decisions (law 10).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::registry::{Granted, LeaseId, Outcome, Txn};
use evenkeel_core::time::Millis;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::RegistryError;

/// How many commits may wait; more wait where they come from, so that a slow engine does not fill the memory (I47).
const WAITING_MAX: usize = 64;

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, RegistryError>>;

/// One verb that waits, and where its answer goes.
pub(crate) enum Ask {
    Open(Millis, Reply<Granted>),
    Renew(LeaseId, Reply<Option<Granted>>),
    Close(LeaseId, Reply<()>),
    Commit(Vec<Txn>, Outcomes),
}

/// Where the outcomes of commits go. They take their room until then, though whoever asked may have stopped waiting.
pub(crate) struct Outcomes {
    reply: oneshot::Sender<Vec<Outcome>>,
    room: OwnedSemaphorePermit,
}

impl Outcomes {
    /// Whoever asked may be gone: then nobody hears.
    pub(crate) fn send(self, outcomes: Vec<Outcome>) {
        let _ = self.reply.send(outcomes);
        drop(self.room);
    }
}

impl Ask {
    /// Tells that it was not done, or that nobody knows.
    pub(crate) fn fail(self, error: &RegistryError) {
        match self {
            Self::Open(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Renew(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Close(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Commit(txns, reply) => reply.send(vec![Outcome::Unknown; txns.len()]),
        }
    }
}

/// Why outcomes are unknown.
#[derive(Default)]
pub(crate) struct Trouble(Mutex<Option<Arc<RegistryError>>>);

impl Trouble {
    pub(crate) fn set(&self, error: Option<&RegistryError>) {
        let mut trouble = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_deref() != error {
            *trouble = error.cloned().map(Arc::new);
        }
    }

    fn get(&self) -> Option<Arc<RegistryError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How much goes into one group at most. A commit that is larger is a group by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) txns: usize,
    pub(crate) bytes: usize,
}

/// The end of those who ask. When it is dropped, what was asked is still done.
pub(crate) struct Asker {
    asks: mpsc::UnboundedSender<Ask>,
    room: Arc<Semaphore>,
    most: Most,
    trouble: Arc<Trouble>,
}

impl Asker {
    pub(crate) async fn open(&self, ttl: Millis) -> Result<Granted, RegistryError> {
        self.ask(|reply| Ask::Open(ttl, reply)).await
    }

    pub(crate) async fn renew(&self, lease: LeaseId) -> Result<Option<Granted>, RegistryError> {
        self.ask(|reply| Ask::Renew(lease, reply)).await
    }

    pub(crate) async fn close(&self, lease: LeaseId) -> Result<(), RegistryError> {
        self.ask(|reply| Ask::Close(lease, reply)).await
    }

    /// What is too much for one group goes as several, in its order.
    pub(crate) async fn commit(&self, txns: Vec<Txn>) -> Vec<Outcome> {
        let (mut outcomes, mut answers) = (Vec::with_capacity(txns.len()), Vec::new());
        for part in parts(txns, self.most.bytes) {
            let asked = part.len();
            let (reply, answer) = oneshot::channel();
            if let Ok(room) = self.room.clone().acquire_owned().await {
                // A writer that is gone drops the question, and with it the way back.
                let _ = self.asks.send(Ask::Commit(part, Outcomes { reply, room }));
            }
            answers.push((asked, answer));
        }
        for (asked, answer) in answers {
            outcomes.extend(answer.await.unwrap_or_else(|_| vec![Outcome::Unknown; asked]));
        }
        outcomes
    }

    pub(crate) fn trouble(&self) -> Option<Arc<RegistryError>> {
        self.trouble.get()
    }

    async fn ask<T>(&self, ask: impl FnOnce(Reply<T>) -> Ask) -> Result<T, RegistryError> {
        let (reply, answer) = oneshot::channel();
        // As in `commit`: a writer that is gone shows as an answer that never comes.
        let _ = self.asks.send(ask(reply));
        answer.await.unwrap_or_else(|_| Err(RegistryError::Fatal("the registry's writer has stopped".into())))
    }
}

/// The writer's end.
pub(crate) struct Queue {
    asks: mpsc::UnboundedReceiver<Ask>,
    leases: VecDeque<Ask>,
    commits: VecDeque<Ask>,
    most: Most,
    pub(crate) trouble: Arc<Trouble>,
}

/// The two ends of a queue.
pub(crate) fn queue(most: Most) -> (Asker, Queue) {
    let ((sender, asks), trouble) = (mpsc::unbounded_channel(), Arc::<Trouble>::default());
    let room = Arc::new(Semaphore::new(WAITING_MAX));
    let asker = Asker { asks: sender, room, most, trouble: trouble.clone() };
    (asker, Queue { asks, leases: VecDeque::new(), commits: VecDeque::new(), most, trouble })
}

impl Queue {
    /// Waits until something is asked; `false` when nobody can ask any more. May be dropped at any point.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
    pub(crate) async fn wait(&mut self) -> bool {
        if self.is_empty()
            && let Some(ask) = self.asks.recv().await
        {
            self.add(ask);
        }
        !self.is_empty()
    }

    /// The same for a writer that is a thread.
    pub(crate) fn wait_here(&mut self) -> bool {
        if self.is_empty()
            && let Some(ask) = self.asks.blocking_recv()
        {
            self.add(ask);
        }
        !self.is_empty()
    }

    /// Takes what is to be done together: all that concerns leases, and commits up to a limit.
    pub(crate) fn take(&mut self) -> Vec<Ask> {
        self.gather();
        let mut group: Vec<Ask> = self.leases.drain(..).collect();
        let (mut txns, mut size) = (0, 0);
        while let Some(Ask::Commit(next, _)) = self.commits.front() {
            txns += next.len();
            size += next.iter().map(Txn::bytes).sum::<usize>();
            let first = !matches!(group.last(), Some(Ask::Commit(..)));
            if (txns > self.most.txns || size > self.most.bytes) && !first {
                break;
            }
            group.extend(self.commits.pop_front());
        }
        group
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.gather();
        self.leases.is_empty() && self.commits.is_empty()
    }

    fn gather(&mut self) {
        while let Ok(ask) = self.asks.try_recv() {
            self.add(ask);
        }
    }

    fn add(&mut self, ask: Ask) {
        match ask {
            Ask::Commit(..) => self.commits.push_back(ask),
            _ => self.leases.push_back(ask),
        }
    }
}

/// Cuts what is heavier than a group; one that is too heavy by itself stays whole.
fn parts(txns: Vec<Txn>, most: usize) -> Vec<Vec<Txn>> {
    let (mut parts, mut size) = (vec![Vec::new()], 0_usize);
    for txn in txns {
        let bytes = txn.bytes();
        size = size.saturating_add(bytes);
        match parts.last_mut() {
            Some(last) if size <= most || last.is_empty() => last.push(txn),
            _ => {
                parts.push(vec![txn]);
                size = bytes;
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use evenkeel_core::registry::{Revision, Write};

    use super::*;

    const MOST: Most = Most { txns: 4_096, bytes: 1_000 };

    fn ask(asker: &Asker, ask: Ask) {
        assert!(asker.asks.send(ask).is_ok());
    }

    fn commit(asker: &Asker, txns: Vec<Txn>) {
        let room = asker.room.clone().try_acquire_owned().unwrap();
        ask(asker, Ask::Commit(txns, Outcomes { reply: oneshot::channel().0, room }));
    }

    fn some(txns: usize) -> Vec<Txn> {
        vec![Txn::default(); txns]
    }

    fn renew(lease: u64) -> Ask {
        Ask::Renew(LeaseId(lease), oneshot::channel().0)
    }

    fn sizes(group: &[Ask]) -> Vec<usize> {
        group.iter().map(|ask| if let Ask::Commit(txns, _) = ask { txns.len() } else { 0 }).collect()
    }

    #[test]
    fn renewals_never_wait_behind_commits() {
        let (asker, mut queue) = queue(MOST);
        (0..10).for_each(|_| commit(&asker, some(1_000)));
        ask(&asker, renew(1));
        assert_eq!(sizes(&queue.take()), [0, 1_000, 1_000, 1_000, 1_000]);
        ask(&asker, renew(1));
        assert_eq!(sizes(&queue.take()), [0, 1_000, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn a_commit_larger_than_a_group_is_a_group() {
        let (asker, mut queue) = queue(MOST);
        let value = [0; 600].as_slice().into();
        let put = Write::Put { key: evenkeel_core::keys::Key::from_stored("a"), value, owner: None };
        let large = Txn { guards: vec![], writes: vec![put.clone(), put.clone()] };
        let half = Txn { guards: vec![], writes: vec![put] };
        for txns in [some(2 * MOST.txns), some(1), vec![large], vec![half]] {
            commit(&asker, txns);
        }
        ask(&asker, renew(1));
        assert_eq!(sizes(&queue.take()), [0, 2 * MOST.txns]);
        assert_eq!(sizes(&queue.take()), [1]);
        assert_eq!(sizes(&queue.take()), [1]);
        assert_eq!(sizes(&queue.take()), [1]);
        assert!(queue.is_empty());
    }

    #[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
    #[tokio::test]
    async fn a_commit_heavier_than_a_group_goes_as_several_and_is_answered_in_its_order() {
        let (asker, mut queue) = queue(MOST);
        let txns: Vec<_> = [500, 400, 600, 2_000, 10, 20]
            .map(|size| {
                let (key, value) = (evenkeel_core::keys::Key::from_stored("a"), vec![0; size - 1].into());
                Txn { guards: vec![], writes: vec![Write::Put { key, value, owner: None }] }
            })
            .into();
        let serve = async {
            let mut groups = Vec::new();
            while queue.wait().await {
                let group = queue.take();
                groups.extend(sizes(&group));
                for ask in group {
                    let Ask::Commit(txns, reply) = ask else { panic!("only commits") };
                    let told = |txn: &Txn| Outcome::Applied(Revision(txn.bytes() as u64));
                    reply.send(txns.iter().map(told).collect());
                }
                if groups.iter().sum::<usize>() == 6 {
                    break;
                }
            }
            groups
        };
        let (outcomes, groups) = tokio::join!(asker.commit(txns), serve);
        assert_eq!(groups, [2, 1, 1, 2]);
        let sizes = [500, 400, 600, 2_000, 10, 20].map(|size| Outcome::Applied(Revision(size)));
        assert_eq!(outcomes, sizes);
    }

    #[test]
    fn what_was_asked_before_the_end_is_still_there() {
        let (asker, mut queue) = queue(MOST);
        commit(&asker, some(1));
        drop(asker);
        assert!(queue.wait_here());
        queue.take();
        assert!(!queue.wait_here());
    }

    /// proves: I47
    #[tokio::test]
    async fn who_stops_waiting_leaves_no_room_for_more() {
        let (asker, mut queue) = queue(MOST);
        for _ in 0..2 * WAITING_MAX {
            let given_up = tokio::time::timeout(std::time::Duration::ZERO, asker.commit(some(1))).await;
            assert!(given_up.is_err());
        }
        let group = queue.take();
        assert_eq!(group.len(), WAITING_MAX);
        assert!(queue.is_empty());
        group.into_iter().for_each(|ask| ask.fail(&RegistryError::Fatal("no more".into())));
        assert_eq!(asker.room.available_permits(), WAITING_MAX);
    }

    #[tokio::test]
    async fn who_waits_hears_of_a_writer_that_is_gone() {
        let (asker, queue) = queue(MOST);
        let gone = async { drop(queue) };
        let (outcomes, ()) = tokio::join!(asker.commit(some(2)), gone);
        assert_eq!(outcomes, [Outcome::Unknown, Outcome::Unknown]);
        assert!(matches!(asker.renew(LeaseId(1)).await, Err(RegistryError::Fatal(_))));
    }
}
