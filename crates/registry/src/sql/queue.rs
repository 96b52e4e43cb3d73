//! What waits for the writer, and what it is to be told. Leases go first: a renewal never waits behind decisions.

use std::collections::VecDeque;

use evenkeel_core::registry::{Granted, LeaseId, Outcome, Txn, Write};
use evenkeel_core::time::Millis;
use tokio::sync::{mpsc, oneshot};

use crate::RegistryError;

/// How much goes into one transaction of the server's: more of it waits for the next.
const TXNS_MAX: usize = 4_096;
const BYTES_MAX: usize = 16 << 20;

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, RegistryError>>;

/// A verb that waits.
pub(super) enum Ask {
    Open(Millis, Reply<Granted>),
    Renew(LeaseId, Reply<Option<Granted>>),
    Close(LeaseId, Reply<()>),
    Commit(Vec<Txn>, oneshot::Sender<Vec<Outcome>>),
}

impl Ask {
    fn is_commit(&self) -> bool {
        matches!(self, Self::Commit(..))
    }

    fn bytes(&self) -> usize {
        let Self::Commit(txns, _) = self else { return 0 };
        let value = |write: &Write| match write {
            Write::Put { value, .. } => value.len(),
            Write::Delete { .. } => 0,
        };
        txns.iter().flat_map(|txn| &txn.writes).map(value).sum()
    }

    fn txns(&self) -> usize {
        if let Self::Commit(txns, _) = self { txns.len() } else { 0 }
    }

    /// Tells that it was not done, or that nobody knows.
    pub(super) fn fail(self, error: &RegistryError) {
        match self {
            Self::Open(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Renew(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Close(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Commit(txns, reply) => drop(reply.send(vec![Outcome::Unknown; txns.len()])),
        }
    }
}

/// The writer's end of the queue.
pub(super) struct Queue {
    asks: mpsc::UnboundedReceiver<Ask>,
    waiting: VecDeque<Ask>,
}

impl Queue {
    pub(super) fn new(asks: mpsc::UnboundedReceiver<Ask>) -> Self {
        Self { asks, waiting: VecDeque::new() }
    }

    /// Waits until something is asked; `false` when nobody can ask any more. May be dropped at any point.
    pub(super) async fn wait(&mut self) -> bool {
        if self.waiting.is_empty() {
            self.waiting.extend(self.asks.recv().await);
        }
        !self.waiting.is_empty()
    }

    /// Takes what is to be done together: all that concerns leases, and commits up to a limit.
    pub(super) fn take(&mut self) -> Vec<Ask> {
        while let Ok(ask) = self.asks.try_recv() {
            self.waiting.push_back(ask);
        }
        let (commits, mut group): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(Ask::is_commit);
        self.waiting.extend(commits);
        let (mut txns, mut bytes) = (0, 0);
        while let Some(next) = self.waiting.front() {
            (txns, bytes) = (txns + next.txns(), bytes + next.bytes());
            let first = !group.iter().any(Ask::is_commit);
            if !first && (txns > TXNS_MAX || bytes > BYTES_MAX) {
                break;
            }
            group.extend(self.waiting.pop_front());
        }
        group
    }
}
