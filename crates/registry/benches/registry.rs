//! How fast the SQLite engine commits and tells, beside what SQLite itself gives on the same disk in the same run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Guard, Revision, Txn, TxnOutcome, Write};
use evenkeel_registry::bench::{VALUE, nth_row, row_key, sqlite_ceiling};
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::{Registry, open};

const BATCH: u32 = 1_000;
const ROUNDS: u32 = 60;
const MILLION: u32 = 1_000_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `cargo test --benches` only wants to know that it runs.
    let (rounds, jobs) =
        if std::env::args().any(|a| a == "--bench") { (ROUNDS, MILLION) } else { (2, 1_000) };
    let folder = tempfile::tempdir()?;
    for rows in [2 * BATCH, 100_000] {
        let raw = sqlite_ceiling(&folder.path().join(format!("raw-{rows}.db")), rows, 2 * BATCH, rounds)?;
        println!("{rows:>6} rows: by hand           {raw:>8.0} rows/s, {} a transaction", 2 * BATCH);
        for root in ["run/job", "job/job"] {
            let txns = commits(folder.path(), root, rows, rounds).await?;
            let share = 200.0 * txns / raw;
            println!(
                "{rows:>6} rows: guarded {root:8}  {:>8.0} rows/s, {share:.0} % of by hand, {txns:.0} txns/s",
                2.0 * txns
            );
        }
    }
    news(folder.path(), rounds * 20).await?;
    listing(folder.path(), jobs).await?;
    Ok(())
}

async fn engine(folder: &Path, name: &str) -> Result<Arc<dyn Registry>, Box<dyn std::error::Error>> {
    Ok(open(&format!("sqlite:{}", folder.join(name).display())).await?)
}

fn put(key: String) -> Write {
    Write::Put { key: Key::from_stored(key), value: VALUE.as_slice().into(), owner: None }
}

fn txn(guards: Vec<Guard>, writes: Vec<Write>) -> Txn {
    Txn { guards, writes }
}

/// How many transactions a second, in batches, that each replace two of `rows` entries, guarded on both.
async fn commits(
    folder: &Path,
    root: &str,
    rows: u32,
    rounds: u32,
) -> Result<f64, Box<dyn std::error::Error>> {
    let registry = engine(folder, &format!("{}-{rows}.db", root.replace('/', "-"))).await?;
    let name = |row: u32| row_key(row).replace("run/job", root);
    let mut at = vec![Revision(0); rows as usize];
    for first in (0..rows).step_by(1_000) {
        let fill = (first..first + 1_000).map(|row| put(name(row))).collect();
        let [TxnOutcome::Applied(revision)] = registry.commit(vec![txn(vec![], fill)]).await[..] else {
            return Err("could not fill the registry".into());
        };
        at[first as usize..first as usize + 1_000].fill(revision);
    }
    let mut spent = Duration::ZERO;
    for round in 0..rounds {
        let chosen: Vec<_> = (0..2 * BATCH).map(|i| nth_row(round * 2 * BATCH + i, rows)).collect();
        let one = |pair: &[u32]| {
            let guards =
                pair.iter().map(|row| Guard::At(Key::from_stored(name(*row)), at[*row as usize])).collect();
            txn(guards, pair.iter().map(|row| put(name(*row))).collect())
        };
        let batch: Vec<_> = chosen.chunks(2).map(one).collect();
        let watch = Stopwatch::start();
        let outcomes = registry.commit(batch).await;
        spent += watch.elapsed();
        for (pair, outcome) in chosen.chunks(2).zip(outcomes) {
            let TxnOutcome::Applied(revision) = outcome else {
                return Err(format!("not made: {outcome:?}").into());
            };
            pair.iter().for_each(|row| at[*row as usize] = revision);
        }
    }
    Ok(f64::from(rounds * BATCH) / spent.as_secs_f64())
}

/// From asking for a commit on one connection to hearing of it on another.
async fn news(folder: &Path, times: u32) -> Result<(), Box<dyn std::error::Error>> {
    let (writer, listener) = (engine(folder, "news.db").await?, engine(folder, "news.db").await?);
    let mut feed = listener.watch(Revision(0)).await?;
    let (mut took, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let watch = Stopwatch::start();
        writer.commit(vec![txn(vec![], vec![put("job/a/assignment".into())])]).await;
        answered.push(watch.elapsed());
        feed.next().await.ok_or("the feed ended")?;
        took.push(watch.elapsed());
    }
    took.sort_unstable();
    answered.sort_unstable();
    let at = |of: &[Duration], percent: usize| of[(of.len() - 1) * percent / 100];
    println!(
        "single commit      p50 {:?} p99 {:?}; news of it elsewhere p50 {:?} p99 {:?}",
        at(&answered, 50),
        at(&answered, 99),
        at(&took, 50),
        at(&took, 99)
    );
    Ok(())
}

/// Registering many jobs, and what a node does when it starts: listing them.
async fn listing(folder: &Path, jobs: u32) -> Result<(), Box<dyn std::error::Error>> {
    let registry = engine(folder, "million.db").await?;
    let watch = Stopwatch::start();
    for first in (0..jobs).step_by(BATCH as usize) {
        let one = |job: u32| {
            let keys =
                [format!("job/job-{job:07}/spec"), format!("job/job-{job:07}/assignment"), row_key(job)];
            let guards = keys.iter().map(|key| Guard::Absent(Key::from_stored(key.clone()))).collect();
            txn(guards, keys.into_iter().map(put).collect())
        };
        registry.commit((first..first + BATCH).map(one).collect()).await;
    }
    println!("{jobs} jobs      registered in {:?}", watch.elapsed());
    drop(registry);
    let watch = Stopwatch::start();
    let registry = engine(folder, "million.db").await?;
    let listed = registry.list().await?;
    println!("{jobs} jobs      opened and {} entries listed in {:?}", listed.changes.len(), watch.elapsed());
    Ok(())
}
