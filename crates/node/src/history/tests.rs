//! The guarantees of history, on a file and on every available server.

use super::connection::HistoryConnection;
use super::entry::{BatchId, coalesce};
use super::record::{AttemptState, EventFilter, RunFilter};
use super::write::BatchResult;
use super::*;
use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{RunId, Shard, Token};
use evenkeel_core::time::{Millis, Mono, Now, Wall};
use evenkeel_registry::conformance;
use std::collections::BTreeMap;
use std::path::Path;

fn attempt(run: &str, attempt: u32, state: AttemptState) -> RunRecord {
    let run: RunId = run.parse().unwrap();
    RunRecord {
        seq: 0,
        attempt,
        job: run.job.clone(),
        shard: Shard(0),
        due: Wall(1000),
        node: "a".into(),
        state,
        reason: String::new(),
        sent: "planned by b@2 in beat 7".into(),
        code: None,
        token: Some(Token::new(u16::MAX, u64::from(attempt))),
        started: Some(Wall(1001)),
        ended: state.is_end().then_some(Wall(1002)),
        from: Wall(1000),
        output: 7,
        parameters: evenkeel_core::job::RunParameters::default(),
        run,
    }
}

fn entry(run: &str, n: u32, state: AttemptState) -> HistoryWrite {
    HistoryWrite::Attempt(Box::new(attempt(run, n, state)))
}

fn verdict(run: &str, state: VerdictState) -> Verdict {
    Verdict {
        run: run.parse().unwrap(),
        attempt: 1,
        due: Wall(1000),
        state,
        reason: "node b is gone".into(),
        node: "b@2".into(),
        from: Wall(1000),
        shards: evenkeel_core::shards::ShardSet::empty(),
    }
}

fn lost(run: &str) -> HistoryWrite {
    HistoryWrite::Verdict(Box::new(verdict(run, VerdictState::Lost)), None, VerdictFires::default())
}

fn reader_of(place: HistoryLocation) -> HistoryReader {
    let progress = WriteProgress { put: Arc::default(), written: watch::channel(0).1 };
    HistoryReader::start(place, watch::channel(None).1, progress, job_records::KEEP).unwrap()
}

/// An empty history and its writer's connection, driven without the thread.
struct HistoryFixture {
    _folder: tempfile::TempDir,
    link: HistoryConnection,
    reader: HistoryReader,
    stamp: BatchId,
}

/// A new history in a file, and on every server that the tests' settings name.
fn locations() -> Vec<(tempfile::TempDir, HistoryLocation)> {
    let servers = ["POSTGRES", "MYSQL"].into_iter().filter_map(conformance::server_url);
    let urls = servers.map(|url| Some(conformance::with_fresh_namespace(&url)));
    let of = |url: Option<String>| {
        let folder = tempfile::tempdir().unwrap();
        let place = HistoryLocation::of(url.as_deref(), "memory:", folder.path()).unwrap();
        println!("on {place}");
        (folder, place)
    };
    std::iter::once(None).chain(urls).map(of).collect()
}

/// An empty history on each of them.
async fn all() -> Vec<HistoryFixture> {
    let mut all = Vec::new();
    for (folder, place) in locations() {
        all.push(HistoryFixture::new(folder, place).await);
    }
    all
}

impl HistoryFixture {
    async fn new(folder: tempfile::TempDir, place: HistoryLocation) -> Self {
        let link = HistoryConnection::open(&place).await.unwrap();
        let reader = reader_of(place);
        let stamp = BatchId { name: "a".into(), life: 1, batch: 0 };
        Self { _folder: folder, link, reader, stamp }
    }

    async fn write(&mut self, batch: Vec<HistoryWrite>) -> BatchResult {
        self.stamp.batch += 1;
        self.rewrite(batch, None).await
    }

    /// Writes the last batch as if its commit had not been answered.
    async fn rewrite(&mut self, batch: Vec<HistoryWrite>, mut unsure: Option<BatchResult>) -> BatchResult {
        let batch = coalesce(batch);
        write::write(&mut self.link, &batch, &self.stamp, &mut unsure, Wall(5000)).await.unwrap()
    }

    async fn states(&self, run: &str) -> Vec<(u32, AttemptState)> {
        let attempts = self.reader.run(run.parse().unwrap()).await.unwrap();
        attempts.into_iter().map(|record| (record.attempt, record.state)).collect()
    }

    /// Late results of the first attempt.
    async fn late(&mut self, run: &str) -> Vec<(String, AttemptState)> {
        let asked = self.link.statement(format!(
            "SELECT node, state FROM {} WHERE run = '{run}' AND attempt = 1 ORDER BY state",
            self.link.table("late")
        ));
        let rows = self.link.rows(asked).await.unwrap();
        let late = |row: &connection::HistoryRow| {
            (row.text(0).unwrap(), AttemptState::ALL[usize::try_from(row.int(1).unwrap()).unwrap()])
        };
        rows.iter().map(late).collect()
    }

    async fn count(&mut self, table: &str) -> i64 {
        let asked = self.link.statement(format!("SELECT count(*) FROM {}", self.link.table(table)));
        self.link.rows(asked).await.unwrap()[0].int(0).unwrap()
    }
}

#[tokio::test]
async fn a_batch_whose_commit_was_not_answered_is_made_once() {
    for mut books in all().await {
        let item = NoticePolicy::of(None, &evenkeel_core::job::Occasion::ALL, "a");
        let event = HistoryWrite::Event {
            at: Wall(7),
            node: "a".into(),
            kind: "joined",
            job: None,
            text: "a joined".into(),
        };
        let batch = vec![
            event,
            HistoryWrite::Outcome(Box::new(attempt("j:1000:0", 1, AttemptState::Failed)), item),
            entry("k:1000:0", 1, AttemptState::Running),
        ];
        let done = books.write(batch.clone()).await;
        assert_eq!(done.notices.len(), 1);
        let again = books.rewrite(batch.clone(), Some(done.clone())).await;
        assert_eq!(again.notices, done.notices, "what is to be told is told, since nobody was");
        let counts = async |books: &mut HistoryFixture| {
            [books.count("event").await, books.count("attempt").await, books.count("notice").await]
        };
        assert_eq!(counts(&mut books).await, [2, 2, 1]);
        // A batch that was not made is made now, whatever its earlier result was.
        books.stamp.batch += 1;
        let next = vec![entry("l:1000:0", 1, AttemptState::Running)];
        let made = books.rewrite(next.clone(), Some(done.clone())).await;
        assert_eq!((made.notices.len(), made.jobs.len()), (0, 1));
        assert_eq!(counts(&mut books).await, [2, 3, 1]);
        // Another life of the node counts its batches anew.
        let life = store::enter(&mut books.link, "a", Wall(0)).await.unwrap();
        books.stamp = BatchId { life, batch: books.stamp.batch, ..books.stamp.clone() };
        let other = vec![entry("m:1000:0", 1, AttemptState::Running)];
        books.rewrite(other, Some(done)).await;
        assert_eq!(counts(&mut books).await, [2, 4, 1]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_are_one_order_and_one_end_each() {
    for (_folder, place) in locations() {
        let write = async |name: &str, place: HistoryLocation| {
            let mut link = HistoryConnection::open(&place).await.unwrap();
            let life = store::enter(&mut link, name, Wall(0)).await.unwrap();
            for batch in 1..=10 {
                let ends = (0..50).map(|n| {
                    let mut end = attempt(&format!("j:{}:0", batch * 100 + n), 1, AttemptState::Succeeded);
                    end.node = name.into();
                    HistoryWrite::Attempt(Box::new(end))
                });
                let event = HistoryWrite::Event {
                    at: Wall(1),
                    node: name.into(),
                    kind: "joined",
                    job: None,
                    text: String::new(),
                };
                let batch_of: Vec<HistoryWrite> = ends.chain([event]).collect();
                let stamp = BatchId { name: name.into(), life, batch };
                write::write(&mut link, &batch_of, &stamp, &mut None, Wall(5000)).await.unwrap();
            }
        };
        tokio::join!(
            write("a", place.clone()),
            write("b", place.clone()),
            write("c", place.clone()),
            write("d", place.clone())
        );
        let reader = reader_of(place.clone());
        let found = reader.runs(RunFilter { limit: 10_000, ..RunFilter::default() }).await.unwrap();
        let order: Vec<u64> = found.iter().map(|record| record.seq).collect();
        assert_eq!(order, (1..=500).rev().collect::<Vec<_>>(), "each run once, whoever told of it");
        let events = reader.events(EventFilter { limit: 10_000, ..EventFilter::default() }).await.unwrap();
        assert_eq!(events.len(), 40);
    }
}

/// proves: I48
#[tokio::test]
async fn attempts_go_by_job_by_number_and_by_age_but_never_while_they_run() {
    for mut books in all().await {
        let rows: Vec<HistoryWrite> =
            (0..20).map(|n| entry(&format!("a:{n}:0"), 1, AttemptState::Succeeded)).collect();
        books.write(vec![entry("old:1:0", 1, AttemptState::Running)]).await;
        books.write(rows).await;
        let at = |secs| Now { mono: Mono(secs * 1000), wall: Wall(1000) + Millis::secs(secs) };
        let jobs = || BTreeMap::from([("a".parse().unwrap(), 20)]);
        let keep =
            Retention { runs_of_job: 8, runs: 100, age: Duration::from_secs(100), ..Retention::default() };
        let sweep = async |books: &mut HistoryFixture, keep, jobs, secs| {
            retention::RetentionSweeper::new(keep).sweep(&mut books.link, jobs, at(secs)).await.unwrap();
            books.count("attempt").await
        };
        assert_eq!(sweep(&mut books, keep, jobs(), 0).await, 9, "by job");
        let few = Retention { runs: 3, ..keep };
        assert_eq!(sweep(&mut books, few, BTreeMap::new(), 0).await, 4, "by number");
        assert_eq!(sweep(&mut books, keep, BTreeMap::new(), 200).await, 1, "by age");
        assert_eq!(books.states("old:1:0").await, [(1, AttemptState::Running)]);
    }
}

/// proves: I48
#[tokio::test]
async fn what_is_old_goes_a_little_at_a_time_until_it_is_gone() {
    for mut books in all().await {
        let event = |at| HistoryWrite::Event {
            at: Wall(at),
            node: "a".into(),
            kind: "alarm",
            job: None,
            text: String::new(),
        };
        let late = || [lost("j:1:0"), entry("j:1:0", 1, AttemptState::Succeeded)];
        books.write((0..6_000).map(event).chain(late()).collect()).await;
        let attempts = (0..6_000).map(|n| entry(&format!("k:{n}:0"), 1, AttemptState::Succeeded));
        books.write(attempts.chain([event(900_000)]).collect()).await;
        let keep = Retention { age: Duration::from_secs(100), ..Retention::default() };
        let mut sweeper = retention::RetentionSweeper::new(keep);
        let mut left = Vec::new();
        for mono in [0, 200, 400] {
            let now = Now { mono: Mono(mono), wall: Wall(900_000) };
            sweeper.sweep(&mut books.link, BTreeMap::new(), now).await.unwrap();
            left.push([books.count("attempt").await, books.count("event").await, books.count("late").await]);
        }
        assert_eq!(left, [[1_001, 1_000, 0], [0, 1, 0], [0, 1, 0]]);
    }
}

/// proves: I48
#[tokio::test]
async fn jobs_that_grew_much_are_cut_one_after_another() {
    for mut books in all().await {
        let of = |job: &'static str| {
            (0..3_000).map(move |n| entry(&format!("{job}:{n}:0"), 1, AttemptState::Succeeded))
        };
        let written = books.write(["k", "l", "m"].into_iter().flat_map(of).collect()).await;
        let keep = Retention { runs_of_job: 10, ..Retention::default() };
        let mut sweeper = retention::RetentionSweeper::new(keep);
        let mut left = Vec::new();
        for (mono, jobs) in [(0, written.jobs), (200, BTreeMap::new()), (400, BTreeMap::new())] {
            sweeper.sweep(&mut books.link, jobs, Now { mono: Mono(mono), wall: Wall(1000) }).await.unwrap();
            left.push(books.count("attempt").await);
        }
        assert_eq!(left, [3_020, 30, 30], "two at first, and the third one soon after");
    }
}

#[tokio::test]
async fn a_verdict_is_acknowledged_once_it_is_there_for_good() {
    for (_folder, place) in locations() {
        let (told, mut news) = mpsc::unbounded_channel();
        let (history, reader) =
            History::open(place, "a", Retention::default(), told, Arc::default()).await.unwrap();
        history.put(lost("j:1000:0"));
        let run: RunId = "j:1000:0".parse().unwrap();
        assert_eq!(news.recv().await, Some(HistoryEvent::Recorded { run: run.clone(), attempt: 1 }));
        assert_eq!(reader.run(run).await.unwrap().len(), 1);
        history.close(Duration::from_secs(120)).await;
    }
}

/// proves: S0-16, I47
#[tokio::test]
async fn a_history_that_takes_nothing_says_so_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let (told, mut news) = mpsc::unbounded_channel();
    let place = HistoryLocation::File(path.clone());
    let (history, reader) =
        History::open(place, "a", Retention::default(), told, Arc::default()).await.unwrap();
    // A missing table makes writes fail as a full disk does, and can be restored.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(120)).unwrap();
    other.execute_batch("ALTER TABLE attempt RENAME TO away").unwrap();
    history.put(lost("j:1000:0"));
    assert_eq!(news.recv().await, Some(HistoryEvent::Writable(false)));
    other.execute_batch("ALTER TABLE away RENAME TO attempt").unwrap();
    let run: RunId = "j:1000:0".parse().unwrap();
    assert_eq!(news.recv().await, Some(HistoryEvent::Recorded { run: run.clone(), attempt: 1 }));
    assert_eq!(news.recv().await, Some(HistoryEvent::Writable(true)));
    assert_eq!(reader.run(run).await.unwrap().len(), 1);
    history.close(Duration::from_secs(120)).await;
}

/// proves: S0-16
#[tokio::test]
async fn a_file_that_is_truncated_while_in_use_is_told_of_and_takes_nothing_until_another_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let (told, mut news) = mpsc::unbounded_channel();
    let place = HistoryLocation::File(path.clone());
    let (history, reader) =
        History::open(place, "a", Retention::default(), told, Arc::default()).await.unwrap();
    let recorded = |run: &str| Some(HistoryEvent::Recorded { run: run.parse().unwrap(), attempt: 1 });
    history.put(lost("j:1000:0"));
    assert_eq!(news.recv().await, recorded("j:1000:0"));
    assert_eq!(reader.run("j:1000:0".parse().unwrap()).await.unwrap().len(), 1);
    assert_eq!(reader.trouble(), None);

    std::fs::write(&path, "").unwrap();
    // Though nothing is to be written.
    let Some(HistoryEvent::StorageFailed(why)) = news.recv().await else { panic!("it is told") };
    assert!(why.contains("was truncated or overwritten") && why.contains("move it away"), "{why}");
    assert_eq!(news.recv().await, Some(HistoryEvent::Writable(false)));
    assert_eq!(reader.trouble(), Some(why));
    assert!(reader.run("j:1000:0".parse().unwrap()).await.is_err());
    history.put(lost("j:2000:0"));
    assert!(news.try_recv().is_err(), "nothing is acknowledged");

    for name in ["history-wal", "history-shm", "history"] {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    assert_eq!(news.recv().await, recorded("j:2000:0"));
    assert_eq!(news.recv().await, Some(HistoryEvent::Writable(true)));
    assert_eq!(reader.trouble(), None);
    assert_eq!(reader.run("j:2000:0".parse().unwrap()).await.unwrap().len(), 1);
    history.close(Duration::from_secs(120)).await;
}

#[tokio::test]
async fn a_file_that_is_deleted_while_in_use_is_told_of_and_another_is_begun() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let (told, mut news) = mpsc::unbounded_channel();
    let place = HistoryLocation::File(path.clone());
    let (history, reader) =
        History::open(place, "a", Retention::default(), told, Arc::default()).await.unwrap();
    history.put(lost("j:1000:0"));
    assert!(matches!(news.recv().await, Some(HistoryEvent::Recorded { .. })));
    std::fs::remove_file(&path).unwrap();
    let Some(HistoryEvent::StorageFailed(why)) = news.recv().await else { panic!("it is told") };
    assert!(why.contains("was replaced or deleted"), "{why}");
    history.put(lost("j:2000:0"));
    assert!(matches!(news.recv().await, Some(HistoryEvent::Recorded { .. })));
    let all = reader.runs(RunFilter::default()).await.unwrap();
    assert_eq!(all.iter().map(|record| record.run.to_string()).collect::<Vec<_>>(), ["j:2000:0"]);
    history.close(Duration::from_secs(120)).await;
}

/// proves: S0-56
#[tokio::test]
async fn how_busy_a_node_was_is_kept() {
    for mut books in all().await {
        write_loads(&mut books).await;
    }
}

/// proves: S0-56
#[tokio::test]
async fn a_file_of_the_first_layout_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.db");
    let (db, _) = schema::open(&path).unwrap();
    db.execute_batch(
        "DROP TABLE load; DROP TABLE notice; DROP TABLE failing; DROP TABLE writer; DROP TABLE audit; DROP TABLE event_job;
         DROP TABLE run_parameters; DROP TABLE job_version;
         DROP TABLE rollup_hour; DROP TABLE rollup_job; DROP TABLE rollup_pending; DROP TABLE rollup_state;
         ALTER TABLE attempt DROP COLUMN counted; DROP INDEX late_heard;
         DROP INDEX event_at; DROP INDEX event_of_kind; DROP INDEX event_of_node;
         ALTER TABLE attempt DROP COLUMN sent; PRAGMA user_version = 1;
         INSERT INTO attempt (seq, run, attempt, job, shard, due, node, state, reason, since, output)
         VALUES (41, 'j:1:0', 1, 'j', 0, 1, 'a', 1, '', 1, 0)",
    )
    .unwrap();
    drop(db);
    let mut books = HistoryFixture::new(folder, HistoryLocation::File(path)).await;
    write_loads(&mut books).await;
    books.write(vec![entry("j:2:0", 1, AttemptState::Running)]).await;
    let found = books.reader.runs(RunFilter::default()).await.unwrap();
    assert_eq!(found.iter().map(|record| record.seq).collect::<Vec<_>>(), [42, 41]);
}

async fn write_loads(books: &mut HistoryFixture) {
    let point = |node: &str, at, score| LoadPoint {
        node: node.into(),
        at: Wall(at),
        cpu: Some(2_500),
        memory: None,
        busy: 3,
        slots: 8,
        score,
    };
    let points =
        [point("a", 1_000, 10), point("b", 1_000, 20), point("a", 61_000, 30), point("a", 61_000, 31)];
    let (first, last) = points.split_at(3);
    for points in [first, last] {
        books.write(points.iter().cloned().map(|p| HistoryWrite::Load(Box::new(p))).collect()).await;
    }
    let found = books.reader.loads("a".into(), Wall(0), 10).await.unwrap();
    assert_eq!(found, [points[3].clone(), points[0].clone()], "the latest first, one for each moment");
    assert_eq!(books.reader.loads("a".into(), Wall(2_000), 10).await.unwrap().len(), 1);
    assert_eq!(books.reader.loads("a".into(), Wall(0), 1).await.unwrap().len(), 1);
}

mod attempts;
mod attention;
mod audit;
mod away;
mod job_records;
mod job_versions;
mod listing;
mod locked;
mod notices;
mod parameters;
mod summary;
