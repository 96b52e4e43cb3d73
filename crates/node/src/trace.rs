//! Traces of runs: one for each fire, from its due moment to the end of its last attempt.
//!
//! Spans are built when they have ended, of what is put into history; none is open meanwhile. So a fire whose attempts
//! run on several nodes has one trace, though none of them knows all of it: [`ids`] are derived from those of runs.

pub(crate) mod ids;
mod span;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, RunId};
use evenkeel_core::time::Wall;

use crate::history::{AttemptState, HistoryWrite, RunRecord, shards_of};
use ids::TraceIds;
pub use ids::{SpanId, TraceContext, TraceId};
pub use span::{FinishedSpan, SpanValue, TraceSink};

/// The name of the span of a fire.
const FIRE: &str = "fire";
/// The name of the span of an attempt.
const ATTEMPT: &str = "attempt";

/// Builds spans of what is put into history.
pub(crate) struct TraceRecorder {
    ids: TraceIds,
    sink: Option<Arc<dyn TraceSink>>,
}

impl fmt::Debug for TraceRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceRecorder").field("on", &self.sink.is_some()).finish_non_exhaustive()
    }
}

/// For a history that is opened without a node.
impl Default for TraceRecorder {
    fn default() -> Self {
        Self::new(TraceIds::new(""), None)
    }
}

impl TraceRecorder {
    /// Gives the spans of these ids to the sink, if there is one.
    pub(crate) fn new(ids: TraceIds, sink: Option<Arc<dyn TraceSink>>) -> Self {
        Self { ids, sink }
    }

    /// Gives the spans that ended with this entry to the sink, and logs them. `now` is read for a verdict only.
    pub(crate) fn recorded(&self, entry: &HistoryWrite, now: impl FnOnce() -> Wall) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.log(entry);
        }
        if let Some(sink) = &self.sink {
            spans(&self.ids, entry, now).into_iter().for_each(|span| sink.put(span));
        }
    }

    /// Lets the sink send what it has, for this long at most.
    pub(crate) async fn flush(&self, bound: Duration) {
        if let Some(sink) = self.sink.clone() {
            let _ = tokio::time::timeout(bound, tokio::task::spawn_blocking(move || sink.flush())).await;
        }
    }

    fn log(&self, entry: &HistoryWrite) {
        if let HistoryWrite::Attempt(record) | HistoryWrite::Outcome(record, _) = entry {
            let context = self.ids.attempt(&record.run, record.attempt);
            tracing::debug!(
                run = %record.run,
                attempt = record.attempt,
                outcome = record.state.as_str(),
                trace_id = %context.trace,
                span_id = %context.span,
                "attempt {} of {} is {}: {}",
                record.attempt, record.run, record.state.as_str(), record.reason
            );
        }
    }
}

/// The spans that ended with this entry. `now` is the moment of a verdict.
fn spans(ids: &TraceIds, entry: &HistoryWrite, now: impl FnOnce() -> Wall) -> Vec<FinishedSpan> {
    match entry {
        HistoryWrite::Attempt(record) if record.state.is_end() => {
            of_attempt(ids, record).into_iter().collect()
        }
        HistoryWrite::Outcome(record, _) => {
            let fire = of_fire(ids, record);
            of_attempt(ids, record).into_iter().chain([fire]).collect()
        }
        HistoryWrite::Verdict(verdict, ..) => {
            let now = now();
            shards_of(verdict)
                .map(|shard| of_verdict(ids, verdict, RunId { shard, ..verdict.run.clone() }, now))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The span of an attempt; `None` if it did not start.
fn of_attempt(ids: &TraceIds, record: &RunRecord) -> Option<FinishedSpan> {
    let start = record.started?;
    let context = ids.attempt(&record.run, record.attempt);
    Some(FinishedSpan {
        trace: context.trace,
        span: context.span,
        parent: Some(ids.fire(&record.run)),
        name: ATTEMPT,
        start,
        end: record.ended.unwrap_or(start).max(start),
        attributes: attributes(record),
        error: error(record.state, &record.reason),
    })
}

/// The span of a fire whose last attempt this is.
fn of_fire(ids: &TraceIds, record: &RunRecord) -> FinishedSpan {
    // A run of a backfill is about a moment long ago, and has not gone on since then.
    let start = if record.run.fire.makes_up_for(record.due) { record.from } else { record.due };
    FinishedSpan {
        trace: ids.trace(&record.run),
        span: ids.fire(&record.run),
        parent: None,
        name: FIRE,
        start,
        end: record.ended.or(record.started).unwrap_or(start).max(start),
        attributes: attributes(record),
        error: error(record.state, &record.reason),
    }
}

/// The span of a fire that was not started, or whose end will never be known.
fn of_verdict(ids: &TraceIds, verdict: &Verdict, run: RunId, now: Wall) -> FinishedSpan {
    let state = match verdict.state {
        VerdictState::Lost => AttemptState::Lost,
        VerdictState::Skipped => AttemptState::Skipped,
    };
    FinishedSpan {
        trace: ids.trace(&run),
        span: ids.fire(&run),
        parent: None,
        name: FIRE,
        start: verdict.due,
        end: now.max(verdict.due),
        attributes: common(&run, verdict.attempt, &verdict.node, state),
        error: error(state, &verdict.reason),
    }
}

/// What went wrong. A skipped fire is no error: the job says that it is to be skipped.
fn error(state: AttemptState, reason: &str) -> Option<String> {
    let is_bad = !matches!(state, AttemptState::Succeeded | AttemptState::Skipped);
    is_bad.then(|| if reason.is_empty() { state.as_str().to_owned() } else { reason.to_owned() })
}

fn attributes(record: &RunRecord) -> Vec<(&'static str, SpanValue)> {
    let mut all = common(&record.run, record.attempt, &record.node, record.state);
    // A retry is not late, and a manual run has no moment at which it should have started.
    if let (1, Fire::Due(_), Some(started)) = (record.attempt, &record.run.fire, record.started) {
        all.push(("evenkeel.lateness_ms", SpanValue::Whole((started - record.due).0.max(0))));
    }
    if let Some(code) = record.code {
        all.push(("process.exit.code", SpanValue::Whole(code.into())));
    }
    all
}

fn common(run: &RunId, attempt: u32, node: &str, state: AttemptState) -> Vec<(&'static str, SpanValue)> {
    let text = |text: &dyn fmt::Display| SpanValue::Text(text.to_string());
    let mut all = vec![
        ("evenkeel.job", text(&run.job)),
        ("evenkeel.namespace", text(&run.job.namespace())),
        ("evenkeel.run", text(run)),
        ("evenkeel.shard", SpanValue::Whole(run.shard.0.into())),
        ("evenkeel.attempt", SpanValue::Whole(attempt.into())),
        ("evenkeel.node", text(&node)),
        ("evenkeel.outcome", text(&state.as_str())),
    ];
    if error(state, "").is_some() {
        all.push(("error.type", text(&state.as_str())));
    }
    all
}

#[cfg(test)]
mod tests;
