//! Executes HTTP requests from this process.
//!
//! One thread runs all of them. Dropping a request closes its connection, and nothing more is sent. The server may
//! still process what it has received already; the fencing token is for that case.

mod beat;
mod connect;
mod egress;
mod exchange;
mod tls;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;
use std::{io, thread};

use evenkeel_core::effect::{Run, StopReason};
use evenkeel_core::ids::{JobName, RunId};
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::Http;
use evenkeel_core::job::http::HTTP_TIMEOUT;
use evenkeel_core::time::{Millis, Mono};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};

use super::report::EndReporter;
use crate::clock;
use crate::config::Config;
use crate::executor::{AttemptResult, ExecutorEvent, TrustDeadline};
use crate::logs::{LogLimits, LogWriter, Logs};
use crate::secrets::NodeSecrets;
use crate::trace::TraceContext;
use crate::trace::ids::RunEnvironment;
use beat::PendingBeats;
use connect::HttpContext;
use egress::EgressPolicy;
use exchange::HttpCall;

pub use egress::Network;

/// How many names are resolved at once: the system's resolver blocks a thread for each.
const LOOKUPS: usize = 16;
/// Added to the reason of a request that was dropped.
const DROPPED: &str = "the request was dropped; the server may go on with what it has";

/// The executor of HTTP requests.
pub(crate) struct HttpExecutor {
    environment: RunEnvironment,
    logs: Logs,
    keep: u64,
    events: mpsc::UnboundedSender<ExecutorEvent>,
    context: Arc<HttpContext>,
    pub(super) secrets: NodeSecrets,
    running: BTreeMap<RunId, oneshot::Sender<StopReason>>,
    trusted_until: Arc<AtomicI64>,
    worker: Option<HttpWorker>,
    beats: PendingBeats,
}

/// The thread that runs all requests; it ends when this is dropped, and the requests with it.
struct HttpWorker {
    runtime: Handle,
    _until: oneshot::Sender<()>,
}

impl HttpWorker {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(LOOKUPS).build()?;
        let handle = runtime.handle().clone();
        let (until, dropped) = oneshot::channel();
        thread::Builder::new().name("evenkeel-http".into()).spawn(move || {
            // Nothing is ever sent: the closing of the channel is the signal.
            let _ = runtime.block_on(dropped);
            // A resolver that still waits must not keep the node.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, _until: until })
    }
}

impl HttpExecutor {
    pub(crate) fn new(
        config: &Config,
        environment: RunEnvironment,
        secrets: NodeSecrets,
        logs: Logs,
        news: mpsc::UnboundedSender<ExecutorEvent>,
    ) -> Self {
        Self {
            environment,
            logs,
            keep: config.retention.output,
            events: news,
            context: HttpContext::new(EgressPolicy::new(config.http_allow.clone())),
            secrets,
            running: BTreeMap::new(),
            trusted_until: Arc::new(AtomicI64::new(i64::MIN)),
            worker: None,
            beats: PendingBeats::default(),
        }
    }

    /// Sends a heartbeat of this job to a monitor, after a success. It may be lost: then the monitor raises an alarm.
    pub(crate) fn beat(&mut self, job: &JobName, url: &str) {
        let (beats, context) = (self.beats.clone(), self.context.clone());
        match self.worker() {
            Ok(worker) => beats.send(&worker.runtime, context, job, url),
            Err(e) => tracing::warn!("the heartbeat of {job} was not sent: no thread could be started: {e}"),
        }
    }

    /// The thread that runs requests, which the first one starts.
    fn worker(&mut self) -> io::Result<&HttpWorker> {
        let worker = self.worker.take().map_or_else(HttpWorker::start, Ok)?;
        Ok(self.worker.insert(worker))
    }

    /// Allows requests to be in flight until the new deadline.
    pub(crate) fn trust(&mut self, trust: TrustDeadline) {
        self.trusted_until.store(trust.until.0, Ordering::Release);
    }

    /// Drops every request once the trust deadline has passed.
    pub(crate) fn fence(&mut self, now: Mono) {
        if now.0 >= self.trusted_until.load(Ordering::Acquire) {
            for (_, stop) in std::mem::take(&mut self.running) {
                let _ = stop.send(StopReason::Fenced);
            }
        }
    }

    pub(crate) fn stop(&mut self, run: &RunId, reason: StopReason) {
        if let Some(stop) = self.running.remove(run) {
            let _ = stop.send(reason);
        }
    }

    pub(crate) fn forget(&mut self, run: &RunId) {
        self.running.remove(run);
    }

    pub(crate) fn start(&mut self, run: Run, http: Box<Http>) {
        let runtime = match self.worker() {
            Ok(worker) => worker.runtime.clone(),
            Err(e) => {
                let reason = format!("no thread could be started for requests: {e}");
                let _ = self.events.send(ExecutorEvent::Ended(AttemptResult::failed(&run, reason)));
                return;
            }
        };
        let (stop, stopped) = oneshot::channel();
        self.running.insert(run.id.clone(), stop);
        let task = HttpTask {
            log: (self.logs.clone(), self.keep),
            events: self.events.clone(),
            stopped,
            trusted_until: self.trusted_until.clone(),
            context: self.context.clone(),
            call: HttpCall {
                facts: self.environment.of(&run),
                parameters: run.parameters.clone(),
                http,
                secrets: self.secrets.of(&run.id.job),
            },
            trace: self.environment.context(&run),
            run,
        };
        runtime.spawn(task.execute());
    }
}

/// One request, from its start to its end.
struct HttpTask {
    run: Run,
    trace: TraceContext,
    call: HttpCall,
    log: (Logs, u64),
    events: mpsc::UnboundedSender<ExecutorEvent>,
    stopped: oneshot::Receiver<StopReason>,
    trusted_until: Arc<AtomicI64>,
    context: Arc<HttpContext>,
}

impl HttpTask {
    async fn execute(self) {
        let Self {
            run,
            trace,
            call,
            log: (logs, keep),
            events: news,
            stopped,
            trusted_until,
            context: reach,
        } = self;
        // Checked last, right before anything is sent: the task may have waited long for its turn (law 2).
        if clock::now().mono >= run.not_after {
            let _ = news.send(ExecutorEvent::NotStarted { run: run.id.clone(), attempt: run.attempt });
            return;
        }
        let mut report = EndReporter::new(news, &run, "the request panicked");
        let path = logs.path(&run.id, run.attempt);
        let mut log = LogWriter::new(&path, LogLimits { keep, rate: None }, |e| {
            tracing::warn!(
                run = %run.id, trace_id = %trace.trace, span_id = %trace.span,
                "no answer is kept in {}: {e}", path.display()
            );
        });
        let limit = run.timeout.unwrap_or(HTTP_TIMEOUT);
        let (ended, reason) = tokio::select! {
            biased;
            // If nothing can stop it any more, nothing tracks it either.
            reason = stopped => (RunOutcome::Stopped(reason.unwrap_or(StopReason::Fenced)), DROPPED.to_owned()),
            () = untrusted(&trusted_until) => (RunOutcome::Stopped(StopReason::Fenced), DROPPED.to_owned()),
            end = exchange::make(&call, &reach, &mut log) => match end {
                Ok(status) => (RunOutcome::Succeeded, status),
                Err(why) => (RunOutcome::Failed(None), why),
            },
            () = tokio::time::sleep(duration(limit)) => {
                let said = format!("no whole answer within {limit}: {DROPPED}");
                (RunOutcome::Stopped(StopReason::TimedOut), said)
            }
        };
        log.finish();
        report.set_output(log.written());
        report.end(ended, reason);
    }
}

/// Waits until the node is no longer trusted. It checks at each poll of its task, so that a process which was paused
/// past the deadline sends nothing more when it wakes (law 4).
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
