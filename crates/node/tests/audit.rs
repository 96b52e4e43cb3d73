//! The audit log of an embedder's node: nothing is changed that it could not tell of, and it stays quick.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use evenkeel::audit::{AuditFilter, AuditOutcome, Proof};
use evenkeel::{Config, Handle, JobFile, Work};

#[path = "common/alone.rs"]
mod alone;
#[path = "common/bytes.rs"]
mod bytes;

async fn open(folder: &std::path::Path) -> Handle {
    let config = Config::new("a".parse().unwrap(), "memory:", folder.join("a"));
    evenkeel::open(config).await.unwrap()
}

fn job(name: &str) -> JobFile {
    JobFile::new(name.parse().unwrap(), "", Work::Function("f".into()))
}

/// Waits until nothing is under way, and returns all.
async fn log(node: &Handle) -> Vec<evenkeel::audit::AuditRecord> {
    loop {
        let entries = node.audit(AuditFilter::default()).await.unwrap();
        if entries.iter().all(|entry| entry.outcome != AuditOutcome::Asked) {
            return entries;
        }
        tokio::task::yield_now().await;
    }
}

/// proves: I51
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_changed_that_cannot_be_written_down_first() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    node.apply(vec![job("before")]).await.unwrap();
    let file = rusqlite::Connection::open(folder.path().join("a/history")).unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    let why = node.apply(vec![job("meanwhile")]).await.unwrap_err().to_string();
    assert!(why.contains("the history takes no entries"), "{why}");
    let known = |name: &str| node.with_node(|node| node.view().find(&name.parse().unwrap()).is_some());
    assert!(known("before") && !known("meanwhile"));
    file.execute_batch("COMMIT").unwrap();
    // The database is waited for in turns of half a second.
    let mut refused = 0;
    while node.apply(vec![job("after")]).await.is_err() {
        refused += 1;
    }
    assert!(known("after") && !known("meanwhile"));
    let entries = log(&node).await;
    let of = |name: &str, outcome: AuditOutcome| {
        let about = |entry: &&evenkeel::audit::AuditRecord| {
            entry.job.as_ref().is_some_and(|job| job.as_str() == name) && entry.outcome == outcome
        };
        entries.iter().filter(about).count()
    };
    assert_eq!(
        [of("before", AuditOutcome::Applied), of("after", AuditOutcome::Applied)],
        [1, 1],
        "{entries:?}"
    );
    assert_eq!(
        [of("meanwhile", AuditOutcome::Refused), of("meanwhile", AuditOutcome::Applied)],
        [1, 0],
        "{entries:?}"
    );
    assert!(entries.iter().all(|entry| entry.asker.proof == Proof::Process));
    // Those that came while it was known that nothing is written are one entry together, however many they were.
    let summed: Vec<usize> = entries
        .iter()
        .filter_map(|entry| entry.what.split_once(" changes were refused")?.0.parse().ok())
        .collect();
    assert!(summed.len() <= 1, "{entries:?}");
    assert_eq!(summed.iter().sum::<usize>() + of("after", AuditOutcome::Refused), refused, "{entries:?}");
    node.stop_now().await;
}

/// proves: I51
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_are_refused_in_vain_are_one_entry() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    let file = rusqlite::Connection::open(folder.path().join("a/history")).unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The first ones wait, and then it is known.
    for n in 0..200 {
        let why = node.apply(vec![job(&format!("j{n}"))]).await.unwrap_err().to_string();
        assert!(why.contains("the history takes no entries"), "{why}");
    }
    let forgot = "never:1:0".parse().unwrap();
    assert_eq!(node.remove_log(&forgot).await.unwrap(), 0);
    file.execute_batch("COMMIT").unwrap();
    let entries = loop {
        let entries = log(&node).await;
        if entries.iter().any(|entry| entry.object == "several") {
            break entries;
        }
    };
    assert!(entries.len() < 10, "{entries:?}");
    assert!(entries.iter().all(|entry| entry.outcome == AuditOutcome::Refused), "{entries:?}");
    let (sum, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.object == "several");
    // The removal that removed nothing is one of them; whoever was the first after those with entries is named.
    let (first, told) = (others.len(), 201 - others.len());
    let what = &sum[0].what;
    assert!(
        what.starts_with(&format!("{told} changes were refused while the history took no entries; ")),
        "{what}"
    );
    assert!(what.ends_with(&format!(" was apply job j{first}, asked for from here")), "{what}");
    assert_eq!((sum.len(), sum[0].verb.as_str()), (1, "ask"));
    node.stop_now().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_is_never_listed_as_undecided() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    for n in 0..20 {
        let job = format!("j{n}").parse().unwrap();
        let answer = node.ask(evenkeel_core::input::Command::Delete(job)).await;
        assert!(matches!(answer, evenkeel_core::input::Answer::Refused(..)), "{answer:?}");
        let entries = node.audit(AuditFilter::default()).await.unwrap();
        assert_eq!(entries.len(), n + 1);
        assert!(entries.iter().all(|entry| entry.outcome == AuditOutcome::Refused), "{entries:?}");
    }
    node.stop_now().await;
}

/// proves: I51
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_embedder_does_without_a_command_is_told_too() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    node.remove_log(&"j:1:0".parse().unwrap()).await.unwrap();
    // A node that holds a lock cannot be upgraded, whatever the program.
    let _lock = node.lock("l".parse().unwrap()).await.unwrap();
    let program = evenkeel::upgrade::ProgramFile::own().unwrap();
    let why = node.upgrade(program, None, Duration::ZERO).await.unwrap_err();
    assert!(why.contains("it holds locks"), "{why}");
    let entries = loop {
        let entries = log(&node).await;
        if entries.len() == 2 {
            break entries;
        }
    };
    let told = |n: usize| (entries[n].verb.as_str(), entries[n].object.as_str(), entries[n].outcome);
    assert_eq!(told(1), ("forget", "run j:1:0", AuditOutcome::Unchanged));
    assert_eq!(told(0), ("upgrade", "node a", AuditOutcome::Applied));
    assert!(entries[0].what.contains("not_upgraded"), "{entries:?}");
    assert!(entries.iter().all(|entry| entry.asker.proof == Proof::Process));
    node.stop_now().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_many_entries_is_found_without_reading_them() {
    const ENTRIES: i64 = 200_000;
    // What the process reads is counted, and other tests read as well.
    if !alone::is_alone("a_page_of_many_entries_is_found_without_reading_them") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    let now = evenkeel::clock::now().wall;
    // One a second: more than a day.
    let begin = now.0 - ENTRIES * 1_000;
    let file = rusqlite::Connection::open(folder.path().join("a/history")).unwrap();
    file.execute_batch(&format!(
        "PRAGMA synchronous = OFF;
         INSERT INTO audit (seq, id, at, node, proof, origin, claims, verb, object, job, about, outcome, what, request)
         WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {ENTRIES})
         SELECT n, 'x' || n, {begin} + n * 1000, 'a', 'key', '10.0.0.7', 'u' || (n % 997), 'apply', 'job', 'job-' || (n % 1000),
                CASE n % 50 WHEN 0 THEN 'n' ELSE '' END, 1, 'schedule changed', '' FROM s"
    ))
    .unwrap();
    let before = bytes::read();
    let read = "SELECT sum(length(what) + length(origin) + length(claims)) FROM audit";
    let sum: i64 = file.query_row(read, (), |row| row.get(0)).unwrap();
    assert!(sum > ENTRIES);
    let whole = bytes::read() - before;
    let all = AuditFilter::default;
    let (job, node_name) = (Some("job-7".parse().unwrap()), Some("n".to_owned()));
    let early = evenkeel::core::time::Wall(begin + 1_000_000);
    for (filter, least) in [
        (all(), 100),
        (AuditFilter { before: Some(100_000), ..all() }, 100),
        (AuditFilter { job: job.clone(), ..all() }, 100),
        (AuditFilter { node: node_name.clone(), ..all() }, 100),
        (AuditFilter { node: Some("a".into()), job: job.clone(), ..all() }, 100),
        (AuditFilter { who: Some("u7".into()), ..all() }, 100),
        (AuditFilter { who: Some("key".into()), node: node_name, ..all() }, 100),
        (AuditFilter { who: Some("nobody".into()), ..all() }, 0),
        (AuditFilter { who: Some("nobody".into()), node: Some("a".into()), ..all() }, 0),
        (AuditFilter { who: Some("u7".into()), node: Some("a".into()), ..all() }, 100),
        (AuditFilter { until: Some(early), ..all() }, 100),
        (AuditFilter { until: Some(early), before: Some(100_000), ..all() }, 100),
        (AuditFilter { since: Some(now), who: Some("u7".into()), ..all() }, 0),
        (AuditFilter { since: Some(early), job, ..all() }, 100),
    ] {
        let before = bytes::read();
        assert!(node.audit(filter.clone()).await.unwrap().len() >= least, "{filter:?}");
        let page = bytes::read() - before;
        assert!(10 * page < whole, "{filter:?} reads {page} bytes, and all of them are {whole}");
    }
    node.stop_now().await;
}
