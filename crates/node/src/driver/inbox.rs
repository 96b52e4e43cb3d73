//! Collects everything that happens to a node, and delivers the most urgent first.

use std::collections::VecDeque;
use std::sync::Arc;

use evenkeel_core::effect::Ticket;
use evenkeel_core::input::Input;
use evenkeel_core::load::HostLoad;
use evenkeel_core::registry::TxnOutcome;
use tokio::sync::mpsc;

use super::commits::CommitProgress;
use super::timer::Timer;
use crate::executor::ExecutorEvent;
use crate::history::HistoryEvent;
use crate::metrics::NodeMetrics;
use crate::request::HandleRequest;

/// How many answers of the registry may wait. Senders wait when it is full, so no input is dropped.
const WAITING_MAX: usize = 64;
/// After this many other ready events, one event of history is taken, and after as many more a request: when a node is
/// overloaded, the other sources are always ready.
const OTHERS_MAX: u32 = 8;
/// How many requests may wait.
pub(super) const REQUESTS_MAX: usize = 256;

/// One event for the driver.
pub(super) enum DriverEvent {
    /// The time to sleep is over.
    Woken,
    /// Inputs from the registry.
    Inputs(Vec<Input>),
    /// The answers to one batch of commits, and how far the batch moved the registry.
    Committed(Vec<(Ticket, TxnOutcome)>, CommitProgress),
    /// A measurement of this host.
    Sampled(HostLoad),
    /// An event from an executor.
    Executor(ExecutorEvent),
    /// An event from history.
    History(HistoryEvent),
    /// A request from a handle.
    Request(HandleRequest),
    /// The registry cannot be used any more.
    Fatal(String),
    /// A storage of the node cannot be used any more: the node stops with this reason.
    Failed(String),
}

/// The senders of the inbox.
#[derive(Clone)]
pub(super) struct EventSender {
    pub(super) metrics: Arc<NodeMetrics>,
    /// The lease's own channel: its events never wait behind others.
    pub(super) lease: mpsc::Sender<DriverEvent>,
    pub(super) registry: mpsc::Sender<DriverEvent>,
}

/// The receivers, which the driver reads.
pub(super) struct Inbox {
    lease: mpsc::Receiver<DriverEvent>,
    registry: mpsc::Receiver<DriverEvent>,
    /// Unbounded, since the sender that reports an end must not wait; there are at most as many events as started runs.
    executor: mpsc::UnboundedReceiver<ExecutorEvent>,
    /// Unbounded for the same reason; there are at most as many events as verdicts.
    history: mpsc::UnboundedReceiver<HistoryEvent>,
    requests: mpsc::Receiver<HandleRequest>,
    first: VecDeque<DriverEvent>,
    /// How many events were ready since a request was last taken.
    others: u32,
}

impl Inbox {
    pub(super) fn new(
        news: mpsc::UnboundedReceiver<ExecutorEvent>,
        told: mpsc::UnboundedReceiver<HistoryEvent>,
        orders: mpsc::Receiver<HandleRequest>,
        metrics: Arc<NodeMetrics>,
    ) -> (Self, EventSender) {
        let (to_lease, lease) = mpsc::channel(WAITING_MAX);
        let (to_registry, registry) = mpsc::channel(WAITING_MAX);
        let inbox = Self {
            lease,
            registry,
            executor: news,
            history: told,
            requests: orders,
            first: VecDeque::new(),
            others: 0,
        };
        (inbox, EventSender { metrics, lease: to_lease, registry: to_registry })
    }

    /// The next event, `Woken` when the timer rings; `None` when the last handle is dropped.
    pub(super) async fn next(&mut self, timer: &mut Timer) -> Option<DriverEvent> {
        if let Some(first) = self.first.pop_front() {
            return Some(first);
        }
        tokio::select! {
            biased;
            Some(happening) = self.lease.recv() => Some(happening),
            () = timer.rings() => Some(DriverEvent::Woken),
            Some(news) = self.executor.recv() => Some(DriverEvent::Executor(news)),
            Some(happening) = self.registry.recv() => Some(happening),
            Some(told) = self.history.recv() => Some(DriverEvent::History(told)),
            order = self.requests.recv() => order.map(DriverEvent::Request),
        }
    }

    /// The next event, if one is there already.
    pub(super) fn ready(&mut self) -> Option<DriverEvent> {
        if let Some(urgent) = self.first.pop_front().or_else(|| self.lease.try_recv().ok()) {
            return Some(urgent);
        }
        self.others += 1;
        let in_turn = match self.others {
            OTHERS_MAX => self.history.try_recv().ok().map(DriverEvent::History),
            others if others >= 2 * OTHERS_MAX => {
                self.others = 0;
                self.requests.try_recv().ok().map(DriverEvent::Request)
            }
            _ => None,
        };
        in_turn
            .or_else(|| self.executor.try_recv().ok().map(DriverEvent::Executor))
            .or_else(|| self.registry.try_recv().ok())
            .or_else(|| self.history.try_recv().ok().map(DriverEvent::History))
            .or_else(|| self.requests.try_recv().ok().map(DriverEvent::Request))
    }

    /// The next event of an executor, if one is there already.
    pub(super) fn ready_executor_event(&mut self) -> Option<ExecutorEvent> {
        self.executor.try_recv().ok()
    }

    /// The next request, if one is there already.
    pub(super) fn ready_request(&mut self) -> Option<HandleRequest> {
        self.requests.try_recv().ok()
    }

    /// The next event of an executor, whatever else waits.
    pub(super) async fn next_executor_event(&mut self) -> Option<ExecutorEvent> {
        self.executor.recv().await
    }

    /// Puts an event back, to be the next one.
    pub(super) fn put_back(&mut self, happening: DriverEvent) {
        self.first.push_back(happening);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_heard_while_more_urgent_things_are_always_ready() {
        let ((news, to_news), (told, to_told), (orders, to_orders)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel(), mpsc::channel(REQUESTS_MAX));
        let (mut inbox, sender) = Inbox::new(to_news, to_told, to_orders, Arc::default());
        assert!(
            orders.try_send(HandleRequest::Halt).is_ok() && told.send(HistoryEvent::Writable(false)).is_ok()
        );
        let mut heard = Vec::new();
        // The most urgent events do not use up the turns of others, and do not drop an event whose turn it was.
        for _ in 0..2 * OTHERS_MAX {
            inbox.put_back(DriverEvent::Woken);
            heard.extend(inbox.ready());
        }
        for _ in 0..2 * OTHERS_MAX {
            assert!(news.send(ExecutorEvent::Able(true)).is_ok());
            assert!(sender.registry.try_send(DriverEvent::Inputs(Vec::new())).is_ok());
            heard.extend(inbox.ready());
        }
        let of = |is: fn(&DriverEvent) -> bool| heard.iter().position(is);
        let word = of(|happening| matches!(happening, DriverEvent::History(_)));
        let order = of(|happening| matches!(happening, DriverEvent::Request(_)));
        assert!(word.is_some() && word < order, "{word:?} {order:?}");
    }
}
