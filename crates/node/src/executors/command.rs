//! Runs that are programs, executed through the guard process.

use evenkeel_core::effect::{Reason, Run};
use evenkeel_core::words::{NodeName, RunId};
use tokio::sync::mpsc;

use crate::executor::{Finish, News, Trust};
use crate::guard::{Attempt, BE_ALONE, Launch, Order};
use crate::logs::{Bounds, Logs};

/// The commands of this node.
pub(crate) struct CommandRuns {
    /// `None` when this program cannot be its own guard.
    orders: Option<mpsc::UnboundedSender<Order>>,
    node: NodeName,
    logs: Logs,
    bounds: Bounds,
    news: mpsc::UnboundedSender<News>,
}

impl CommandRuns {
    pub(crate) fn new(
        orders: Option<mpsc::UnboundedSender<Order>>,
        node: NodeName,
        logs: Logs,
        bounds: Bounds,
        news: mpsc::UnboundedSender<News>,
    ) -> Self {
        Self { orders, node, logs, bounds, news }
    }

    pub(crate) fn start(&mut self, run: Run, argv: Vec<String>) {
        let Some(orders) = &self.orders else {
            let reason = format!("this program runs no commands: {BE_ALONE}");
            let _ = self.news.send(News::Ended(Finish::failed(&run, reason)));
            return;
        };
        let environment = run.environment(&self.node);
        let launch = Launch {
            argv,
            environment: environment.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            setting: *run.setting,
            timeout: run.timeout.map(|span| span.0),
            not_after: run.not_after.0,
            log: self.logs.path(&run.id, run.attempt),
            keep: self.bounds.keep,
            rate: self.bounds.rate,
            id: Attempt { run: run.id, attempt: run.attempt },
            due: run.due,
            priority: run.priority,
            again: run.again,
        };
        // The keeper ends only after this sender is gone.
        let _ = orders.send(Order::Start(Box::new(launch)));
    }

    pub(crate) fn stop(&mut self, run: &RunId, reason: Reason) {
        self.order(Order::Stop { run: run.clone(), reason });
    }

    pub(crate) fn trust(&mut self, trust: Trust) {
        self.order(Order::Trust { until: trust.until.0, kill: trust.kill.0 });
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
    }
}
