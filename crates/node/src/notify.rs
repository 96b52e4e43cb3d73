//! Notifiers: they report events of a node by a webhook, a command or e-mail.
//!
//! The driver passes each reported event on, and never waits: events that repeat too often are counted (`window`), the
//! rest queues up for a thread per notifier, which tries a few times and then reports the failure. Only the node whose
//! commit made an event sends it: one notification per transition in the whole cluster.

mod email;
mod message;
mod notices;
mod send;
mod window;
mod worker;

use std::time::Duration;

use evenkeel_core::effect::{EventLevel, EventReport, event_kinds, find_event_kind};
use evenkeel_core::ids::NotifierName;
use evenkeel_core::job::Occasion;
use evenkeel_core::time::Now;

use crate::history::WeakHistory;
pub use email::{Email, Password};
use message::Message;
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

/// The kind of event with this name that notifiers send, with dots or underscores.
fn sent_kind(name: &str) -> Option<&'static str> {
    find_event_kind(name).filter(|kind| kind.notified).map(|kind| kind.name)
}

/// A notifier: which events it reports, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifier {
    /// The name by which jobs refer to it.
    name: Option<NotifierName>,
    on: Vec<String>,
    channel: NotifyChannel,
    /// The pauses before the second and third try.
    pauses: [Duration; 2],
    /// Within this time, events of one kind and subject are sent once; the next one carries how many more there were.
    pub window: Duration,
    /// How long one try may take.
    pub timeout: Duration,
}

/// The channel of a notifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyChannel {
    /// The event is posted to this address as JSON.
    Webhook(String),
    /// This program is started, with the event as JSON on its standard input and in its environment.
    Command(Vec<String>),
    /// A mail server delivers it to some addresses.
    Email(Box<Email>),
}

impl Notifier {
    /// A notifier of these kinds of events; `*` means all. `node.offline` and `node_offline` are the same.
    ///
    /// # Errors
    /// There is no such kind, or the channel is invalid; the text says the fix.
    pub fn new(on: Vec<String>, means: NotifyChannel) -> Result<Self, String> {
        if on.is_empty() {
            return Err("say on = [\"alarm\", …], or on = [\"*\"] for all events".to_owned());
        }
        Self::checked(None, on, means)
    }

    /// A notifier that jobs can name; it may have no kinds of its own.
    ///
    /// # Errors
    /// There is no such kind, or the channel is invalid; the text says the fix.
    pub fn named(name: NotifierName, on: Vec<String>, means: NotifyChannel) -> Result<Self, String> {
        Self::checked(Some(name), on, means)
    }

    /// The name by which jobs refer to it.
    #[must_use]
    pub fn name(&self) -> Option<&NotifierName> {
        self.name.as_ref()
    }

    fn checked(name: Option<NotifierName>, on: Vec<String>, means: NotifyChannel) -> Result<Self, String> {
        if let Some(unknown) = on.iter().find(|kind| *kind != "*" && sent_kind(kind).is_none()) {
            let sent: Vec<_> = event_kinds().filter(|kind| kind.notified).map(|kind| kind.name).collect();
            return Err(format!("no event is called {unknown:?}: use \"*\" or some of {}", sent.join(", ")));
        }
        match &means {
            NotifyChannel::Webhook(url) => send::check(url)?,
            NotifyChannel::Command(argv) if argv.first().is_none_or(String::is_empty) => {
                return Err("the command is empty: write command = [\"/path/to/program\", …]".to_owned());
            }
            NotifyChannel::Command(_) | NotifyChannel::Email(_) => {}
        }
        let pauses = [Duration::from_secs(1), Duration::from_secs(5)];
        Ok(Self {
            name,
            on,
            channel: means,
            pauses,
            window: Duration::from_mins(5),
            timeout: Duration::from_secs(10),
        })
    }

    fn wants(&self, kind: &str) -> bool {
        self.on.iter().any(|on| on == "*" || sent_kind(on) == Some(kind))
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
            let window = DedupWindow::new(notifier.window);
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
