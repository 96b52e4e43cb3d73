//! A finished span, and where finished spans go.

use evenkeel_core::time::Wall;

use super::ids::{SpanId, TraceId};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// A number.
    Whole(i64),
}

/// A span whose end is known: a fire of a shard, or one of its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedSpan {
    /// The trace of the fire.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// The span that contains it; `None` for a fire.
    pub parent: Option<SpanId>,
    /// `fire` or `attempt`.
    pub name: &'static str,
    /// When it began: the due moment of a fire, the start of an attempt.
    pub start: Wall,
    /// When it ended, never before its start.
    pub end: Wall,
    /// Its attributes, by names of OpenTelemetry where those have one.
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// What went wrong, in words; `None` if it ended well.
    pub error: Option<String>,
}

/// Takes finished spans. It is called by the thread that decides about runs, so it must not wait.
pub trait TraceSink: Send + Sync {
    /// Takes a span, or drops it.
    fn put(&self, span: FinishedSpan);

    /// Waits until the spans of before have been sent, or cannot be. It is called by a thread that may wait, before this
    /// process continues in another program.
    fn flush(&self) {}
}
