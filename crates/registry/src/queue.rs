//! The queue of an engine's one writer: many callers share one trip and one sync of the disk.
//!
//! Leases go first: a renewal never waits behind decisions (law 10).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::registry::{LeaseGrant, LeaseId, Txn, TxnOutcome};
use evenkeel_core::time::Millis;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::RegistryError;

/// How many commits may wait; more wait at their callers, so that a slow engine does not fill the memory (I47).
const WAITING_MAX: usize = 64;

/// Receives the answer of a request.
pub(crate) type ReplySender<T> = oneshot::Sender<Result<T, RegistryError>>;

/// A waiting request, and its reply channel.
pub(crate) enum WriteRequest {
    Open(Millis, ReplySender<LeaseGrant>),
    Renew(LeaseId, ReplySender<Option<LeaseGrant>>),
    Close(LeaseId, ReplySender<()>),
    Commit(Vec<Txn>, OutcomeSender),
}

/// Receives the outcomes of a commit. It holds its permit until then, even if the caller has stopped waiting.
pub(crate) struct OutcomeSender {
    reply: oneshot::Sender<Vec<TxnOutcome>>,
    room: OwnedSemaphorePermit,
    /// What is known already: an outcome for each transaction, `None` for those still in the request.
    known: Vec<Option<TxnOutcome>>,
}

impl OutcomeSender {
    /// Sends the outcomes. The caller may be gone.
    pub(crate) fn send(self, outcomes: Vec<TxnOutcome>) {
        let mut rest = outcomes.into_iter();
        let all = match self.known.is_empty() {
            true => rest.collect(),
            false => self.known.into_iter().filter_map(|known| known.or_else(|| rest.next())).collect(),
        };
        let _ = self.reply.send(all);
        drop(self.room);
    }
}

impl WriteRequest {
    /// Takes the next outcome for each transaction of a commit. Returns a request for those that have none yet.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn answer_some(self, outcomes: &mut impl Iterator<Item = Option<TxnOutcome>>) -> Option<Self> {
        let Self::Commit(txns, mut reply) = self else { return Some(self) };
        let known: Vec<_> = outcomes.take(txns.len()).collect();
        let rest: Vec<_> =
            txns.into_iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(txn, _)| txn).collect();
        if rest.is_empty() {
            reply.send(known.into_iter().flatten().collect());
            return None;
        }
        reply.known = known;
        Some(Self::Commit(rest, reply))
    }

    /// Reports that the commit was not done, or that its outcome is unknown.
    pub(crate) fn fail(self, error: &RegistryError) {
        match self {
            Self::Open(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Renew(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Close(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Commit(txns, reply) => reply.send(vec![TxnOutcome::Unknown; txns.len()]),
        }
    }
}

/// Why outcomes are unknown.
#[derive(Default)]
pub(crate) struct LastError(Mutex<Option<Arc<RegistryError>>>);

impl LastError {
    pub(crate) fn set(&self, error: Option<&RegistryError>) {
        let mut trouble = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_deref() != error {
            *trouble = error.cloned().map(Arc::new);
        }
    }

    fn read(&self) -> Option<Arc<RegistryError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The most that goes into one group. A larger commit is a group by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimits {
    pub(crate) txns: usize,
    pub(crate) bytes: usize,
}

/// The callers' end of the queue. When it is dropped, the queued requests are still done.
pub(crate) struct WriterHandle {
    sender: mpsc::UnboundedSender<WriteRequest>,
    room: Arc<Semaphore>,
    limits: GroupLimits,
    last_error: Arc<LastError>,
}

impl WriterHandle {
    pub(crate) async fn open(&self, ttl: Millis) -> Result<LeaseGrant, RegistryError> {
        self.request(|reply| WriteRequest::Open(ttl, reply)).await
    }

    pub(crate) async fn renew(&self, lease: LeaseId) -> Result<Option<LeaseGrant>, RegistryError> {
        self.request(|reply| WriteRequest::Renew(lease, reply)).await
    }

    pub(crate) async fn close(&self, lease: LeaseId) -> Result<(), RegistryError> {
        self.request(|reply| WriteRequest::Close(lease, reply)).await
    }

    /// Splits a commit that is too large for one group, in its order.
    pub(crate) async fn commit(&self, txns: Vec<Txn>) -> Vec<TxnOutcome> {
        let (mut outcomes, mut answers) = (Vec::with_capacity(txns.len()), Vec::new());
        for part in split_commit(txns, self.limits.bytes) {
            let asked = part.len();
            let (reply, answer) = oneshot::channel();
            if let Ok(room) = self.room.clone().acquire_owned().await {
                // A writer that is gone drops the request, and its reply channel with it.
                let _ = self
                    .sender
                    .send(WriteRequest::Commit(part, OutcomeSender { reply, room, known: Vec::new() }));
            }
            answers.push((asked, answer));
        }
        for (asked, answer) in answers {
            outcomes.extend(answer.await.unwrap_or_else(|_| vec![TxnOutcome::Unknown; asked]));
        }
        outcomes
    }

    pub(crate) fn last_error(&self) -> Option<Arc<RegistryError>> {
        self.last_error.read()
    }

    async fn request<T>(&self, ask: impl FnOnce(ReplySender<T>) -> WriteRequest) -> Result<T, RegistryError> {
        let (reply, answer) = oneshot::channel();
        // As in `commit`: if the writer is gone, the answer never comes.
        let _ = self.sender.send(ask(reply));
        answer.await.unwrap_or_else(|_| Err(RegistryError::Fatal("the registry's writer has stopped".into())))
    }
}

/// The writer's end.
pub(crate) struct WriteQueue {
    receiver: mpsc::UnboundedReceiver<WriteRequest>,
    leases: VecDeque<WriteRequest>,
    commits: VecDeque<WriteRequest>,
    limits: GroupLimits,
    pub(crate) last_error: Arc<LastError>,
}

/// Creates the two ends of a queue.
pub(crate) fn write_queue(most: GroupLimits) -> (WriterHandle, WriteQueue) {
    let ((sender, asks), trouble) = (mpsc::unbounded_channel(), Arc::<LastError>::default());
    let room = Arc::new(Semaphore::new(WAITING_MAX));
    let asker = WriterHandle { sender, room, limits: most, last_error: trouble.clone() };
    (
        asker,
        WriteQueue {
            receiver: asks,
            leases: VecDeque::new(),
            commits: VecDeque::new(),
            limits: most,
            last_error: trouble,
        },
    )
}

impl WriteQueue {
    /// Waits for a request; `false` when all callers are gone. May be dropped at any point.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
    pub(crate) async fn wait(&mut self) -> bool {
        if self.is_empty()
            && let Some(ask) = self.receiver.recv().await
        {
            self.add(ask);
        }
        !self.is_empty()
    }

    /// Waits likewise, for a writer that is a thread.
    pub(crate) fn wait_blocking(&mut self) -> bool {
        if self.is_empty()
            && let Some(ask) = self.receiver.blocking_recv()
        {
            self.add(ask);
        }
        !self.is_empty()
    }

    /// Takes the requests of one group: all that concern leases, and commits up to a limit.
    pub(crate) fn take_group(&mut self) -> Vec<WriteRequest> {
        self.receive_all();
        let mut group: Vec<WriteRequest> = self.leases.drain(..).collect();
        let (mut txns, mut size) = (0, 0);
        while let Some(WriteRequest::Commit(next, _)) = self.commits.front() {
            txns += next.len();
            size += next.iter().map(Txn::bytes).sum::<usize>();
            let first = !matches!(group.last(), Some(WriteRequest::Commit(..)));
            if (txns > self.limits.txns || size > self.limits.bytes) && !first {
                break;
            }
            group.extend(self.commits.pop_front());
        }
        group
    }

    /// Whether the queue is empty.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.receive_all();
        self.leases.is_empty() && self.commits.is_empty()
    }

    fn receive_all(&mut self) {
        while let Ok(ask) = self.receiver.try_recv() {
            self.add(ask);
        }
    }

    fn add(&mut self, ask: WriteRequest) {
        match ask {
            WriteRequest::Commit(..) => self.commits.push_back(ask),
            _ => self.leases.push_back(ask),
        }
    }
}

/// Splits a commit into parts for one group each; a single transaction stays whole.
fn split_commit(txns: Vec<Txn>, most: usize) -> Vec<Vec<Txn>> {
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

    const MOST: GroupLimits = GroupLimits { txns: 4_096, bytes: 1_000 };

    fn send_request(asker: &WriterHandle, ask: WriteRequest) {
        assert!(asker.sender.send(ask).is_ok());
    }

    fn commit(asker: &WriterHandle, txns: Vec<Txn>) {
        let room = asker.room.clone().try_acquire_owned().unwrap();
        send_request(
            asker,
            WriteRequest::Commit(
                txns,
                OutcomeSender { reply: oneshot::channel().0, room, known: Vec::new() },
            ),
        );
    }

    fn some(txns: usize) -> Vec<Txn> {
        vec![Txn::default(); txns]
    }

    fn renew(lease: u64) -> WriteRequest {
        WriteRequest::Renew(LeaseId(lease), oneshot::channel().0)
    }

    fn sizes(group: &[WriteRequest]) -> Vec<usize> {
        group.iter().map(|ask| if let WriteRequest::Commit(txns, _) = ask { txns.len() } else { 0 }).collect()
    }

    #[test]
    fn renewals_never_wait_behind_commits() {
        let (asker, mut queue) = write_queue(MOST);
        (0..10).for_each(|_| commit(&asker, some(1_000)));
        send_request(&asker, renew(1));
        assert_eq!(sizes(&queue.take_group()), [0, 1_000, 1_000, 1_000, 1_000]);
        send_request(&asker, renew(1));
        assert_eq!(sizes(&queue.take_group()), [0, 1_000, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn a_commit_larger_than_a_group_is_a_group() {
        let (asker, mut queue) = write_queue(MOST);
        let value = [0; 600].as_slice().into();
        let put = Write::Put { key: evenkeel_core::keys::Key::from_stored("a"), value, owner: None };
        let large = Txn { guards: vec![], writes: vec![put.clone(), put.clone()] };
        let half = Txn { guards: vec![], writes: vec![put] };
        for txns in [some(2 * MOST.txns), some(1), vec![large], vec![half]] {
            commit(&asker, txns);
        }
        send_request(&asker, renew(1));
        assert_eq!(sizes(&queue.take_group()), [0, 2 * MOST.txns]);
        assert_eq!(sizes(&queue.take_group()), [1]);
        assert_eq!(sizes(&queue.take_group()), [1]);
        assert_eq!(sizes(&queue.take_group()), [1]);
        assert!(queue.is_empty());
    }

    #[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
    #[tokio::test]
    async fn a_commit_heavier_than_a_group_goes_as_several_and_is_answered_in_its_order() {
        let (asker, mut queue) = write_queue(MOST);
        let txns: Vec<_> = [500, 400, 600, 2_000, 10, 20]
            .map(|size| {
                let (key, value) = (evenkeel_core::keys::Key::from_stored("a"), vec![0; size - 1].into());
                Txn { guards: vec![], writes: vec![Write::Put { key, value, owner: None }] }
            })
            .into();
        let serve = async {
            let mut groups = Vec::new();
            while queue.wait().await {
                let group = queue.take_group();
                groups.extend(sizes(&group));
                for ask in group {
                    let WriteRequest::Commit(txns, reply) = ask else { panic!("only commits") };
                    let told = |txn: &Txn| TxnOutcome::Applied(Revision(txn.bytes() as u64));
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
        let sizes = [500, 400, 600, 2_000, 10, 20].map(|size| TxnOutcome::Applied(Revision(size)));
        assert_eq!(outcomes, sizes);
    }

    #[cfg(any(feature = "mysql", feature = "postgres"))]
    #[tokio::test]
    async fn a_commit_that_is_answered_in_parts_is_answered_in_its_order() {
        let (asker, mut queue) = write_queue(MOST);
        let serve = async {
            assert!(queue.wait().await);
            let mut first =
                [Some(1), None, Some(3), None].map(|at| at.map(|at| TxnOutcome::Applied(Revision(at))));
            let mut first = first.iter_mut().map(Option::take);
            let ask = queue.take_group().remove(0).answer_some(&mut first).expect("two are left");
            let WriteRequest::Commit(txns, reply) = ask else { panic!("a commit") };
            assert_eq!(txns.len(), 2);
            reply.send(vec![TxnOutcome::Unknown, TxnOutcome::Applied(Revision(4))]);
        };
        let (outcomes, ()) = tokio::join!(asker.commit(some(4)), serve);
        let made = |at| TxnOutcome::Applied(Revision(at));
        assert_eq!(outcomes, [made(1), TxnOutcome::Unknown, made(3), made(4)]);
    }

    #[test]
    fn what_was_asked_before_the_end_is_still_there() {
        let (asker, mut queue) = write_queue(MOST);
        commit(&asker, some(1));
        drop(asker);
        assert!(queue.wait_blocking());
        queue.take_group();
        assert!(!queue.wait_blocking());
    }

    /// proves: I47
    #[tokio::test]
    async fn who_stops_waiting_leaves_no_room_for_more() {
        let (asker, mut queue) = write_queue(MOST);
        for _ in 0..2 * WAITING_MAX {
            let given_up = tokio::time::timeout(std::time::Duration::ZERO, asker.commit(some(1))).await;
            assert!(given_up.is_err());
        }
        let group = queue.take_group();
        assert_eq!(group.len(), WAITING_MAX);
        assert!(queue.is_empty());
        group.into_iter().for_each(|ask| ask.fail(&RegistryError::Fatal("no more".into())));
        assert_eq!(asker.room.available_permits(), WAITING_MAX);
    }

    #[tokio::test]
    async fn who_waits_hears_of_a_writer_that_is_gone() {
        let (asker, queue) = write_queue(MOST);
        let gone = async { drop(queue) };
        let (outcomes, ()) = tokio::join!(asker.commit(some(2)), gone);
        assert_eq!(outcomes, [TxnOutcome::Unknown, TxnOutcome::Unknown]);
        assert!(matches!(asker.renew(LeaseId(1)).await, Err(RegistryError::Fatal(_))));
    }
}
