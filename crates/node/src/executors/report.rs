//! Reports exactly one end for each start within this process, even after a panic.

use evenkeel_core::effect::Run;
use evenkeel_core::input::RunOutcome;
use tokio::sync::mpsc;

use crate::clock;
use crate::executor::{AttemptResult, ExecutorEvent};

/// Reports the end of a run when it is dropped, so that one that panics is reported as well.
pub(super) struct EndReporter {
    events: mpsc::UnboundedSender<ExecutorEvent>,
    finish: Option<AttemptResult>,
}

impl EndReporter {
    /// Starts with this reason, reported if nothing else is.
    pub(super) fn new(news: mpsc::UnboundedSender<ExecutorEvent>, run: &Run, panicked: &'static str) -> Self {
        Self { events: news, finish: Some(AttemptResult::failed(run, panicked)) }
    }

    /// Marks the beginning of the run; sets the reason that is reported from here on if nothing else is.
    pub(super) fn begin(&mut self, panicked: &'static str) {
        if let Some(finish) = &mut self.finish {
            finish.started = clock::now().wall;
            finish.reason = panicked.into();
        }
    }

    /// Reports that the run did not start and will not.
    pub(super) fn not_started(mut self) {
        if let Some(AttemptResult { run, attempt, .. }) = self.finish.take() {
            // A driver that has ended needs no events; other nodes settle its open runs by the registry.
            let _ = self.events.send(ExecutorEvent::NotStarted { run, attempt });
        }
    }

    pub(super) fn end(&mut self, ended: RunOutcome, reason: String) {
        if let Some(finish) = &mut self.finish {
            finish.ended = ended;
            finish.reason = reason.into();
        }
    }

    /// Sets how many bytes of output were kept.
    pub(super) fn set_output(&mut self, output: u64) {
        if let Some(finish) = &mut self.finish {
            finish.output = output;
        }
    }
}

impl Drop for EndReporter {
    fn drop(&mut self) {
        if let Some(mut finish) = self.finish.take() {
            finish.at = clock::now().wall;
            let _ = self.events.send(ExecutorEvent::Ended(finish));
        }
    }
}
