//! The audit log of an embedder's node: nothing is changed that it could not tell of, and it stays quick.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::{Duration, SystemTime};

use evenkeel::audit::{AuditFilter, Outcome, Proof};
use evenkeel::{Config, Handle, Job, Work};

/// What people do not notice as waiting.
const QUICK: Duration = Duration::from_millis(100);

async fn open(folder: &std::path::Path) -> Handle {
    let config = Config::new("a".parse().unwrap(), "memory:", folder.join("a"));
    evenkeel::open(config).await.unwrap()
}

fn job(name: &str) -> Job {
    Job::new(name.parse().unwrap(), "", Work::Function("f".into()))
}

/// Waits until nothing is under way, and returns all.
async fn log(node: &Handle) -> Vec<evenkeel::audit::AuditRecord> {
    loop {
        let entries = node.audit(AuditFilter::default()).await.unwrap();
        if entries.iter().all(|entry| entry.outcome != Outcome::Asked) {
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
    let known = |name: &str| node.look(|node| node.view().find(&name.parse().unwrap()).is_some());
    assert!(known("before") && !known("meanwhile"));
    file.execute_batch("COMMIT").unwrap();
    // The database is waited for in turns of half a second.
    while node.apply(vec![job("after")]).await.is_err() {}
    assert!(known("after") && !known("meanwhile"));
    let entries = log(&node).await;
    let of = |name: &str, outcome: Outcome| {
        let about = |entry: &&evenkeel::audit::AuditRecord| {
            entry.job.as_ref().is_some_and(|job| job.as_str() == name) && entry.outcome == outcome
        };
        entries.iter().filter(about).count()
    };
    assert_eq!([of("before", Outcome::Applied), of("after", Outcome::Applied)], [1, 1], "{entries:?}");
    assert_eq!([of("meanwhile", Outcome::Refused), of("meanwhile", Outcome::Applied)], [1, 0], "{entries:?}");
    assert!(entries.iter().all(|entry| entry.asker.proof == Proof::Process));
    node.stop_now().await;
}

#[expect(clippy::disallowed_methods, reason = "it is measured how long people wait")]
async fn took(node: &Handle, filter: AuditFilter, least: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..9 {
        let begun = SystemTime::now();
        assert!(node.audit(filter.clone()).await.unwrap().len() >= least, "{filter:?}");
        times.push(begun.elapsed().unwrap());
    }
    times.sort_unstable();
    times[4]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_million_entries_takes_less_than_a_tenth_of_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let node = open(folder.path()).await;
    let now = evenkeel::clock::now().wall;
    let begin = now.0 - 1_000_000;
    let file = rusqlite::Connection::open(folder.path().join("a/history")).unwrap();
    file.execute_batch(&format!(
        "PRAGMA synchronous = OFF;
         INSERT INTO audit (seq, id, at, node, proof, origin, claims, verb, object, job, about, outcome, what, request)
         WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000000)
         SELECT n, 'x' || n, {begin} + n, 'a', 'key', '10.0.0.7', 'u' || (n % 100), 'apply', 'job', 'job-' || (n % 1000),
                CASE n % 50 WHEN 0 THEN 'n' ELSE '' END, 1, 'schedule changed', '' FROM s"
    ))
    .unwrap();
    let all = AuditFilter::default;
    let (job, node_name) = (Some("job-7".parse().unwrap()), Some("n".to_owned()));
    let early = evenkeel::core::time::Wall(begin + 1_000);
    for (filter, least) in [
        (all(), 100),
        (AuditFilter { before: Some(500_000), ..all() }, 100),
        (AuditFilter { job: job.clone(), ..all() }, 100),
        (AuditFilter { node: node_name.clone(), ..all() }, 100),
        (AuditFilter { node: Some("a".into()), job: job.clone(), ..all() }, 100),
        (AuditFilter { who: Some("u7".into()), ..all() }, 100),
        (AuditFilter { who: Some("key".into()), node: node_name, ..all() }, 100),
        (AuditFilter { who: Some("nobody".into()), ..all() }, 0),
        (AuditFilter { who: Some("nobody".into()), node: Some("a".into()), ..all() }, 0),
        (AuditFilter { who: Some("u7".into()), node: Some("a".into()), ..all() }, 100),
        (AuditFilter { until: Some(early), ..all() }, 0),
        (AuditFilter { since: Some(now), who: Some("u7".into()), ..all() }, 0),
        (AuditFilter { since: Some(early), job, ..all() }, 100),
    ] {
        let time = took(&node, filter.clone(), least).await;
        assert!(time < QUICK, "{filter:?}: {time:?}");
    }
    node.stop_now().await;
}
