//! Every message between nodes, byte by byte, as a node of another version may send it.
//!
//! `1.txt` has one line for each. All fields are named here: a new field must be added here, with a line of its own.
//! `docs/concepts/versions.md` says which may be added. A line that stands is never changed.

use evenkeel::audit::{AuditFilter, AuditOutcome, AuditRecord, Proof, Requester};
use evenkeel::{
    AttemptState, EventFilter, EventRecord, FireCounts, JobChange, JobVersion, JobVersionFilter, NodeHealth,
    RunFilter, RunRecord, SummaryBy, SummaryFilter, SummaryOrder, SummaryPart, SummaryRow, TimePercentiles,
};
use evenkeel_core::effect::StopReason;
use evenkeel_core::ids::{Fire, RunId, Shard, Token};
use evenkeel_core::input::{Offer, ProbeReply};
use evenkeel_core::job::RunParameters;
use evenkeel_core::time::Wall;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::facts::{
    AttentionFacts, AttentionQuery, FailingFact, LongRunFact, MissedFact, OutcomeFact, OutcomeFacts,
    OutcomeQuery, SuccessFact, SuccessFacts, SuccessQuery,
};
use super::messages::{OfferReply, RunOffers};
use super::records::{FireRecord, RecordsPart, RecordsQuery, RecordsReply};
use super::{LogPieceQuery, LogTailQuery, LogTailReply, PeerHistoryPage, PeerRunQuery, PeerSummaryQuery};

const LINES: &str = include_str!("1.txt");
const AT: Wall = Wall(1_763_749_200_000);

/// A message as text, and the text after it is parsed and written again, or the parse error.
struct MessageFixture {
    name: &'static str,
    text: String,
    again: fn(&str) -> Result<String, String>,
}

fn line<T: Serialize + DeserializeOwned>(name: &'static str, message: &T) -> MessageFixture {
    let again = |text: &str| {
        let message = serde_json::from_str::<T>(text).map_err(|e| format!("{text}: {e}"))?;
        serde_json::to_string(&message).map_err(|e| format!("{text}: {e}"))
    };
    MessageFixture { name, text: serde_json::to_string(message).expect("it is plain data"), again }
}

fn run() -> RunId {
    RunId { job: "j".parse().expect("a name"), fire: Fire::Due(AT), shard: Shard(2) }
}

fn asker() -> Requester {
    Requester { proof: Proof::Key, from: "192.0.2.7".into(), claims: "root@host".into() }
}

fn attempt() -> RunRecord {
    RunRecord {
        seq: 9,
        run: run(),
        attempt: 2,
        job: "j".parse().expect("a name"),
        shard: Shard(2),
        due: AT,
        node: "n1@7".into(),
        state: AttemptState::Failed,
        reason: "exit code 3".into(),
        code: Some(3),
        sent: "beat 5 of n2@6".into(),
        token: Some(Token(281_474_976_710_665)),
        started: Some(AT),
        ended: Some(Wall(AT.0 + 1_000)),
        from: AT,
        output: 42,
        parameters: RunParameters::default(),
    }
}

fn entry() -> AuditRecord {
    AuditRecord {
        seq: 4,
        id: "n1@7.3".into(),
        at: AT,
        node: "n1".into(),
        asker: asker(),
        verb: "apply".into(),
        object: "job j".into(),
        job: Some("j".parse().expect("a name")),
        about: Some("n1".parse().expect("a name")),
        outcome: AuditOutcome::Applied,
        before: Some(1),
        after: Some(2),
        what: "shards: 2 → 3".into(),
    }
}

fn questions() -> Vec<MessageFixture> {
    let filter = RunFilter {
        job: Some("j".parse().expect("a name")),
        namespace: None,
        fire: None,
        attempts: Vec::new(),
        node: None,
        since: None,
        until: None,
        states: vec![AttemptState::Lost],
        limit: 7,
        before: Some(9),
    };
    let events = EventFilter {
        node: Some("n1".into()),
        kind: Some("joined".into()),
        namespace: None,
        since: Some(AT),
        limit: 7,
        before: Some(9),
    };
    let audit = AuditFilter {
        job: Some("j".parse().expect("a name")),
        namespace: None,
        node: Some("n1".into()),
        who: Some("key".into()),
        since: Some(AT),
        until: Some(AT),
        limit: 7,
        before: Some(9),
    };
    vec![
        line("offers", &RunOffers { runs: vec![Offer { run: run(), must: true }] }),
        line("piece", &LogPieceQuery { attempt: 2, offset: 42, follow: true }),
        line("runs", &PeerRunQuery { run: Some(run()), filter }),
        line("events", &events),
        line("audit", &audit),
        line("kill", &asker()),
    ]
}

fn answers() -> Vec<MessageFixture> {
    let event = EventRecord {
        seq: 3,
        at: AT,
        node: "n1".into(),
        kind: "joined".into(),
        job: None,
        text: "joined".into(),
    };
    vec![
        line("role", &ProbeReply { serves: Some(3) }),
        line("busy", &OfferReply { busy: vec![run()] }),
        line("found runs", &PeerHistoryPage { rows: vec![attempt()], next: None }),
        line("found events", &PeerHistoryPage { rows: vec![event], next: None }),
        line("found audit", &PeerHistoryPage { rows: vec![entry()], next: None }),
        line("states", &AttemptState::ALL),
        line("proofs", &[Proof::Key, Proof::Local, Proof::Process, Proof::Node, Proof::Nobody]),
        line("outcomes", &AuditOutcome::ALL),
        line(
            "reasons",
            &[StopReason::Killed, StopReason::TimedOut, StopReason::Fenced, StopReason::Replaced],
        ),
    ]
}

/// The messages that were added later.
fn later() -> Vec<MessageFixture> {
    let filter = RunFilter { attempts: vec![(run(), 2)], limit: 1, ..RunFilter::default() };
    let node = Some("n1".parse().expect("a name"));
    let parameters: RunParameters = [("day".to_owned(), "2026-01-31".to_owned())].into_iter().collect();
    let manual = RunRecord { parameters, ..attempt() };
    let narrow = RunFilter { node, since: Some(AT), until: Some(AT), limit: 1, ..RunFilter::default() };
    let sum = SummaryFilter {
        by: SummaryBy::Job,
        since: 489_930,
        until: 489_954,
        namespace: Some("team".parse().expect("a name")),
        jobs: Some(vec!["team/j".parse().expect("a name")]),
        order: SummaryOrder::Trouble,
        after: Some("team/i".parse().expect("a name")),
        limit: 7,
    };
    let counts =
        FireCounts { ran: 1, failed: 2, killed: 3, missed: 4, skipped: 5, late: 6, manual: 7, run_millis: 8 };
    let of_hour = SummaryRow { hour: Some(489_930), job: None, counts };
    let of_job = SummaryRow { hour: None, job: Some("team/j".parse().expect("a name")), counts };
    let after = Some("team/j".parse().expect("a name"));
    let part = SummaryPart { history: "5f2b".to_owned(), rows: vec![of_hour, of_job], totals: counts, after };
    vec![
        line("runs by attempt", &PeerRunQuery { run: None, filter }),
        line("found more runs", &PeerHistoryPage { rows: vec![attempt()], next: Some(4) }),
        line("runs of a node and a time", &PeerRunQuery { run: None, filter: narrow }),
        line("found manual runs", &PeerHistoryPage { rows: vec![manual], next: None }),
        line("tail", &LogTailQuery { attempt: 2, lines: 100 }),
        line("found tail", &LogTailReply { offset: 42 }),
        line("versions", &JobVersionFilter { job: "j".parse().expect("a name"), limit: 7, before: Some(9) }),
        line("found versions", &PeerHistoryPage { rows: vec![version(), deletion()], next: Some(7) }),
        line("changes", &JobChange::ALL),
        line("summary", &PeerSummaryQuery { filter: sum, label: Some("team=billing".to_owned()) }),
        line("found summary", &part),
    ]
    .into_iter()
    .chain(attention())
    .collect()
}

/// The messages about what needs a person, and about the health of a node.
fn attention() -> Vec<MessageFixture> {
    let job = || "j".parse().expect("a name");
    let namespace = Some("team".parse().expect("a name"));
    let label = Some("team=billing".to_owned());
    let failing = FailingFact {
        job: job(),
        shard: Shard(2),
        since: AT,
        last: AT,
        count: 3,
        run: Some(run()),
        reason: "exit code 3".into(),
        shards: 1,
    };
    let missed = MissedFact {
        job: job(),
        fires: 4,
        first: AT,
        last: AT,
        run: Some(run()),
        reason: "it was too old".into(),
    };
    let facts = AttentionFacts {
        failing: vec![failing],
        failing_more: 5,
        missed: vec![missed],
        missed_more: 6,
        long: vec![LongRunFact { run: run(), attempt: 2, usual_ms: 42 }],
        waiting: vec![job()],
    };
    let success = SuccessFact { job: job(), shard: Shard(2), at: AT };
    let outcome = OutcomeFact { job: job(), run: run(), state: AttemptState::Failed, due: AT, at: AT };
    vec![
        line("attention", &AttentionQuery { history: true, namespace, label, since: AT, limit: 7 }),
        line("found attention", &facts),
        line("successes", &SuccessQuery { jobs: vec![job()] }),
        line("found successes", &SuccessFacts { rows: vec![success] }),
        line("outcomes", &OutcomeQuery { jobs: vec![job()] }),
        line("found outcomes", &OutcomeFacts { rows: vec![outcome] }),
        line("health", &health()),
    ]
    .into_iter()
    .chain(records())
    .collect()
}

/// The messages about scheduled fires.
fn records() -> Vec<MessageFixture> {
    let job = || "j".parse().expect("a name");
    let failed = FireRecord::of(&attempt()).expect("a scheduled fire");
    let skipped = FireRecord {
        shard: Shard(0),
        state: AttemptState::Skipped,
        from: Some(Wall(AT.0 - 60_000)),
        ended: None,
        ..failed.clone()
    };
    let part = RecordsPart { job: job(), kept_from: AT, rows: vec![failed, skipped] };
    let trouble = Some("the disk is full".to_owned());
    vec![
        line("records", &RecordsQuery { jobs: vec![job()], since: AT, until: AT }),
        line("found records", &RecordsReply { jobs: vec![part], trouble }),
    ]
}

fn health() -> NodeHealth {
    let times = TimePercentiles { samples: 9, p50_us: 1, p99_us: 2, max_us: 3 };
    NodeHealth {
        version: "1.2.3".into(),
        engine: "memory".into(),
        at: AT,
        uptime_ms: 10,
        member: true,
        lease_age_ms: Some(11),
        lease_term_ms: 12,
        lease_trusted_ms: Some(13),
        lease_failures: 14,
        clock_offset_ms: Some(15),
        clock_offset_max_ms: 16,
        commits: Some(times),
        commits_waiting: 17,
        lateness: Some(times),
        slots: 18,
        slots_busy: 19,
        slots_waiting: 20,
        permits_waiting: 21,
        history_waiting: 22,
        history_trouble: Some("the disk is full".into()),
    }
}

fn version() -> JobVersion {
    JobVersion {
        job: "j".parse().expect("a name"),
        version: 8,
        at: AT,
        node: "n1".into(),
        asker: Some(asker()),
        change: JobChange::RolledBack,
        restored: Some(6),
        declared: Some(r#"{"name":"j"}"#.into()),
    }
}

fn deletion() -> JobVersion {
    JobVersion {
        version: 7,
        asker: None,
        change: JobChange::Deleted,
        restored: None,
        declared: None,
        ..version()
    }
}

/// proves: I49
#[test]
fn messages_are_what_they_were_and_are_read_as_they_were() {
    let lines: Vec<MessageFixture> = questions().into_iter().chain(answers()).chain(later()).collect();
    let known: Vec<&str> = LINES.lines().collect();
    for (n, line) in lines.iter().enumerate() {
        let written = format!("{}: {}", line.name, line.text);
        assert_eq!(Some(&written.as_str()), known.get(n), "line {}", n + 1);
        assert_eq!((line.again)(&line.text).as_ref(), Ok(&line.text));
    }
    assert_eq!(lines.len(), known.len());
}

/// proves: I49
#[test]
fn an_answer_of_a_later_version_may_say_more() {
    for name in [
        "role",
        "busy",
        "found runs",
        "found events",
        "found audit",
        "found attention",
        "found successes",
        "found outcomes",
        "health",
        "found records",
    ] {
        let line =
            answers().into_iter().chain(attention()).find(|line| line.name == name).expect("an answer");
        let mut fields: Map<String, Value> = serde_json::from_str(&line.text).expect("fields");
        if let Some(row) = fields.get_mut("rows").and_then(|rows| rows[0].as_object_mut()) {
            row.insert("later".to_owned(), Value::Bool(true));
        }
        fields.insert("later".to_owned(), Value::Bool(true));
        assert_eq!((line.again)(&Value::Object(fields).to_string()), Ok(line.text));
    }
}
