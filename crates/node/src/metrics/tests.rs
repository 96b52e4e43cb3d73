//! What counts, and under which labels.

use evenkeel_core::effect::{Event, Verdict};
use evenkeel_core::ids::RunId;
use evenkeel_core::registry::Revision;
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;

use super::*;
use crate::history::VerdictFires;

fn text_of(metrics: &NodeMetrics, format: MetricsFormat) -> String {
    let mut out = String::new();
    metrics.write(Registry::default(), format, &mut out);
    out
}

fn record(run: &str, attempt: u32, state: AttemptState) -> Box<RunRecord> {
    let run: RunId = run.parse().expect("a run id");
    Box::new(RunRecord {
        seq: 0,
        job: run.job.clone(),
        shard: run.shard,
        run,
        attempt,
        due: Wall(1_000_000),
        node: "a".into(),
        state,
        reason: String::new(),
        code: None,
        sent: String::new(),
        token: None,
        started: Some(Wall(1_000_020)),
        ended: state.is_end().then_some(Wall(1_002_020)),
        from: Wall(1_000_000),
        output: 0,
        parameters: evenkeel_core::job::RunParameters::default(),
    })
}

#[track_caller]
fn says(text: &str, line: &str) {
    assert!(text.lines().any(|known| known == line), "{line} is not in:\n{text}");
}

#[test]
fn an_attempt_counts_at_its_start_and_end_and_a_fire_at_its_last_attempt() {
    let metrics = NodeMetrics::new("sqlite");
    let due = "team-a/report:1000000:0";
    metrics.recorded(&HistoryWrite::Attempt(record(due, 1, AttemptState::Running)));
    metrics.recorded(&HistoryWrite::Attempt(record(due, 1, AttemptState::Failed)));
    // What waits for its start has not started, and a retry is no lateness of the schedule.
    metrics.recorded(&HistoryWrite::Attempt(record(due, 2, AttemptState::Waiting)));
    metrics.recorded(&HistoryWrite::Attempt(record(due, 2, AttemptState::Running)));
    metrics.recorded(&HistoryWrite::Outcome(record(due, 2, AttemptState::Succeeded), None));
    // A manual run has no moment at which it should have started.
    metrics.recorded(&HistoryWrite::Attempt(record("report:ask-m1:0", 1, AttemptState::Running)));
    let text = text_of(&metrics, MetricsFormat::Prometheus);
    says(&text, "evenkeel_fires_total{namespace=\"team-a\",outcome=\"succeeded\"} 1");
    says(&text, "evenkeel_fires_total{namespace=\"default\",outcome=\"failed\"} 0");
    says(&text, "evenkeel_attempts_total{outcome=\"failed\"} 1");
    says(&text, "evenkeel_fire_lateness_seconds_count 1");
    says(&text, "evenkeel_fire_lateness_seconds_bucket{le=\"0.01\"} 0");
    says(&text, "evenkeel_fire_lateness_seconds_bucket{le=\"0.025\"} 1");
    says(&text, "evenkeel_attempt_duration_seconds_sum{outcome=\"succeeded\"} 2.0");
}

#[test]
fn a_verdict_counts_each_shard_that_it_is_about() {
    let metrics = NodeMetrics::default();
    let run: RunId = "sharded:1000000:2".parse().expect("a run id");
    let shards: ShardSet = "2-4".parse().expect("shards");
    let verdict = Verdict {
        run,
        attempt: 0,
        due: Wall(1_000_000),
        state: VerdictState::Skipped,
        reason: "the job overlaps".into(),
        node: "a".into(),
        from: Wall(1_000_000),
        shards,
    };
    metrics.recorded(&HistoryWrite::Verdict(Box::new(verdict.clone()), None, VerdictFires::default()));
    let alone = Verdict { shards: ShardSet::default(), state: VerdictState::Lost, ..verdict };
    metrics.recorded(&HistoryWrite::Verdict(Box::new(alone), None, VerdictFires::default()));
    let text = text_of(&metrics, MetricsFormat::Prometheus);
    says(&text, "evenkeel_fires_total{namespace=\"default\",outcome=\"skipped\"} 3");
    says(&text, "evenkeel_fires_total{namespace=\"default\",outcome=\"lost\"} 1");
}

#[test]
fn commits_events_leases_and_notifications_count_by_kind() {
    let metrics = NodeMetrics::new("etcd");
    metrics.committed(CommitKind::ClaimFire, &TxnOutcome::Applied(Revision(1)));
    metrics.committed(CommitKind::ClaimFire, &TxnOutcome::Refused(Vec::new()));
    metrics.committed(CommitKind::Join, &TxnOutcome::Unknown);
    metrics.answered(1_500);
    metrics.lease_replied(&LeaseEvent::Failed);
    metrics.notified("dropped", 7);
    metrics.recorded(&HistoryWrite::event(Wall(0), "a".into(), &Event::LeaseLost.report()));
    let text = text_of(&metrics, MetricsFormat::OpenMetrics);
    says(&text, "evenkeel_commits_total{kind=\"claim_fire\",outcome=\"applied\"} 1");
    says(&text, "evenkeel_commits_total{kind=\"claim_fire\",outcome=\"refused\"} 1");
    says(&text, "evenkeel_commits_total{kind=\"join\",outcome=\"unknown\"} 1");
    says(&text, "evenkeel_commit_duration_seconds_bucket{engine=\"etcd\",le=\"0.005\"} 1");
    says(&text, "evenkeel_lease_replies_total{outcome=\"failed\"} 1");
    says(&text, "evenkeel_lease_replies_total{outcome=\"renewed\"} 0");
    says(&text, "evenkeel_notifications_total{outcome=\"dropped\"} 7");
    says(&text, "evenkeel_events_total{kind=\"lease_lost\"} 1");
    says(&text, "# TYPE process_cpu_seconds counter");
}
