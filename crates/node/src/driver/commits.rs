//! Group commit: whatever was decided while a trip to the registry was under way goes out in the next one.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::effect::Ticket;
use evenkeel_core::registry::{Outcome, Txn};
use evenkeel_registry::Registry;

use super::inbox::{Happening, Sender};

/// How many trips may be under way at once: one is being made while the next is prepared.
const TRIPS_MAX: usize = 2;
/// The most transactions of one trip.
const BATCH_MAX: usize = 5_000;

/// Transactions that wait for a trip.
pub(super) struct Commits {
    waiting: Vec<(Ticket, Txn)>,
    trips: usize,
    /// After so long the answer counts as lost.
    patience: Duration,
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

    /// Sends what waits, as far as trips allow.
    pub(super) fn flush(&mut self, registry: &Arc<dyn Registry>, sender: &Sender) {
        while self.trips < TRIPS_MAX && !self.waiting.is_empty() {
            self.trips += 1;
            let rest = self.waiting.split_off(self.waiting.len().min(BATCH_MAX));
            let batch = std::mem::replace(&mut self.waiting, rest);
            let (tickets, txns): (Vec<Ticket>, Vec<Txn>) = batch.into_iter().unzip();
            let (registry, sender, patience) = (registry.clone(), sender.clone(), self.patience);
            tokio::spawn(async move {
                let answered = tokio::time::timeout(patience, registry.commit(txns)).await;
                let mut outcomes = answered.unwrap_or_default();
                if let Some(trouble) = registry.trouble() {
                    tracing::warn!("commits are not answered: {trouble}");
                }
                outcomes.resize(tickets.len(), Outcome::Unknown);
                let answers = tickets.into_iter().zip(outcomes).collect();
                let _ = sender.registry.send(Happening::Committed(answers)).await;
            });
        }
    }
}
