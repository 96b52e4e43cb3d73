//! Runs that are requests, made by this process.
//!
//! One thread has them all. A request that is dropped is gone: its connection is closed and nothing more is sent. What
//! the server makes of what it has already is its own affair, which is what the fencing token is for.

mod connect;
mod egress;
mod exchange;
mod secrets;
mod tls;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;
use std::{io, thread};

use evenkeel_core::effect::{Reason, Run};
use evenkeel_core::input::Ended;
use evenkeel_core::job::Http;
use evenkeel_core::job::http::HTTP_TIMEOUT;
use evenkeel_core::time::{Millis, Mono};
use evenkeel_core::words::{NodeName, RunId};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};

use super::report::Report;
use crate::clock;
use crate::config::Config;
use crate::executor::{Finish, News, Trust};
use crate::logs::{Bounds, LogWriter, Logs};
use connect::Reach;
use egress::Egress;
use exchange::Call;
use secrets::Secrets;

pub use egress::Network;

/// How many names are asked for at once: the resolver of the system waits in a thread for each.
const LOOKUPS: usize = 16;
/// What is added to how a request ended that was dropped.
const DROPPED: &str = "the request was dropped; the server may go on with what it has";

/// The requests of this node.
pub(crate) struct HttpRuns {
    node: NodeName,
    logs: Logs,
    keep: u64,
    news: mpsc::UnboundedSender<News>,
    reach: Arc<Reach>,
    secrets: Secrets,
    under_way: BTreeMap<RunId, oneshot::Sender<Reason>>,
    trusted_until: Arc<AtomicI64>,
    worker: Option<Worker>,
}

/// The thread that has all requests; it ends when this is dropped, and they with it.
struct Worker {
    runtime: Handle,
    _until: oneshot::Sender<()>,
}

impl Worker {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(LOOKUPS).build()?;
        let handle = runtime.handle().clone();
        let (until, dropped) = oneshot::channel();
        thread::Builder::new().name("evenkeel-http".into()).spawn(move || {
            // Nothing is ever sent: the end of it is the word.
            let _ = runtime.block_on(dropped);
            // A resolver that still waits must not keep the node.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, _until: until })
    }
}

impl HttpRuns {
    pub(crate) fn new(config: &Config, logs: Logs, news: mpsc::UnboundedSender<News>) -> Self {
        Self {
            node: config.name.clone(),
            logs,
            keep: config.keep.output,
            news,
            reach: Reach::new(Egress::new(config.http_allow.clone())),
            secrets: Secrets(config.secrets.clone()),
            under_way: BTreeMap::new(),
            trusted_until: Arc::new(AtomicI64::new(i64::MIN)),
            worker: None,
        }
    }

    /// From now on requests may be under way until the new deadline.
    pub(crate) fn trust(&mut self, trust: Trust) {
        self.trusted_until.store(trust.until.0, Ordering::Release);
    }

    /// Drops every request once the trust deadline has passed.
    pub(crate) fn fence(&mut self, now: Mono) {
        if now.0 >= self.trusted_until.load(Ordering::Acquire) {
            for (_, stop) in std::mem::take(&mut self.under_way) {
                let _ = stop.send(Reason::Fenced);
            }
        }
    }

    pub(crate) fn stop(&mut self, run: &RunId, reason: Reason) {
        if let Some(stop) = self.under_way.remove(run) {
            let _ = stop.send(reason);
        }
    }

    pub(crate) fn forget(&mut self, run: &RunId) {
        self.under_way.remove(run);
    }

    pub(crate) fn start(&mut self, run: Run, http: Box<Http>) {
        let worker = match self.worker.take().map_or_else(Worker::start, Ok) {
            Ok(worker) => worker,
            Err(e) => {
                let reason = format!("no thread could be started for requests: {e}");
                let _ = self.news.send(News::Ended(Finish::failed(&run, reason)));
                return;
            }
        };
        let (stop, stopped) = oneshot::channel();
        self.under_way.insert(run.id.clone(), stop);
        let task = Task {
            log: (self.logs.clone(), self.keep),
            news: self.news.clone(),
            stopped,
            trusted_until: self.trusted_until.clone(),
            reach: self.reach.clone(),
            call: Call { facts: run.environment(&self.node), http, secrets: self.secrets.clone() },
            run,
        };
        worker.runtime.spawn(task.execute());
        self.worker = Some(worker);
    }
}

/// One request, from its start to its end.
struct Task {
    run: Run,
    call: Call,
    log: (Logs, u64),
    news: mpsc::UnboundedSender<News>,
    stopped: oneshot::Receiver<Reason>,
    trusted_until: Arc<AtomicI64>,
    reach: Arc<Reach>,
}

impl Task {
    async fn execute(self) {
        let Self { run, call, log: (logs, keep), news, stopped, trusted_until, reach } = self;
        // Checked last, right before anything is sent: the task may have waited long for its turn (law 2).
        if clock::now().mono >= run.not_after {
            let _ = news.send(News::NotStarted { run: run.id.clone(), attempt: run.attempt });
            return;
        }
        let mut report = Report::new(news, &run, "the request panicked");
        let path = logs.path(&run.id, run.attempt);
        let mut log = LogWriter::new(&path, Bounds { keep, rate: None }, |e| {
            tracing::warn!("no answer is kept in {}: {e}", path.display());
        });
        let limit = run.timeout.unwrap_or(HTTP_TIMEOUT);
        let (ended, reason) = tokio::select! {
            biased;
            // Without anybody who could stop it, nobody would know of it either.
            reason = stopped => (Ended::Stopped(reason.unwrap_or(Reason::Fenced)), DROPPED.to_owned()),
            () = untrusted(&trusted_until) => (Ended::Stopped(Reason::Fenced), DROPPED.to_owned()),
            end = exchange::make(&call, &reach, &mut log) => match end {
                Ok(status) => (Ended::Succeeded, status),
                Err(why) => (Ended::Failed(None), why),
            },
            () = tokio::time::sleep(duration(limit)) => {
                let said = format!("no whole answer within {limit}: {DROPPED}");
                (Ended::Stopped(Reason::TimedOut), said)
            }
        };
        report.kept(log.kept());
        report.end(ended, reason);
    }
}

/// Waits until the node is trusted no more. It looks at each turn of its task, so that a process which was paused past
/// the deadline sends nothing more when it wakes (law 4).
async fn untrusted(until: &AtomicI64) {
    let left = || Millis(until.load(Ordering::Acquire).saturating_sub(clock::now().mono.0));
    loop {
        let mut wait = pin!(tokio::time::sleep(duration(left())));
        poll_fn(|context| if left().0 <= 0 { Poll::Ready(()) } else { wait.as_mut().poll(context) }).await;
        if left().0 <= 0 {
            return;
        }
    }
}

fn duration(span: Millis) -> Duration {
    Duration::from_millis(u64::try_from(span.0).unwrap_or(0))
}

#[cfg(test)]
mod tests;
