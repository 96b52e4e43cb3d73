//! A long past, made up: so many attempts in a history, and what a page of them costs.

use std::time::{Duration, SystemTime};

use evenkeel::core::ids::{JobName, RunId};
use evenkeel::{AttemptState, Config, Handle, RunFilter};
use evenkeel_registry::EngineUrl;
use evenkeel_registry::sql::{SqlConnection, SqlTarget};

/// How many jobs have attempts, in turn; every hundredth attempt failed.
const JOBS: u64 = 1_000;
/// How many attempts are made up in one statement.
const CHUNK: u64 = 100_000;
/// How often each page is asked for.
const TIMES: usize = 30;

/// A page, and how long it took each time, the shortest first.
pub(crate) struct PageTimes {
    /// Which.
    pub(crate) page: &'static str,
    /// How often how long.
    pub(crate) times: Vec<Duration>,
}

impl PageTimes {
    /// Half of them took no longer.
    pub(crate) fn median(&self) -> Duration {
        self.times[self.times.len() / 2]
    }
}

/// A node that keeps this history whole.
pub(crate) async fn open(folder: &std::path::Path, history: &str) -> Handle {
    let mut config = Config::new("a".parse().unwrap(), "memory:", folder.join("a"));
    config.history = Some(history.into());
    (config.retention.runs, config.retention.runs_of_job) = (u64::MAX, u32::MAX);
    evenkeel::open(config).await.unwrap()
}

/// Makes up attempts in a history whose tables are there and empty of attempts. The latest one is of a second ago.
pub(crate) async fn fill(history: &str, rows: u64) {
    match history.strip_prefix("sqlite:") {
        Some(path) => {
            let file = rusqlite::Connection::open(path).unwrap();
            file.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000").unwrap();
            for text in statements("attempt", rows) {
                file.execute_batch(&text).unwrap();
            }
        }
        None => {
            let url = EngineUrl::parse(history).unwrap();
            let (target, namespace) = SqlTarget::from_url(&url).unwrap();
            let quote = target.dialect().quote;
            let mut link = SqlConnection::open(&target, "SELECT 1").await.unwrap();
            for text in statements(&format!("{quote}{namespace}_attempt{quote}"), rows) {
                link.execute_text(&text).await.unwrap();
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a past ends at present")]
fn statements(table: &str, rows: u64) -> impl Iterator<Item = String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let begin = now as u64 - rows - 1_000;
    (0..rows.div_ceil(CHUNK)).map(move |chunk| {
        let first = chunk * CHUNK;
        format!(
            "INSERT INTO {table} (seq, run, attempt, job, shard, due, node, state, reason, code, token, started, ended,
                                  since, output, sent)
             WITH RECURSIVE d(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM d WHERE n < 99),
             s(n) AS (SELECT {first} + a.n + 100 * b.n + 10000 * c.n FROM d c, d b, d a WHERE c.n < 10)
             SELECT n + 1, concat('job-', n % {JOBS}, ':', {begin} + n, ':0'), 1, concat('job-', n % {JOBS}), 0,
                    {begin} + n, 'a', CASE n % 100 WHEN 7 THEN 2 ELSE 1 END,
                    CASE n % 100 WHEN 7 THEN 'exit code 1' ELSE '' END, 0, n, {begin} + n, {begin} + n + 500,
                    {begin} + n, 100, ''
             FROM s WHERE n < {rows} ORDER BY n"
        )
    })
}

/// Each kind of page.
pub(crate) fn questions(rows: u64) -> [(&'static str, RunFilter); 7] {
    let all = RunFilter::default();
    let job: Option<JobName> = Some("job-7".parse().unwrap());
    let failed = vec![AttemptState::Failed];
    let ends_ill = vec![
        AttemptState::Failed,
        AttemptState::Killed,
        AttemptState::TimedOut,
        AttemptState::Fenced,
        AttemptState::Lost,
    ];
    [
        ("the latest", all.clone()),
        ("in the middle", RunFilter { before: Some(rows / 2), ..all.clone() }),
        ("of a job", RunFilter { job: job.clone(), ..all.clone() }),
        ("of a job, in the middle", RunFilter { job: job.clone(), before: Some(rows / 2), ..all.clone() }),
        ("that failed", RunFilter { states: failed.clone(), ..all.clone() }),
        ("that ended ill, in any way", RunFilter { states: ends_ill, ..all.clone() }),
        ("of a job, that failed", RunFilter { job, states: failed, ..all }),
    ]
}

/// Asks for each.
pub(crate) async fn pages(node: &Handle, rows: u64) -> Vec<PageTimes> {
    let mut told = Vec::new();
    for (page, filter) in questions(rows) {
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let begun = micros();
            let found = node.runs(filter.clone()).await.unwrap();
            times.push(Duration::from_micros(micros() - begun));
            assert!(!found.is_empty(), "{page}");
        }
        told.push(PageTimes { page, times });
    }
    let last = node.runs(RunFilter { limit: 1, ..RunFilter::default() }).await.unwrap();
    let run: RunId = last[0].run.clone();
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = micros();
        assert_eq!(node.run(&run).await.unwrap().len(), 1);
        times.push(Duration::from_micros(micros() - begun));
    }
    told.push(PageTimes { page: "one run", times });
    told.iter_mut().for_each(|figures| figures.times.sort_unstable());
    told
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures below the milliseconds that nodes know")]
fn micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}
