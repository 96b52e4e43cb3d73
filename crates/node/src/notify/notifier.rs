//! A notifier as the settings give it: which events it reports, and by which channel.

use std::time::Duration;

use evenkeel_core::effect::{event_kinds, find_event_kind};
use evenkeel_core::ids::NotifierName;

use super::email::Email;
use super::webhook::Webhook;

/// The kind of event with this name that notifiers send, with dots or underscores.
fn sent_kind(name: &str) -> Option<&'static str> {
    find_event_kind(name).filter(|kind| kind.notified).map(|kind| kind.name)
}

/// A notifier: which events it reports, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifier {
    /// The name by which jobs refer to it.
    pub(super) name: Option<NotifierName>,
    pub(super) on: Vec<String>,
    pub(super) channel: NotifyChannel,
    /// The pauses before the second and third try.
    pub(super) pauses: [Duration; 2],
    /// Within this time, events of one kind and subject are sent once; the next one carries how many more there were.
    pub window: Duration,
    /// How long one try may take.
    pub timeout: Duration,
}

/// The channel of a notifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyChannel {
    /// The event is posted to an address as JSON.
    Webhook(Box<Webhook>),
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
            NotifyChannel::Command(argv) if argv.first().is_none_or(String::is_empty) => {
                return Err("the command is empty: write command = [\"/path/to/program\", …]".to_owned());
            }
            NotifyChannel::Webhook(_) | NotifyChannel::Command(_) | NotifyChannel::Email(_) => {}
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

    /// Whether its receiver keeps incidents that open and close.
    pub(super) fn keeps_incidents(&self) -> bool {
        matches!(&self.channel, NotifyChannel::Webhook(hook) if hook.shape().keeps_incidents())
    }

    pub(super) fn wants(&self, kind: &str) -> bool {
        self.on.iter().any(|on| on == "*" || sent_kind(on) == Some(kind))
    }
}
