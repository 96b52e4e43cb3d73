//! Rows of the API, made of what nodes record.

use evenkeel::audit::AuditRecord;
use evenkeel::{EventRecord, FireCounts, JobChange, JobVersion, LoadPoint, NodeHealth, TimePercentiles};
use evenkeel_client::types::{
    AuditRow, ClockHealth, EventRow, JobVersionRow, LeaseHealth, LoadRow, NodeMeasures, SummaryCounts,
    TimeSummary, moment,
};

/// The row of an entry of the audit log.
pub(crate) fn audit_row(record: &AuditRecord) -> AuditRow {
    AuditRow {
        seq: record.seq,
        id: record.id.clone(),
        at: moment(record.at),
        node: record.node.clone(),
        who: record.asker.proof.to_string(),
        from: record.asker.from.clone(),
        claims: record.asker.claims.clone(),
        verb: record.verb.clone(),
        object: record.object.clone(),
        job: record.job.as_ref().map(ToString::to_string),
        about: record.about.as_ref().map(ToString::to_string),
        outcome: record.outcome.to_string(),
        before: record.before,
        after: record.after,
        what: record.what.clone(),
    }
}

/// The row of a load point.
pub(crate) fn load_row(point: &LoadPoint) -> LoadRow {
    let hundredths = |part: u32| f64::from(part) / 100.0;
    LoadRow {
        at: moment(point.at),
        cpu: point.cpu.map(hundredths),
        memory: point.memory.map(hundredths),
        busy: point.busy,
        slots: point.slots,
        score: hundredths(point.score),
    }
}

/// The row of an event.
pub(crate) fn event_row(record: &EventRecord) -> EventRow {
    let EventRecord { seq, at, node, kind, job, text } = record;
    EventRow {
        seq: *seq,
        at: moment(*at),
        node: node.clone(),
        kind: kind.clone(),
        job: job.as_ref().map(ToString::to_string),
        text: text.clone(),
    }
}

/// The counts of fires.
pub(crate) fn summary_counts(counts: FireCounts) -> SummaryCounts {
    let FireCounts { ran, failed, killed, missed, skipped, late, manual, run_millis } = counts;
    SummaryCounts {
        expected: counts.expected(),
        ran,
        failed,
        killed,
        missed,
        skipped,
        late,
        manual,
        run_millis,
    }
}

/// The row of a version of a job.
pub(crate) fn job_version_row(
    version: &JobVersion,
    fields: Option<Vec<String>>,
    current: bool,
) -> JobVersionRow {
    let asker = version.asker.as_ref();
    JobVersionRow {
        version: version.version,
        at: (version.change != JobChange::Found).then(|| moment(version.at)),
        who: asker.map(|asker| asker.proof.to_string()),
        claims: asker.map(|asker| asker.claims.clone()).filter(|claims| !claims.is_empty()),
        change: version.change.to_string(),
        restored: version.restored,
        fields,
        current,
    }
}

fn time_summary(times: TimePercentiles) -> TimeSummary {
    let ms = |micros: u64| micros as f64 / 1_000.0;
    TimeSummary {
        samples: times.samples,
        p50_ms: ms(times.p50_us),
        p99_ms: ms(times.p99_us),
        max_ms: ms(times.max_us),
    }
}

/// What a node answered, and by how much its clock is ahead of the asking node's at least.
pub(crate) fn node_measures(health: &NodeHealth, ahead_ms: i64) -> NodeMeasures {
    NodeMeasures {
        at: moment(health.at),
        uptime_ms: health.uptime_ms,
        lease: LeaseHealth {
            trusted: health.member,
            age_ms: health.lease_age_ms,
            term_ms: health.lease_term_ms,
            trusted_ms: health.lease_trusted_ms,
            failures: health.lease_failures,
        },
        clock: ClockHealth {
            registry_offset_ms: health.clock_offset_ms,
            offset_max_ms: health.clock_offset_max_ms,
            ahead_ms,
        },
        commits: health.commits.map(time_summary),
        commits_waiting: health.commits_waiting,
        lateness: health.lateness.map(time_summary),
        slots: health.slots,
        slots_busy: health.slots_busy,
        slots_waiting: health.slots_waiting,
        permits_waiting: health.permits_waiting,
        history_waiting: health.history_waiting,
        history: health.history_trouble.clone(),
    }
}
