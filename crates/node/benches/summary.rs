//! What a summary of long roll-ups costs: `cargo bench -p evenkeel --bench summary -- 100000 400`.
//!
//! The numbers are those of jobs and days. Each job has a row for each day: nine of ten fire once a day, the tenth each
//! hour, and one of a thousand fails. In SQLite.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails is no benchmark")]

use std::path::Path;
use std::time::{Duration, SystemTime};

use evenkeel::{Config, Handle, SummaryBy, SummaryFilter, SummaryOrder};

/// How often each question is asked.
const TIMES: usize = 20;
const HOUR: i64 = 3_600_000;

fn main() {
    let numbers: Vec<i64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let (jobs, days) = match numbers.as_slice() {
        [jobs, days] => (*jobs, *days),
        _ => (100_000, 400),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure(jobs, days));
}

async fn measure(jobs: i64, days: i64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history");
    let mut config = Config::new("a".parse().unwrap(), "memory:", folder.path().join("a"));
    config.history = Some(format!("sqlite:{}", file.display()));
    let node = evenkeel::open(config).await.unwrap();
    let today = micros() / 1_000 / HOUR / 24;
    fill(&file, jobs, (today + 1 - days, today + 1));
    let size = std::fs::metadata(&file).unwrap().len() >> 20;
    println!("| {jobs} jobs, {days} days, {size} MiB | median ms | longest ms | rows |\n|---|---|---|---|");
    for (question, filter) in questions(today, days) {
        let (mut times, mut rows) = (Vec::new(), 0);
        for _ in 0..TIMES {
            let begun = micros();
            rows = ask(&node, &filter).await;
            times.push(Duration::from_micros((micros() - begun).unsigned_abs()));
        }
        times.sort_unstable();
        let millis = |span: Duration| span.as_secs_f64() * 1000.0;
        let (median, most) = (millis(times[TIMES / 2]), millis(times[TIMES - 1]));
        println!("| {question} | {median:.2} | {most:.2} | {rows} |");
    }
    node.stop_now().await;
}

async fn ask(node: &Handle, filter: &SummaryFilter) -> usize {
    let part = node.summary(filter.clone()).await.unwrap();
    assert!(part.totals.expected() > 0, "{filter:?}");
    part.rows.len()
}

fn questions(today: i64, days: i64) -> [(&'static str, SummaryFilter); 6] {
    let day = SummaryFilter {
        by: SummaryBy::Job,
        since: today * 24,
        until: (today + 1) * 24,
        namespace: None,
        jobs: None,
        order: SummaryOrder::Name,
        after: None,
        limit: 100,
    };
    let whole = SummaryFilter { since: (today + 1 - days) * 24, ..day.clone() };
    let job = Some(vec!["job-7007".parse().unwrap()]);
    let middle = Some("job-50000".parse().unwrap());
    [
        ("all days by hour", SummaryFilter { by: SummaryBy::Hour, ..whole.clone() }),
        ("one job in all days, by day", SummaryFilter { by: SummaryBy::Day, jobs: job, ..whole.clone() }),
        ("one day by job, the first page", day.clone()),
        ("one day by job, a page in the middle", SummaryFilter { after: middle, ..day.clone() }),
        ("one day by job, by trouble", SummaryFilter { order: SummaryOrder::Trouble, ..day }),
        ("all days by job, the first page", whole),
    ]
}

/// Makes up roll-ups from one day up to another.
fn fill(file: &Path, jobs: i64, (from, to): (i64, i64)) {
    let db = rusqlite::Connection::open(file).unwrap();
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; DROP INDEX rollup_job_of_job")
        .unwrap();
    let daily = |kinds: &str| format!("x'010000{kinds}018827'");
    let (ran, failed) = (daily("81"), daily("82"));
    let hourly = format!("x'ffffff{}'", "81018827".repeat(24));
    for day in from..to {
        let rows = format!(
            "INSERT INTO rollup_job (day, job, hours, trouble)
             WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {jobs} - 1)
             SELECT {day}, 'job-' || n, CASE WHEN n % 1000 = 7 THEN {failed} WHEN n % 10 = 0 THEN {hourly} ELSE {ran} END,
                    n % 1000 = 7
             FROM n ORDER BY 'job-' || n"
        );
        db.execute_batch(&rows).unwrap();
    }
    for namespace in ["", "default"] {
        let rows = format!(
            "INSERT INTO rollup_hour (namespace, hour, ran, failed, killed, missed, skipped, late, manual, run_millis)
             WITH RECURSIVE h(h) AS (SELECT {from} * 24 UNION ALL SELECT h + 1 FROM h WHERE h < {to} * 24 - 1)
             SELECT '{namespace}', h, {jobs}, 7, 0, 3, 1, 20, 2, {jobs} * 5000 FROM h"
        );
        db.execute_batch(&rows).unwrap();
    }
    db.execute_batch("CREATE INDEX rollup_job_of_job ON rollup_job (job, day)").unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures below the milliseconds that nodes know")]
fn micros() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}
