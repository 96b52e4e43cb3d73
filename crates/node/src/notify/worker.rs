//! The thread that sends notifications: one per notifier, so that none waits for another's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use evenkeel_core::effect::Event;
use tokio::sync::oneshot;

use super::log_event;
use super::message::Message;
use super::notifier::{Notifier, NotifyChannel};
use super::receipt::Receipt;
use super::send;
use crate::clock;
use crate::history::{HistoryWrite, WeakHistory};

/// The most waiting events; beyond them events are counted and not sent.
const QUEUE_MAX: usize = 256;
/// How often a pause checks whether the node ends.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A notifier's thread, seen from the driver.
pub(super) struct NotifyWorker {
    queue: SyncSender<(Message, Option<Receipt>)>,
    shared: Arc<NotifyWorkerState>,
    ended: oneshot::Receiver<()>,
}

#[derive(Default)]
struct NotifyWorkerState {
    /// How many were not sent since the queue was full.
    dropped: AtomicU64,
    /// Whether the node ends: nothing is tried again.
    closing: AtomicBool,
}

impl NotifyWorker {
    pub(super) fn start(notifier: Notifier, node: String, history: WeakHistory) -> std::io::Result<Self> {
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let (ending, ended) = oneshot::channel();
        let shared = Arc::new(NotifyWorkerState::default());
        let telling = NotifyTask { notifier, node, history, shared: shared.clone() };
        thread::Builder::new().name("evenkeel-notify".into()).spawn(move || {
            telling.run(&messages);
            let _ = ending.send(());
        })?;
        Ok(Self { queue, shared, ended })
    }

    /// Queues a message. Never waits.
    pub(super) fn put(&self, message: Message, receipt: Option<Receipt>) {
        if self.queue.try_send((message, receipt.clone())).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            receipt.iter().for_each(Receipt::done);
        }
    }

    /// Lets the thread end; what waits is still tried once.
    pub(super) fn close(self) -> oneshot::Receiver<()> {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.ended
    }
}

struct NotifyTask {
    notifier: Notifier,
    node: String,
    history: WeakHistory,
    shared: Arc<NotifyWorkerState>,
}

impl NotifyTask {
    fn run(&self, messages: &Receiver<(Message, Option<Receipt>)>) {
        while let Ok((message, receipt)) = messages.recv() {
            let failed = self.deliver(&message).err();
            let sent = failed.is_none();
            self.history.metrics().notified(if sent { "sent" } else { "failed" }, 1);
            // A notice that was not sent because the node ends is sent in its next life.
            if let Some(why) = failed {
                let Message { kind, subject, .. } = &message;
                self.fail(format!("{} did not get {kind} of {subject}: {why}", self.name()));
            }
            if sent || !self.shared.closing.load(Ordering::Relaxed) {
                receipt.iter().for_each(Receipt::done);
            }
            let dropped = self.shared.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                self.history.metrics().notified("dropped", dropped);
                self.fail(format!("{} did not get {dropped} events: too many waited", self.name()));
            }
        }
    }

    fn deliver(&self, message: &Message) -> Result<(), String> {
        let mut pauses = self.notifier.pauses.iter();
        loop {
            let Err(why) = send::send(&self.notifier.channel, message, self.notifier.timeout) else {
                return Ok(());
            };
            tracing::debug!("{} could not be reached: {why}", self.name());
            let again = pauses.next().is_some_and(|pause| self.rest(*pause));
            if !again {
                return Err(why);
            }
        }
    }

    /// Pauses; returns whether to continue.
    fn rest(&self, pause: Duration) -> bool {
        let slices = pause.as_millis() / LOOK_AGAIN.as_millis();
        (0..slices).all(|_| {
            thread::sleep(LOOK_AGAIN);
            !self.shared.closing.load(Ordering::Relaxed)
        })
    }

    /// Reports in the log and in history that a notification failed.
    fn fail(&self, text: String) {
        let report = Event::NotifyFailed(text).report();
        log_event(&report);
        self.history.put(HistoryWrite::event(clock::now().wall, self.node.clone(), &report));
    }

    fn name(&self) -> String {
        match &self.notifier.channel {
            NotifyChannel::Webhook(hook) => format!("webhook {}", hook.host()),
            NotifyChannel::Email(email) => format!("email by {}", email.host()),
            NotifyChannel::Command(argv) => format!("command {}", argv.first().map_or("", String::as_str)),
        }
    }
}
