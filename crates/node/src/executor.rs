//! The common interface of executors: every start is followed by exactly one event.

use std::borrow::Cow;

use evenkeel_core::effect::{Run, StopReason};
use evenkeel_core::ids::RunId;
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::Work;
use evenkeel_core::time::{Mono, Wall};

use crate::clock;
use crate::executors::{CommandExecutor, FunctionExecutor, HttpExecutor};

/// Until when runs may act, and by when they must be dead (law 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrustDeadline {
    /// From here on runs are asked to end.
    pub(crate) until: Mono,
    /// From here on they are killed.
    pub(crate) kill: Mono,
}

/// An event of an executor. Every start is followed by exactly one `NotStarted` or `Ended`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExecutorEvent {
    /// The attempt did not start and will not.
    NotStarted { run: RunId, attempt: u32 },
    /// The attempt ended.
    Ended(AttemptResult),
    /// Whether commands can be executed at all.
    Able(bool),
}

/// The full result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttemptResult {
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
    pub(crate) ended: RunOutcome,
    /// The reason in words; empty when there is nothing to add.
    pub(crate) reason: Cow<'static, str>,
    /// A command's exit code.
    pub(crate) code: Option<i32>,
    /// How many bytes of output were kept.
    pub(crate) output: u64,
    pub(crate) started: Wall,
    pub(crate) at: Wall,
}

impl AttemptResult {
    /// A failure as of now.
    pub(crate) fn failed(run: &Run, reason: impl Into<Cow<'static, str>>) -> Self {
        let now = clock::now().wall;
        Self {
            run: run.id.clone(),
            attempt: run.attempt,
            ended: RunOutcome::Failed(None),
            reason: reason.into(),
            code: None,
            output: 0,
            started: now,
            at: now,
        }
    }
}

/// All executors of a node.
pub(crate) struct Executors {
    pub(crate) functions: FunctionExecutor,
    pub(crate) commands: CommandExecutor,
    pub(crate) http: HttpExecutor,
}

impl Executors {
    /// Queues a run, which starts at the latest with the next [`go`](Self::go).
    pub(crate) fn start(&mut self, run: Run) {
        match run.work.clone() {
            Work::Function(name) => self.functions.start(run, &name),
            Work::Command(argv) => self.commands.start(run, argv),
            Work::Http(http) => self.http.start(run, http),
        }
    }

    /// Starts the queued runs.
    pub(crate) fn go(&mut self) {
        self.functions.go();
    }

    /// Ends a run; does nothing if the run is not executed here.
    pub(crate) fn stop(&mut self, run: &RunId, reason: StopReason) {
        self.functions.stop(run, reason);
        self.commands.stop(run, reason);
        self.http.stop(run, reason);
    }

    /// Moves the trust deadline.
    pub(crate) fn trust(&mut self, trust: TrustDeadline) {
        self.functions.trust(trust);
        self.commands.trust(trust);
        self.http.trust(trust);
    }

    /// Asks functions to stop and drops requests when the deadline has passed. Commands are the guard's.
    pub(crate) fn fence(&mut self, now: Mono) {
        self.functions.fence(now);
        self.http.fence(now);
    }

    /// Forgets a run that has ended.
    pub(crate) fn forget(&mut self, run: &RunId) {
        self.functions.forget(run);
        self.http.forget(run);
    }
}
