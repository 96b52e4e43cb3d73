//! The spans of what is put into history.

use std::sync::{Mutex, PoisonError};

use super::*;
use crate::history::VerdictFires;

fn record(run: &str, attempt: u32, state: AttemptState) -> Box<RunRecord> {
    let run: RunId = run.parse().unwrap();
    Box::new(RunRecord {
        seq: 0,
        job: run.job.clone(),
        shard: run.shard,
        run,
        attempt,
        due: Wall(1_000),
        node: "a".into(),
        state,
        reason: String::new(),
        code: Some(0),
        sent: String::new(),
        token: None,
        started: Some(Wall(1_020)),
        ended: state.is_end().then_some(Wall(3_020)),
        from: Wall(1_000),
        output: 0,
        parameters: evenkeel_core::job::RunParameters::default(),
    })
}

fn built(entry: &HistoryWrite) -> Vec<FinishedSpan> {
    spans(&TraceIds::new("c"), entry, || Wall(9_000))
}

fn attribute<'a>(span: &'a FinishedSpan, name: &str) -> Option<&'a SpanValue> {
    span.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn text(text: &str) -> SpanValue {
    SpanValue::Text(text.to_owned())
}

#[test]
fn the_last_attempt_ends_its_own_span_and_that_of_the_fire() {
    let last = HistoryWrite::Outcome(record("team-a/j:1000:2", 1, AttemptState::Succeeded), None);
    let [attempt, fire] = &built(&last)[..] else { panic!("two spans") };
    assert_eq!((attempt.name, attempt.start, attempt.end), ("attempt", Wall(1_020), Wall(3_020)));
    assert_eq!((fire.name, fire.start, fire.end), ("fire", Wall(1_000), Wall(3_020)));
    assert_eq!((attempt.trace, attempt.parent, fire.parent), (fire.trace, Some(fire.span), None));
    assert_eq!((&attempt.error, &fire.error), (&None, &None));
    for (name, value) in [
        ("evenkeel.job", text("team-a/j")),
        ("evenkeel.namespace", text("team-a")),
        ("evenkeel.run", text("team-a/j:1000:2")),
        ("evenkeel.shard", SpanValue::Whole(2)),
        ("evenkeel.attempt", SpanValue::Whole(1)),
        ("evenkeel.node", text("a")),
        ("evenkeel.outcome", text("succeeded")),
        ("evenkeel.lateness_ms", SpanValue::Whole(20)),
        ("process.exit.code", SpanValue::Whole(0)),
    ] {
        assert_eq!(attribute(attempt, name), Some(&value), "{name}");
        assert_eq!(attribute(fire, name), Some(&value), "{name}");
    }
    assert_eq!(attribute(fire, "error.type"), None);
}

#[test]
fn an_attempt_before_the_last_ends_only_its_own_span_and_a_start_ends_none() {
    assert_eq!(built(&HistoryWrite::Attempt(record("j:1000:0", 1, AttemptState::Running))), []);
    assert_eq!(built(&HistoryWrite::Attempt(record("j:1000:0", 2, AttemptState::Waiting))), []);
    let mut failed = record("j:1000:0", 1, AttemptState::Failed);
    (failed.reason, failed.code) = ("exit code 3".into(), Some(3));
    let [first] = &built(&HistoryWrite::Attempt(failed))[..] else { panic!("one span") };
    assert_eq!(first.error.as_deref(), Some("exit code 3"));
    assert_eq!(attribute(first, "error.type"), Some(&text("failed")));
    let second = HistoryWrite::Outcome(record("j:1000:0", 2, AttemptState::TimedOut), None);
    let [attempt, fire] = &built(&second)[..] else { panic!("two spans") };
    assert_eq!((first.parent, first.trace), (Some(fire.span), fire.trace));
    assert_ne!(first.span, attempt.span);
    assert_eq!(fire.error.as_deref(), Some("timed_out"));
    // It says how late the retry was, not the fire.
    assert_eq!(attribute(attempt, "evenkeel.lateness_ms"), None);
    let manual = HistoryWrite::Outcome(record("j:ask-x:0", 1, AttemptState::Succeeded), None);
    assert!(built(&manual).iter().all(|span| attribute(span, "evenkeel.lateness_ms").is_none()));
}

#[test]
fn no_span_ends_before_it_starts_though_clocks_differ() {
    let mut early = record("j:1000:0", 1, AttemptState::Succeeded);
    (early.started, early.ended) = (Some(Wall(900)), Some(Wall(800)));
    let spans = built(&HistoryWrite::Outcome(early, None));
    assert!(spans.iter().all(|span| span.start <= span.end), "{spans:?}");
    assert_eq!(attribute(&spans[0], "evenkeel.lateness_ms"), Some(&SpanValue::Whole(0)));
}

#[test]
fn a_verdict_is_the_span_of_each_shard_and_only_a_lost_one_is_an_error() {
    let verdict = |state, shards: &str| {
        let run: RunId = "j:1000:2".parse().unwrap();
        let (reason, node) = ("its node is gone".to_owned(), "b".to_owned());
        let shards = shards.parse().unwrap();
        let verdict =
            Verdict { run, attempt: 1, due: Wall(1_000), state, reason, node, from: Wall(1_000), shards };
        HistoryWrite::Verdict(Box::new(verdict), None, VerdictFires::default())
    };
    let lost = built(&verdict(VerdictState::Lost, "2-4"));
    assert_eq!(lost.len(), 3);
    assert!(lost.iter().all(|span| span.trace == lost[0].trace && span.parent.is_none()));
    assert!(lost.iter().all(|span| (span.start, span.end) == (Wall(1_000), Wall(9_000))));
    assert!(lost.iter().all(|span| span.error.as_deref() == Some("its node is gone")));
    assert_ne!(lost[0].span, lost[1].span);
    let [skipped] = &built(&verdict(VerdictState::Skipped, ""))[..] else { panic!("one span") };
    assert_eq!((&skipped.error, attribute(skipped, "evenkeel.outcome")), (&None, Some(&text("skipped"))));
}

#[derive(Default)]
struct KeptSpans(Mutex<Vec<FinishedSpan>>);

impl TraceSink for KeptSpans {
    fn put(&self, span: FinishedSpan) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(span);
    }
}

#[test]
fn a_sink_gets_what_has_ended() {
    let sink = Arc::new(KeptSpans::default());
    let traces = TraceRecorder::new(TraceIds::new("c"), Some(sink.clone()));
    let outcome = HistoryWrite::Outcome(record("j:1000:0", 1, AttemptState::Succeeded), None);
    traces.recorded(&outcome, || Wall(0));
    TraceRecorder::default().recorded(&outcome, || Wall(0));
    assert_eq!(*sink.0.lock().unwrap(), built(&outcome));
}
