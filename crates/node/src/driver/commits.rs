//! Group commit: transactions decided during a trip to the registry go out together in the next one.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Ticket;
use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Revision, Txn, TxnOutcome};
use evenkeel_registry::Registry;

use super::inbox::{DriverEvent, EventSender};
use crate::clock;
use crate::metrics::NodeMetrics;

/// How many trips may be in flight at once, so that neither the registry nor the node waits for the other.
const TRIPS_MAX: usize = 4;
/// The most transactions of one trip: with larger ones the registry and the node would wait for each other.
const BATCH_MAX: usize = 1_000;

/// Transactions that wait for a trip.
pub(super) struct CommitQueue {
    waiting: Vec<(Ticket, CommitKind, Txn)>,
    trips: usize,
    /// The time after which an answer counts as lost.
    patience: Duration,
    metrics: Arc<NodeMetrics>,
}

/// How far the transactions of a batch have moved the registry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommitProgress {
    /// The revision after all of them; 0 if none was made.
    pub(super) revision: Revision,
    /// The newest of them that wrote a permanent entry: its key and revision.
    pub(super) entry: Option<(Key, Revision)>,
}

impl CommitProgress {
    /// The progress by the outcomes of transactions, each with the permanent entry that it writes.
    fn by(outcomes: &[TxnOutcome], keeps: Vec<Option<Key>>) -> Self {
        let mut made = Self::default();
        for (outcome, key) in outcomes.iter().zip(keeps) {
            let TxnOutcome::Applied(at) = *outcome else { continue };
            made.revision = made.revision.max(at);
            made.keep(key.map(|key| (key, at)));
        }
        made
    }

    /// Merges another one. Answers may arrive in another order than their transactions were made.
    pub(super) fn add(&mut self, other: Self) {
        self.revision = self.revision.max(other.revision);
        self.keep(other.entry);
    }

    fn keep(&mut self, entry: Option<(Key, Revision)>) {
        let at = |entry: &Option<(Key, Revision)>| entry.as_ref().map(|(_, at)| *at);
        if at(&entry) > at(&self.entry) {
            self.entry = entry;
        }
    }
}

impl CommitQueue {
    pub(super) fn new(patience: Duration, metrics: Arc<NodeMetrics>) -> Self {
        Self { waiting: Vec::new(), trips: 0, patience, metrics }
    }

    pub(super) fn add(&mut self, ticket: Ticket, kind: CommitKind, txn: Txn) {
        self.waiting.push((ticket, kind, txn));
    }

    /// Notes that a trip has returned.
    pub(super) fn returned(&mut self) {
        self.trips -= 1;
    }

    /// Sends the waiting transactions, as far as trips allow. Trips begin when the driver yields to other tasks.
    pub(super) async fn flush(&mut self, registry: &Arc<dyn Registry>, sender: &EventSender) {
        let before = self.trips;
        while self.trips < TRIPS_MAX && !self.waiting.is_empty() {
            self.trips += 1;
            let rest = self.waiting.split_off(self.waiting.len().min(BATCH_MAX));
            let batch = std::mem::replace(&mut self.waiting, rest);
            let (tickets, txns): (Vec<(Ticket, CommitKind)>, Vec<Txn>) =
                batch.into_iter().map(|(ticket, kind, txn)| ((ticket, kind), txn)).unzip();
            let (registry, sender, patience) = (registry.clone(), sender.clone(), self.patience);
            let metrics = self.metrics.clone();
            tokio::spawn(async move {
                let keeps = txns.iter().map(|txn| txn.keeps().cloned()).collect();
                let asked = clock::mono_micros();
                let answered = tokio::time::timeout(patience, registry.commit(txns)).await;
                metrics.answered(clock::mono_micros() - asked);
                let mut outcomes = answered.unwrap_or_default();
                if let Some(trouble) = registry.last_error() {
                    tracing::warn!("commits are not answered: {trouble}");
                }
                outcomes.resize(tickets.len(), TxnOutcome::Unknown);
                let made = CommitProgress::by(&outcomes, keeps);
                let kinds = tickets.iter().map(|(_, kind)| *kind);
                kinds.zip(&outcomes).for_each(|(kind, outcome)| metrics.committed(kind, outcome));
                let answers = tickets.into_iter().map(|(ticket, _)| ticket).zip(outcomes).collect();
                // A driver that has stopped needs no answers.
                let _ = sender.registry.send(DriverEvent::Committed(answers, made)).await;
            });
        }
        if self.trips > before {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_was_made_and_stays_is_remembered() {
        let applied = |at| TxnOutcome::Applied(Revision(at));
        let [a, b, c] = ["a", "b", "c"].map(|key| Some(Key::from_stored(key)));
        let by = |outcomes: &[TxnOutcome]| {
            CommitProgress::by(outcomes, vec![a.clone(), b.clone(), c.clone(), None])
        };
        let made = |revision, key: &Option<Key>, at| CommitProgress {
            revision: Revision(revision),
            entry: key.clone().map(|key| (key, Revision(at))),
        };
        let refused = || TxnOutcome::Refused(Vec::new());
        assert_eq!(by(&[applied(4), applied(6), applied(5), applied(7)]), made(7, &b, 6));
        assert_eq!(by(&[applied(4), TxnOutcome::Unknown, refused(), applied(7)]), made(7, &a, 4));
        assert_eq!(by(&[TxnOutcome::Unknown, refused(), TxnOutcome::Unknown, applied(7)]), made(7, &None, 0));
        assert_eq!(by(&[TxnOutcome::Unknown, refused(), refused(), refused()]), CommitProgress::default());
        let mut all = made(5, &a, 4);
        all.add(made(9, &None, 0));
        all.add(made(3, &b, 3));
        assert_eq!(all, made(9, &a, 4));
    }
}
