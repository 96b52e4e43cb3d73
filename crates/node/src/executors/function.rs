//! Executes functions of the embedding program, as tasks beside it.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_core::effect::{Run, StopReason};
use evenkeel_core::ids::RunId;
use evenkeel_core::input::RunOutcome;
use evenkeel_core::time::{Millis, Mono};
use tokio::sync::{Notify, mpsc};

use super::counts::ItemCounts;
use super::dataflow::{DataflowTask, FetchOutput, StreamEndCheck};
use super::report::EndReporter;
use crate::clock;
use crate::executor::{AttemptResult, ExecutorEvent, TrustDeadline};
use crate::trace::TraceContext;
use crate::trace::ids::RunEnvironment;

/// How long a function may still work after it was asked to stop; then it is dropped at its next `await`.
const GRACE: Millis = Millis::secs(2);
/// The reason of a run whose task was dropped before it began.
const GONE: &str =
    "it never began: the runtime on which the node was opened, and which runs its functions, has ended";

/// The result of a function, in words; empty when there is nothing to add.
pub(super) enum FunctionResult {
    Succeeded(String),
    Failed(String),
    /// It found by itself that it must not continue.
    Stopped(StopReason, String),
}

impl FunctionResult {
    fn into_text(self) -> String {
        match self {
            Self::Succeeded(words) | Self::Failed(words) | Self::Stopped(_, words) => words,
        }
    }
}

type FunctionFuture = Pin<Box<dyn Future<Output = FunctionResult> + Send>>;

/// A function of the embedding program.
#[derive(Clone)]
enum RegisteredFunction {
    Plain(Arc<dyn Fn(RunContext) -> FunctionFuture + Send + Sync>),
    Flow(Arc<dyn Fn(RunContext, DataflowTask) -> FunctionFuture + Send + Sync>),
}

/// The functions that jobs can call, by name.
#[derive(Clone, Default)]
pub struct Functions(BTreeMap<String, RegisteredFunction>);

/// The return value of a function: `()`, or a `Result` whose error says why the run failed.
pub trait FunctionOutput {
    /// Why it failed; `None` when it succeeded.
    fn failure(self) -> Option<String>;
}

impl FunctionOutput for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Display> FunctionOutput for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

impl Functions {
    /// An empty set of functions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function: jobs with `function = "<name>"` call it. A second one of the same name replaces the first.
    #[must_use]
    pub fn add<F, B>(mut self, name: &str, function: F) -> Self
    where
        F: Fn(RunContext) -> B + Send + Sync + 'static,
        B: Future + Send + 'static,
        B::Output: FunctionOutput,
    {
        let call = move |context| -> FunctionFuture {
            let body = function(context);
            Box::pin(async move {
                body.await.failure().map_or(FunctionResult::Succeeded(String::new()), FunctionResult::Failed)
            })
        };
        self.0.insert(name.to_string(), RegisteredFunction::Plain(Arc::new(call)));
        self
    }

    /// Adds a function that fetches data and processes it item by item: `fetch` gets the number of wanted items, and
    /// `process` is called for each, several at once, every item in a task of its own. The job's `dataflow` sets the
    /// number, and whether a run continues until a fetch is empty.
    ///
    /// An item that fails, or panics, is counted and does not make the run fail; a fetch that fails does.
    #[must_use]
    pub fn add_dataflow<F, G, P, B>(mut self, name: &str, fetch: F, process: P) -> Self
    where
        F: Fn(RunContext, usize) -> G + Send + Sync + 'static,
        G: Future + Send + 'static,
        G::Output: FetchOutput,
        <G::Output as FetchOutput>::Item: Send + 'static,
        P: Fn(RunContext, <G::Output as FetchOutput>::Item) -> B + Send + Sync + 'static,
        B: Future + Send + 'static,
        B::Output: FunctionOutput,
    {
        let (fetch, process) = (Arc::new(fetch), Arc::new(process));
        let call = move |context, flow: DataflowTask| -> FunctionFuture {
            Box::pin(flow.run(context, fetch.clone(), process.clone()))
        };
        self.0.insert(name.to_string(), RegisteredFunction::Flow(Arc::new(call)));
        self
    }

    /// The names of the functions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The context that a function gets of its run.
#[derive(Clone, Debug)]
pub struct RunContext(Arc<FunctionRun>);

/// The state of a run that the function, its supervisor and the node share.
#[derive(Debug)]
struct FunctionRun {
    run: Run,
    environment: RunEnvironment,
    /// Why it should stop; the first reason counts.
    stop: OnceLock<StopReason>,
    stopping: Notify,
    trusted_until: Arc<AtomicI64>,
}

impl FunctionRun {
    fn ask_to_stop(&self, reason: StopReason) {
        if self.stop.set(reason).is_ok() {
            self.stopping.notify_waiters();
        }
    }
}

impl RunContext {
    /// The run's facts: its id, due moment, shard, parameter, attempt and fencing token.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.0.run
    }

    /// The value of a parameter of the job, where the job declares one of this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.0.run.parameters.get(name)
    }

    /// The same facts as the environment variables of a command.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<&'static str, String> {
        self.0.environment.of(&self.0.run)
    }

    /// The trace context of the attempt, for spans of the function: its span is their parent.
    #[must_use]
    pub fn trace(&self) -> TraceContext {
        self.0.environment.context(&self.0.run)
    }

    /// Why the function should stop now; `None` while it may continue.
    ///
    /// Past the node's trust deadline this returns a reason even if the whole process was paused until just now: check
    /// it before each external effect, and send [`Run::token`] along with it (law 4).
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        let late = || clock::now().mono.0 >= self.0.trusted_until.load(Ordering::Acquire);
        self.0.stop.get().copied().or_else(|| late().then_some(StopReason::Fenced))
    }

    /// Waits until the function should stop. Two seconds later it is dropped at its next `await`.
    pub async fn stopped(&self) -> StopReason {
        loop {
            // Subscribe before the check, so that no notification is lost between the two.
            let word = self.0.stopping.notified();
            if let Some(reason) = self.0.stop.get() {
                return *reason;
            }
            word.await;
        }
    }
}

/// The executor of functions.
pub(crate) struct FunctionExecutor {
    functions: Functions,
    environment: RunEnvironment,
    /// The embedder's runtime, where functions run, so that they never delay the node.
    runtime: tokio::runtime::Handle,
    running: BTreeMap<RunId, Arc<FunctionRun>>,
    trusted_until: Arc<AtomicI64>,
    grace_when_fenced: Millis,
    counts: Arc<ItemCounts>,
    ends: StreamEndCheck,
    events: mpsc::UnboundedSender<ExecutorEvent>,
    starting: Vec<FunctionStart>,
}

/// A run that is about to start.
struct FunctionStart {
    function: RegisteredFunction,
    run: Arc<FunctionRun>,
    grace_when_fenced: Millis,
    counts: Arc<ItemCounts>,
    ends: StreamEndCheck,
    /// Reports from here on, for its task may be dropped before it begins.
    report: EndReporter,
}

impl FunctionExecutor {
    pub(crate) fn new(
        functions: Functions,
        environment: RunEnvironment,
        runtime: tokio::runtime::Handle,
        (counts, ends): (Arc<ItemCounts>, StreamEndCheck),
        news: mpsc::UnboundedSender<ExecutorEvent>,
    ) -> Self {
        let trusted_until = Arc::new(AtomicI64::new(i64::MIN));
        let under_way = BTreeMap::new();
        let grace_when_fenced = GRACE;
        let starting = Vec::new();
        Self {
            functions,
            environment,
            runtime,
            running: under_way,
            trusted_until,
            grace_when_fenced,
            counts,
            ends,
            events: news,
            starting,
        }
    }

    /// Allows functions to act until the new deadline.
    pub(crate) fn trust(&mut self, trust: TrustDeadline) {
        self.trusted_until.store(trust.until.0, Ordering::Release);
        self.grace_when_fenced = GRACE.min(trust.kill - trust.until);
    }

    /// Asks every function to stop once the trust deadline has passed.
    pub(crate) fn fence(&mut self, now: Mono) {
        if now.0 >= self.trusted_until.load(Ordering::Acquire) {
            self.running.values().for_each(|run| run.ask_to_stop(StopReason::Fenced));
        }
    }

    pub(crate) fn stop(&mut self, run: &RunId, reason: StopReason) {
        if let Some(run) = self.running.get(run) {
            run.ask_to_stop(reason);
        }
    }

    pub(crate) fn forget(&mut self, run: &RunId) {
        self.running.remove(run);
    }

    /// Queues a run, which starts with the next [`go`](Self::go).
    pub(crate) fn start(&mut self, run: Run, name: &str) {
        let Some(function) = self.functions.0.get(name).cloned() else {
            let reason = format!("this node has no function {name:?}: add it to the node's functions");
            return self.refuse(&run, reason);
        };
        if matches!(function, RegisteredFunction::Plain(_)) && run.setting.dataflow.is_some() {
            let reason = format!(
                "the function {name:?} fetches no data: add it with add_dataflow, or leave dataflow out of the job"
            );
            return self.refuse(&run, reason);
        }
        let report = EndReporter::new(self.events.clone(), &run, GONE);
        let under_way = Arc::new(FunctionRun {
            run,
            environment: self.environment.clone(),
            stop: OnceLock::new(),
            stopping: Notify::new(),
            trusted_until: self.trusted_until.clone(),
        });
        self.running.insert(under_way.run.id.clone(), under_way.clone());
        self.starting.push(FunctionStart {
            function,
            run: under_way,
            grace_when_fenced: self.grace_when_fenced,
            counts: self.counts.clone(),
            ends: self.ends.clone(),
            report,
        });
    }

    /// Starts the queued runs, each as a task. The runtime's thread is woken once for all of them.
    pub(crate) fn go(&mut self) {
        if self.starting.len() > 1 {
            let all = std::mem::take(&mut self.starting);
            self.runtime.spawn(async move {
                all.into_iter().for_each(|start| drop(tokio::spawn(start.execute())));
            });
        } else if let Some(start) = self.starting.pop() {
            self.runtime.spawn(start.execute());
        }
    }

    fn refuse(&self, run: &Run, reason: String) {
        let _ = self.events.send(ExecutorEvent::Ended(AttemptResult::failed(run, reason)));
    }
}

impl FunctionStart {
    async fn execute(self) {
        let Self { function, run: under_way, grace_when_fenced, counts, ends, mut report } = self;
        let run = &under_way.run;
        // Checked last, right before the call: the task may have waited long for its turn (law 2).
        if clock::now().mono >= run.not_after {
            return report.not_started();
        }
        report.begin("the function panicked");
        let context = RunContext(under_way.clone());
        let (ended, words) = match function {
            RegisteredFunction::Plain(function) => {
                supervise(|| function(context.clone()), &context, grace_when_fenced).await
            }
            RegisteredFunction::Flow(function) => {
                let settings = run.setting.dataflow.unwrap_or_default();
                let counter = counts.of(&run.id.job, settings.interval, clock::now());
                let (alive, mut over) = mpsc::channel(1);
                let flow = DataflowTask { settings, counter, ends, alive };
                let end = supervise(|| function(context.clone(), flow), &context, grace_when_fenced).await;
                // A part of it that never awaits may still run, and so the run is not over.
                let _ = over.recv().await;
                end
            }
        };
        report.end(ended, words);
    }
}

/// Runs the function to its end, or until it was asked to stop and its grace is over.
async fn supervise(
    body: impl FnOnce() -> FunctionFuture,
    context: &RunContext,
    grace_when_fenced: Millis,
) -> (RunOutcome, String) {
    let timeout = context.run().timeout;
    let mut body = pin!(body());
    let reason = tokio::select! {
        biased;
        said = &mut body => return match (context.0.stop.get(), said) {
            // It was asked to stop and did, whatever it returned.
            (Some(reason), said) => (RunOutcome::Stopped(*reason), said.into_text()),
            (None, FunctionResult::Stopped(reason, words)) => (RunOutcome::Stopped(reason), words),
            (None, FunctionResult::Succeeded(words)) => (RunOutcome::Succeeded, words),
            (None, FunctionResult::Failed(why)) => (RunOutcome::Failed(None), why),
        },
        reason = context.stopped() => reason,
        () = elapsed(timeout) => StopReason::TimedOut,
    };
    context.0.ask_to_stop(reason);
    let grace = if reason == StopReason::Fenced { grace_when_fenced } else { GRACE };
    let words = match tokio::time::timeout(duration(grace), body).await {
        Ok(said) => said.into_text(),
        Err(_) => "it did not stop when asked to, and was dropped".to_string(),
    };
    (RunOutcome::Stopped(reason), words)
}

async fn elapsed(timeout: Option<Millis>) {
    match timeout {
        Some(span) => tokio::time::sleep(duration(span)).await,
        None => std::future::pending().await,
    }
}

fn duration(span: Millis) -> Duration {
    Duration::from_millis(u64::try_from(span.0).unwrap_or(0))
}
