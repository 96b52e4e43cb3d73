//! Where everything that happens to a node comes together, most urgent first.

use std::collections::VecDeque;

use evenkeel_core::effect::Ticket;
use evenkeel_core::input::Input;
use evenkeel_core::load::Sample;
use evenkeel_core::registry::Outcome;
use tokio::sync::mpsc;

use super::commits::Made;
use super::timer::Timer;
use crate::executor::News;
use crate::handle::Order;
use crate::history::Told;

/// How many answers of the registry may wait. Senders wait when it is full, so news is never dropped.
const WAITING_MAX: usize = 64;
/// After so many others that were ready one of history's words is heard, and after as many more a command: where a node
/// has more to do than it can, the rest is always ready.
const OTHERS_MAX: u32 = 8;
/// How many commands may wait.
pub(super) const ORDERS_MAX: usize = 256;

/// One thing that happened.
pub(super) enum Happening {
    /// The time to sleep is over.
    Woken,
    /// News from the registry.
    Inputs(Vec<Input>),
    /// The answers to one batch of commits, and what was made by it.
    Committed(Vec<(Ticket, Outcome)>, Made),
    /// What was measured of this host.
    Sampled(Sample),
    /// News from an executor.
    News(News),
    /// News from history.
    Told(Told),
    /// Somebody wants something.
    Order(Order),
    /// The registry cannot be used any more.
    Fatal(String),
    /// What the node keeps something in cannot be used any more: nothing goes on, and that is told.
    Failed(String),
}

/// The ends that others send into.
#[derive(Clone)]
pub(super) struct Sender {
    /// The lease's own door: its news never waits behind other news.
    pub(super) lease: mpsc::Sender<Happening>,
    pub(super) registry: mpsc::Sender<Happening>,
}

/// The ends that the driver reads.
pub(super) struct Inbox {
    lease: mpsc::Receiver<Happening>,
    registry: mpsc::Receiver<Happening>,
    /// Unbounded, since whoever reports an end must not wait; there are at most as many as runs were started.
    news: mpsc::UnboundedReceiver<News>,
    /// Unbounded for the same reason; there are at most as many as verdicts were given.
    told: mpsc::UnboundedReceiver<Told>,
    orders: mpsc::Receiver<Order>,
    first: VecDeque<Happening>,
    /// How many were ready since a command was looked for.
    others: u32,
}

impl Inbox {
    pub(super) fn new(
        news: mpsc::UnboundedReceiver<News>,
        told: mpsc::UnboundedReceiver<Told>,
        orders: mpsc::Receiver<Order>,
    ) -> (Self, Sender) {
        let (to_lease, lease) = mpsc::channel(WAITING_MAX);
        let (to_registry, registry) = mpsc::channel(WAITING_MAX);
        let inbox = Self { lease, registry, news, told, orders, first: VecDeque::new(), others: 0 };
        (inbox, Sender { lease: to_lease, registry: to_registry })
    }

    /// The next happening, `Woken` when the timer rings; `None` when nobody holds a handle any more.
    pub(super) async fn next(&mut self, timer: &mut Timer) -> Option<Happening> {
        if let Some(first) = self.first.pop_front() {
            return Some(first);
        }
        tokio::select! {
            biased;
            Some(happening) = self.lease.recv() => Some(happening),
            () = timer.rings() => Some(Happening::Woken),
            Some(news) = self.news.recv() => Some(Happening::News(news)),
            Some(happening) = self.registry.recv() => Some(happening),
            Some(told) = self.told.recv() => Some(Happening::Told(told)),
            order = self.orders.recv() => order.map(Happening::Order),
        }
    }

    /// Another one, if it is there already.
    pub(super) fn ready(&mut self) -> Option<Happening> {
        if let Some(urgent) = self.first.pop_front().or_else(|| self.lease.try_recv().ok()) {
            return Some(urgent);
        }
        self.others += 1;
        let in_turn = match self.others {
            OTHERS_MAX => self.told.try_recv().ok().map(Happening::Told),
            others if others >= 2 * OTHERS_MAX => {
                self.others = 0;
                self.orders.try_recv().ok().map(Happening::Order)
            }
            _ => None,
        };
        in_turn
            .or_else(|| self.news.try_recv().ok().map(Happening::News))
            .or_else(|| self.registry.try_recv().ok())
            .or_else(|| self.told.try_recv().ok().map(Happening::Told))
            .or_else(|| self.orders.try_recv().ok().map(Happening::Order))
    }

    /// News of a run that are there already.
    pub(super) fn ready_news(&mut self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// An order that is there already.
    pub(super) fn ready_order(&mut self) -> Option<Order> {
        self.orders.try_recv().ok()
    }

    /// The next news of a run, whatever else waits.
    pub(super) async fn news(&mut self) -> Option<News> {
        self.news.recv().await
    }

    /// Comes first next time.
    pub(super) fn put_back(&mut self, happening: Happening) {
        self.first.push_back(happening);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_heard_while_more_urgent_things_are_always_ready() {
        let ((news, to_news), (told, to_told), (orders, to_orders)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel(), mpsc::channel(ORDERS_MAX));
        let (mut inbox, sender) = Inbox::new(to_news, to_told, to_orders);
        assert!(orders.try_send(Order::Halt).is_ok() && told.send(Told::Able(false)).is_ok());
        let mut heard = Vec::new();
        // What comes first of all takes nothing of the turns, and drops nothing that had one.
        for _ in 0..2 * OTHERS_MAX {
            inbox.put_back(Happening::Woken);
            heard.extend(inbox.ready());
        }
        for _ in 0..2 * OTHERS_MAX {
            assert!(news.send(News::Able(true)).is_ok());
            assert!(sender.registry.try_send(Happening::Inputs(Vec::new())).is_ok());
            heard.extend(inbox.ready());
        }
        let of = |is: fn(&Happening) -> bool| heard.iter().position(is);
        let word = of(|happening| matches!(happening, Happening::Told(_)));
        let order = of(|happening| matches!(happening, Happening::Order(_)));
        assert!(word.is_some() && word < order, "{word:?} {order:?}");
    }
}
