//! History's promises, each against a file.

use super::record::{EventFilter, RunFilter, State};
use super::*;
use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::time::{Millis, Mono, Now, Wall};
use evenkeel_core::words::{Shard, Token};
use std::collections::BTreeMap;

fn attempt(run: &str, attempt: u32, state: State) -> RunRecord {
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
        run,
    }
}

fn entry(run: &str, n: u32, state: State) -> Entry {
    Entry::Attempt(Box::new(attempt(run, n, state)))
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

fn lost(run: &str) -> Entry {
    Entry::Verdict(Box::new(verdict(run, VerdictState::Lost)), None)
}

/// A file and its writer's connection, driven without the thread.
struct File {
    _folder: tempfile::TempDir,
    db: Connection,
    reader: HistoryReader,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let db = schema::open(&path).unwrap();
        let reader = HistoryReader::open(&path).unwrap();
        Self { _folder: folder, db, reader }
    }

    fn write(&mut self, batch: Vec<Entry>) {
        write::write(&mut self.db, &write::coalesce(batch), Wall(5000)).unwrap();
    }

    async fn states(&self, run: &str) -> Vec<(u32, State)> {
        let attempts = self.reader.run(run.parse().unwrap()).await.unwrap();
        attempts.into_iter().map(|record| (record.attempt, record.state)).collect()
    }

    fn late(&self, run: &str) -> Vec<(String, State)> {
        query::late(&self.db, &run.parse().unwrap(), 1)
    }
}

#[tokio::test]
async fn an_attempt_is_read_back_as_written() {
    let mut file = File::new();
    let mut record = attempt("j:1000:0", 1, State::Failed);
    (record.reason, record.code) = ("exit code 3".into(), Some(3));
    file.write(vec![Entry::Attempt(Box::new(record.clone()))]);
    record.seq = 1;
    assert_eq!(file.reader.run(record.run.clone()).await.unwrap(), [record]);
}

/// proves: I22
#[tokio::test]
async fn a_late_result_never_overwrites_an_end() {
    let mut file = File::new();
    file.write(vec![entry("j:1000:0", 1, State::Running)]);
    file.write(vec![lost("j:1000:0")]);
    file.write(vec![entry("j:1000:0", 1, State::Succeeded), entry("j:1000:0", 1, State::Running)]);
    assert_eq!(file.states("j:1000:0").await, [(1, State::Lost)]);
    assert_eq!(file.late("j:1000:0"), [("a".to_string(), State::Succeeded)]);
}

/// proves: I22
#[tokio::test]
async fn a_verdict_told_twice_is_one_and_never_overwrites_a_result() {
    let mut file = File::new();
    file.write(vec![lost("j:1000:0")]);
    file.write(vec![lost("j:1000:0")]);
    assert_eq!(file.states("j:1000:0").await, [(1, State::Lost)]);
    assert_eq!(file.late("j:1000:0"), []);
    file.write(vec![entry("j:2000:0", 1, State::Succeeded)]);
    file.write(vec![lost("j:2000:0")]);
    assert_eq!(file.states("j:2000:0").await, [(1, State::Succeeded)]);
    assert_eq!(file.late("j:2000:0"), [("b@2".to_string(), State::Lost)]);
}

#[tokio::test]
async fn a_later_attempt_ends_the_earlier_one_that_nobody_ended() {
    let mut file = File::new();
    file.write(vec![entry("j:1000:0", 1, State::Running)]);
    file.write(vec![entry("j:1000:0", 2, State::Running)]);
    assert_eq!(file.states("j:1000:0").await, [(1, State::Lost), (2, State::Running)]);
}

#[test]
fn start_and_end_in_one_batch_are_one_row() {
    let done = entry("j:1000:0", 1, State::Succeeded);
    let other = entry("j:2000:0", 1, State::Running);
    let batch = vec![entry("j:1000:0", 1, State::Running), other.clone(), done.clone()];
    assert_eq!(write::coalesce(batch), [done, other]);
    let not_started = Entry::NotStarted { run: "j:1000:0".parse().unwrap(), attempt: 1 };
    assert_eq!(write::coalesce(vec![entry("j:1000:0", 1, State::Running), not_started.clone()]), []);
    assert_eq!(write::coalesce(vec![not_started.clone()]), [not_started]);
}

#[tokio::test]
async fn what_did_not_start_leaves_no_row() {
    let mut file = File::new();
    file.write(vec![entry("j:1000:0", 1, State::Running)]);
    file.write(vec![Entry::NotStarted { run: "j:1000:0".parse().unwrap(), attempt: 1 }]);
    assert_eq!(file.states("j:1000:0").await, []);
}

#[tokio::test]
async fn attempts_are_listed_by_job_and_state_page_by_page() {
    let mut file = File::new();
    for n in 1..=5 {
        file.write(vec![
            entry(&format!("a:{n}:0"), 1, State::Succeeded),
            entry(&format!("b:{n}:0"), 1, State::Failed),
        ]);
    }
    let ask = |filter| file.reader.runs(filter);
    let filter = RunFilter { job: Some("a".parse().unwrap()), limit: 2, ..RunFilter::default() };
    let first = ask(filter.clone()).await.unwrap();
    assert_eq!(first.iter().map(|r| r.run.to_string()).collect::<Vec<_>>(), ["a:5:0", "a:4:0"]);
    let next = ask(RunFilter { before: first.last().map(|r| r.seq), ..filter }).await.unwrap();
    assert_eq!(next.iter().map(|r| r.run.to_string()).collect::<Vec<_>>(), ["a:3:0", "a:2:0"]);
    let failed =
        ask(RunFilter { states: vec![State::Failed, State::Lost], ..RunFilter::default() }).await.unwrap();
    assert!(failed.len() == 5 && failed.iter().all(|r| r.job.as_str() == "b"));
}

/// proves: I48
#[tokio::test]
async fn attempts_go_by_job_by_number_and_by_age_but_never_while_they_run() {
    let mut file = File::new();
    let rows: Vec<Entry> = (0..20).map(|n| entry(&format!("a:{n}:0"), 1, State::Succeeded)).collect();
    file.write(vec![entry("old:1:0", 1, State::Running)]);
    file.write(rows);
    let at = |secs| Now { mono: Mono(secs * 1000), wall: Wall(1000) + Millis::secs(secs) };
    let jobs = || BTreeMap::from([("a".parse().unwrap(), 20)]);
    let keep = Keep { runs_of_job: 8, runs: 100, age: Duration::from_secs(100), ..Keep::default() };
    let count =
        |db: &Connection| db.query_row("SELECT count(*) FROM attempt", [], |r| r.get::<_, i64>(0)).unwrap();
    retention::Sweeper::new(keep).sweep(&mut file.db, jobs(), at(0)).unwrap();
    assert_eq!(count(&file.db), 9, "by job");
    retention::Sweeper::new(Keep { runs: 3, ..keep }).sweep(&mut file.db, BTreeMap::new(), at(0)).unwrap();
    assert_eq!(count(&file.db), 4, "by number");
    retention::Sweeper::new(keep).sweep(&mut file.db, BTreeMap::new(), at(200)).unwrap();
    assert_eq!(file.states("old:1:0").await, [(1, State::Running)]);
    assert_eq!(count(&file.db), 1, "by age");
}

#[tokio::test]
async fn a_verdict_is_acknowledged_once_it_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (told, mut news) = mpsc::unbounded_channel();
    let path = folder.path().join("history");
    let (history, reader) = History::open(&path, Keep::default(), told, Arc::default()).unwrap();
    history.put(lost("j:1000:0"));
    let run: RunId = "j:1000:0".parse().unwrap();
    assert_eq!(news.recv().await, Some(Told::Recorded { run: run.clone(), attempt: 1 }));
    assert_eq!(reader.run(run).await.unwrap().len(), 1);
    history.close(Duration::from_secs(5)).await;
}

/// proves: S0-16, I47
#[tokio::test]
async fn a_history_that_takes_nothing_says_so_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let (told, mut news) = mpsc::unbounded_channel();
    let (history, reader) = History::open(&path, Keep::default(), told, Arc::default()).unwrap();
    // A table that is gone refuses writes as a full disk does, and can be given back.
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(5)).unwrap();
    other.execute_batch("ALTER TABLE attempt RENAME TO away").unwrap();
    history.put(lost("j:1000:0"));
    assert_eq!(news.recv().await, Some(Told::Able(false)));
    other.execute_batch("ALTER TABLE away RENAME TO attempt").unwrap();
    let run: RunId = "j:1000:0".parse().unwrap();
    assert_eq!(news.recv().await, Some(Told::Recorded { run: run.clone(), attempt: 1 }));
    assert_eq!(news.recv().await, Some(Told::Able(true)));
    assert_eq!(reader.run(run).await.unwrap().len(), 1);
    history.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn events_are_listed_by_node_kind_and_time_page_by_page() {
    let mut file = File::new();
    for at in 1..=6 {
        let node = if at % 2 == 0 { "a" } else { "b" };
        let kind = if at <= 3 { "joined" } else { "alarm" };
        file.write(vec![Entry::Event { at: Wall(at), node: node.into(), kind, text: format!("event {at}") }]);
    }
    let ask = async |filter| {
        let found: Vec<EventRecord> = file.reader.events(filter).await.unwrap();
        found.into_iter().map(|event| event.at.0).collect::<Vec<_>>()
    };
    let all = EventFilter::default;
    assert_eq!(ask(all()).await, [6, 5, 4, 3, 2, 1]);
    assert_eq!(ask(EventFilter { node: Some("a".into()), ..all() }).await, [6, 4, 2]);
    assert_eq!(ask(EventFilter { kind: Some("joined".into()), ..all() }).await, [3, 2, 1]);
    assert_eq!(ask(EventFilter { since: Some(Wall(5)), ..all() }).await, [6, 5]);
    assert_eq!(ask(EventFilter { limit: 2, before: Some(5), ..all() }).await, [4, 3]);
}

#[test]
fn history_lies_beside_the_registry_unless_told_otherwise() {
    let data = Path::new("/data");
    assert_eq!(path(None, "sqlite:/r/books", data), Ok("/r/books-history".into()));
    assert_eq!(path(None, "memory:", data), Ok("/data/history".into()));
    assert_eq!(path(Some("sqlite:/h"), "sqlite:/r", data), Ok("/h".into()));
    assert!(path(Some("mysql:x"), "sqlite:/r", data).unwrap_err().contains("use sqlite:PATH"));
}

/// proves: S0-56
#[tokio::test]
async fn how_busy_a_node_was_is_kept_also_in_a_file_of_the_first_layout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.db");
    let db = schema::open(&path).unwrap();
    db.execute_batch("DROP TABLE load; DROP TABLE notice; DROP TABLE failing; ALTER TABLE attempt DROP COLUMN sent; PRAGMA user_version = 1")
        .unwrap();
    drop(db);
    let mut db = schema::open(&path).unwrap();
    let reader = HistoryReader::open(&path).unwrap();
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
    let entries: Vec<Entry> = points.iter().cloned().map(|p| Entry::Load(Box::new(p))).collect();
    write::write(&mut db, &entries, Wall(0)).unwrap();
    let found = reader.loads("a".into(), Wall(0), 10).await.unwrap();
    assert_eq!(found, [points[3].clone(), points[0].clone()], "the latest first, one for each moment");
    assert_eq!(reader.loads("a".into(), Wall(2_000), 10).await.unwrap().len(), 1);
    assert_eq!(reader.loads("a".into(), Wall(0), 1).await.unwrap().len(), 1);
}

mod notices;
