//! The common interface of executors: every start is followed by exactly one event.

use std::borrow::Cow;

use evenkeel_core::effect::Run;
use evenkeel_core::ids::RunId;
use evenkeel_core::input::RunOutcome;
use evenkeel_core::time::{Mono, Wall};

use crate::clock;

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
        Self::failed_attempt(run.id.clone(), run.attempt, reason)
    }

    /// The same of this attempt of a run.
    pub(crate) fn failed_attempt(run: RunId, attempt: u32, reason: impl Into<Cow<'static, str>>) -> Self {
        let now = clock::now().wall;
        Self {
            run,
            attempt,
            ended: RunOutcome::Failed(None),
            reason: reason.into(),
            code: None,
            output: 0,
            started: now,
            at: now,
        }
    }
}
