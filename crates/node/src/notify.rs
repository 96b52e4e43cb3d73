//! Notifiers: they report events of a node by a webhook, a command or e-mail.
//!
//! The driver passes each reported event on, and never waits: events that repeat too often are counted (`window`), the
//! rest queues up for a thread per notifier, which tries a few times and then reports the failure. Only the node whose
//! commit made an event sends it: one notification per transition in the whole cluster.

mod email;
mod exchange;
mod heartbeat;
mod incident;
mod message;
mod notices;
mod notifier;
mod receipt;
mod secret_source;
mod send;
mod shape;
mod webhook;
mod window;
mod worker;

use std::time::Duration;

use evenkeel_core::effect::{EventLevel, EventReport};
use evenkeel_core::job::Occasion;
use evenkeel_core::time::Now;

use crate::history::WeakHistory;
pub use email::Email;
pub use heartbeat::OutgoingHeartbeat;
use message::Message;
pub use notifier::{Notifier, NotifyChannel};
pub use secret_source::SecretSource;
pub use shape::WebhookShape;
pub use webhook::Webhook;
use window::{DedupDecision, DedupWindow};
use worker::NotifyWorker;

/// Writes an event to the log, at its level.
pub(crate) fn log_event(report: &EventReport) {
    let text = &report.text;
    match report.level {
        EventLevel::Debug => tracing::debug!("{text}"),
        EventLevel::Info => tracing::info!("{text}"),
        EventLevel::Warn => tracing::warn!("{text}"),
    }
}

/// All notifiers of a node.
pub(crate) struct Notifiers {
    all: Vec<(Notifier, DedupWindow, NotifyWorker)>,
    /// The occasions that some of them want for every job.
    occasions: Vec<Occasion>,
    history: WeakHistory,
}

impl Notifiers {
    /// Starts a thread for each.
    pub(crate) fn start(all: Vec<Notifier>, node: &str, history: &WeakHistory) -> std::io::Result<Self> {
        let asked = |occasion: &Occasion| all.iter().any(|notifier| notifier.wants(occasion.kind()));
        let asked = Occasion::ALL.into_iter().filter(asked).collect();
        let started = all.into_iter().map(|notifier| {
            let worker = NotifyWorker::start(notifier.clone(), node.to_owned(), history.clone())?;
            let window = DedupWindow::new(notifier.window, notifier.keeps_incidents());
            Ok((notifier, window, worker))
        });
        let all = started.collect::<std::io::Result<_>>()?;
        Ok(Self { all, occasions: asked, history: history.clone() })
    }

    /// Queues an event for every notifier that wants it.
    pub(crate) fn notify(&mut self, now: Now, node: &str, report: &EventReport) {
        let (kind, mut message) = (report.kind, None);
        for (_, window, worker) in self.all.iter_mut().filter(|(notifier, ..)| notifier.wants(kind)) {
            let message = message.get_or_insert_with(|| Message::of(now.wall, node, report));
            if let DedupDecision::Send { suppressed } = window.ask(now.mono, kind, &message.subject) {
                worker.put(Message { suppressed, ..message.clone() }, None);
            }
        }
    }

    /// Waits until the queues are sent, at most this long.
    pub(crate) async fn close(self, bound: Duration) {
        let workers: Vec<_> = self.all.into_iter().map(|(_, _, worker)| worker.close()).collect();
        let all = async {
            for ended in workers {
                let _ = ended.await;
            }
        };
        if tokio::time::timeout(bound, all).await.is_err() {
            tracing::warn!("some notifications were not told within {bound:?}");
        }
    }
}

#[cfg(test)]
mod tests;
