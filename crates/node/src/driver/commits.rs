//! Group commit: whatever was decided while a trip to the registry was under way goes out in the next one.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::effect::Ticket;
use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Outcome, Revision, Txn, Write};
use evenkeel_registry::Registry;

use super::inbox::{Happening, Sender};

/// How many trips may be under way at once, so that the registry never waits for the node or the node for it.
const TRIPS_MAX: usize = 4;
/// The most transactions of one trip: larger ones make the two take turns.
const BATCH_MAX: usize = 1_000;

/// Transactions that wait for a trip.
pub(super) struct Commits {
    waiting: Vec<(Ticket, Txn)>,
    trips: usize,
    /// After so long the answer counts as lost.
    patience: Duration,
}

/// How far what was made of a batch has brought the registry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Made {
    /// By all of it; 0 if nothing was made.
    pub(super) revision: Revision,
    /// An entry of it that stays when nodes go, and when it was written.
    pub(super) entry: Option<(Key, Revision)>,
}

impl Made {
    /// By what became of a batch, of which that one was to write an entry that stays.
    fn by(outcomes: &[Outcome], last: Option<(usize, Key)>) -> Self {
        let at = |outcome: &Outcome| match outcome {
            Outcome::Applied(revision) => Some(*revision),
            _ => None,
        };
        let entry = last.and_then(|(n, key)| Some((key, outcomes.get(n).and_then(at)?)));
        Self { revision: outcomes.iter().filter_map(at).max().unwrap_or_default(), entry }
    }
}

/// An entry that one of these writes and no lease takes along, and which of them does: the last that writes any.
fn stays(txns: &[Txn]) -> Option<(usize, Key)> {
    let key = |write: &Write| match write {
        Write::Put { key, owner: None, .. } => Some(key.clone()),
        _ => None,
    };
    txns.iter().enumerate().rev().find_map(|(n, txn)| Some((n, txn.writes.iter().find_map(key)?)))
}

impl Commits {
    pub(super) fn new(patience: Duration) -> Self {
        Self { waiting: Vec::new(), trips: 0, patience }
    }

    pub(super) fn add(&mut self, ticket: Ticket, txn: Txn) {
        self.waiting.push((ticket, txn));
    }

    /// A trip came back.
    pub(super) fn returned(&mut self) {
        self.trips -= 1;
    }

    /// Sends what waits, as far as trips allow. Trips begin when the driver lets other tasks have their turn.
    pub(super) async fn flush(&mut self, registry: &Arc<dyn Registry>, sender: &Sender) {
        let before = self.trips;
        while self.trips < TRIPS_MAX && !self.waiting.is_empty() {
            self.trips += 1;
            let rest = self.waiting.split_off(self.waiting.len().min(BATCH_MAX));
            let batch = std::mem::replace(&mut self.waiting, rest);
            let (tickets, txns): (Vec<Ticket>, Vec<Txn>) = batch.into_iter().unzip();
            let (registry, sender, patience) = (registry.clone(), sender.clone(), self.patience);
            tokio::spawn(async move {
                let last = stays(&txns);
                let answered = tokio::time::timeout(patience, registry.commit(txns)).await;
                let mut outcomes = answered.unwrap_or_default();
                if let Some(trouble) = registry.trouble() {
                    tracing::warn!("commits are not answered: {trouble}");
                }
                outcomes.resize(tickets.len(), Outcome::Unknown);
                let made = Made::by(&outcomes, last);
                let answers = tickets.into_iter().zip(outcomes).collect();
                let _ = sender.registry.send(Happening::Committed(answers, made)).await;
            });
        }
        if self.trips > before {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::registry::LeaseId;

    use super::*;

    fn puts(keys: &[(&str, Option<u64>)]) -> Txn {
        let put = |(key, owner): &(&str, Option<u64>)| Write::Put {
            key: Key::from_stored(*key),
            value: b"".as_slice().into(),
            owner: owner.map(LeaseId),
        };
        Txn { guards: Vec::new(), writes: keys.iter().map(put).collect() }
    }

    #[test]
    fn what_stays_of_a_batch_is_remembered_if_it_was_made() {
        let leased = puts(&[("node", Some(1))]);
        let txns = [puts(&[("a", None)]), puts(&[("own", Some(1)), ("b", None)]), leased.clone()];
        let last = stays(&txns);
        assert_eq!(last, Some((1, Key::from_stored("b"))));
        let applied = |at| Outcome::Applied(Revision(at));
        let made = Made::by(&[applied(4), applied(5), applied(6)], last.clone());
        assert_eq!(made, Made { revision: Revision(6), entry: Some((Key::from_stored("b"), Revision(5))) });
        // Of what was not made nothing is to be found.
        let made = Made::by(&[applied(4), Outcome::Unknown, applied(6)], last);
        assert_eq!(made, Made { revision: Revision(6), entry: None });
        assert_eq!(stays(&[leased]), None);
        assert_eq!(Made::by(&[Outcome::Unknown], None), Made::default());
    }
}
