//! What a whole node can do over SQLite: `cargo bench -p evenkeel --bench node -- steady|narrow|flood|burst|commands|punctual|starts|million`.
//!
//! Each part prints one line of figures. Without an argument all but `million` run.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails is no benchmark")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::bench::{
    BenchObserver, FireLog, FireTally, Percentiles, declare, declare_with, jobs_held, until, usage,
};
use evenkeel::core::keys;
use evenkeel::core::registry::{Guard, Txn, TxnOutcome, Write};
use evenkeel::core::time::Wall;
use evenkeel::{Config, Functions, Handle, JobFile, Program, clock};
use evenkeel_registry::bench::{VALUE, sqlite_ceiling};
use mimalloc::MiMalloc;
use tokio::time::sleep;

/// The one that the binary has.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// More than can be fired in a second.
const FLOOD: usize = 50_000;
const PARTS: [&str; 8] = ["steady", "narrow", "flood", "burst", "commands", "punctual", "starts", "million"];

fn main() {
    evenkeel::guard::run_if_asked();
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for part in PARTS {
        if asked.iter().any(|arg| arg == part) || (asked.is_empty() && part != "million") {
            let folder = tempfile::tempdir().unwrap();
            runtime.block_on(async {
                match part {
                    "steady" => steady(folder.path(), 2_000).await,
                    "narrow" => steady(folder.path(), 1_000).await,
                    "flood" => flood(folder.path()).await,
                    "burst" => burst(folder.path()).await,
                    "commands" => commands(folder.path()).await,
                    "punctual" => punctual(folder.path()).await,
                    "starts" => starts(folder.path()).await,
                    _ => million(folder.path()).await,
                }
            });
        }
    }
}

fn registry_url(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("books").display())
}

fn config(folder: &Path, slots: u32) -> Config {
    let mut config = Config::new("a".parse().unwrap(), registry_url(folder), folder.join("a"));
    config.slots = slots;
    config
}

async fn revision(folder: &Path) -> u64 {
    let observer = BenchObserver::open(&registry_url(folder)).await.unwrap();
    observer.revision().await.unwrap().0
}

async fn until_held(node: &Handle, n: usize) {
    while jobs_held(std::slice::from_ref(node))[0] < n {
        sleep(Duration::from_millis(50)).await;
    }
}

fn lateness(seen: &FireTally) -> String {
    let Percentiles { p50, p99, max, .. } = seen.lateness;
    format!("lateness ms p50 {p50:.1} p99 {p99:.1} max {max:.1}")
}

/// 1,000 jobs due on every second: how late do they start, and what does a fire cost, with slots to spare or with one for
/// each job?
async fn steady(folder: &Path, slots: u32) {
    let seen = Arc::new(FireLog::default());
    declare(&registry_url(folder), 1_000, "* * * * * *").await.unwrap();
    let node = evenkeel::open(config(folder, slots).with(seen.functions())).await.unwrap();
    until_held(&node, 1_000).await;
    sleep(Duration::from_secs(2)).await;
    let (before, cpu) = (revision(folder).await, cpu_seconds());
    let seen = seen.watch(20).await;
    let (after, cpu) = (revision(folder).await, cpu_seconds() - cpu);
    let fires = seen.fires;
    println!(
        "steady, {slots} slots: {:.0} fires/s, {}, {:.2} transactions a fire, {:.0} % of a core",
        fires as f64 / 20.0,
        lateness(&seen),
        (after - before) as f64 / (fires as f64 * 22.0 / 20.0),
        cpu / 22.0 * 100.0
    );
    node.stop_now().await;
}

/// Guarded transactions that the engine makes in a second for the same client: batches of 1,000 lanes, each guarded as a
/// claim of a fire is, two batches under way at a time as the driver has them.
async fn engine(folder: &Path) -> f64 {
    const BATCH: usize = 1_000;
    const ROUNDS: usize = 40;
    let url = format!("sqlite:{}", folder.join("engine").display());
    let registry = evenkeel_registry::open(&url).await.unwrap();
    let job = |i: usize| format!("job-{i:07}").parse().unwrap();
    let put = |key| Write::Put { key, value: VALUE.as_slice().into(), owner: None };
    let all = (0..2 * BATCH).map(|i| Txn { guards: vec![], writes: vec![put(keys::assignment(&job(i)))] });
    let places = registry.commit(all.collect()).await;
    let mut run_states = vec![None; 2 * BATCH];
    let begin = clock::now().mono;
    for _ in 0..ROUNDS {
        let half = |half: usize| {
            let txns = (half * BATCH..(half + 1) * BATCH).map(|i| {
                let TxnOutcome::Applied(place) = places[i] else { panic!("{:?}", places[i]) };
                let run_state = keys::run_state(&job(i));
                let known = run_states[i]
                    .map_or(Guard::Absent(run_state.clone()), |at| Guard::At(run_state.clone(), at));
                let guards = vec![
                    known,
                    Guard::At(keys::assignment(&job(i)), place),
                    Guard::Present(keys::assignment(&job(0))),
                ];
                Txn { guards, writes: vec![put(run_state)] }
            });
            registry.commit(txns.collect())
        };
        let (first, second) = tokio::join!(half(0), half(1));
        for (run_state, outcome) in run_states.iter_mut().zip(first.into_iter().chain(second)) {
            let TxnOutcome::Applied(at) = outcome else { panic!("{outcome:?}") };
            *run_state = Some(at);
        }
    }
    (2 * BATCH * ROUNDS) as f64 / (clock::now().mono - begin).0 as f64 * 1000.0
}

/// Far more jobs than can be fired in a second: how many are, beside what SQLite itself could write?
async fn flood(folder: &Path) {
    let writes = sqlite_ceiling(&folder.join("ceiling"), 20_000, 1_000, 200).unwrap();
    let engine = engine(folder).await;
    let seen = Arc::new(FireLog::default());
    declare(&registry_url(folder), FLOOD, "* * * * * *").await.unwrap();
    let node = evenkeel::open(config(folder, FLOOD as u32).with(seen.functions())).await.unwrap();
    until_held(&node, FLOOD).await;
    sleep(Duration::from_secs(2)).await;
    let (before, cpu) = (revision(folder).await, cpu_seconds());
    let seen = seen.watch(10).await;
    let transactions = (revision(folder).await - before) as f64 / 11.0;
    let fires = seen.fires as f64 / 10.0;
    println!(
        "flood: {fires:.0} fires/s, {}, {:.2} transactions a fire, the engine alone {engine:.0} guarded transactions/s, \
         ratio {:.2}, bare SQLite {writes:.0} rows/s, {:.0} % of a core",
        lateness(&seen),
        transactions / fires,
        transactions / engine,
        (cpu_seconds() - cpu) / 11.0 * 100.0
    );
    node.stop_now().await;
}

/// 100,000 jobs due at one moment: how long until the last one has started?
async fn burst(folder: &Path) {
    const JOBS: usize = 100_000;
    let seen = Arc::new(FireLog::default());
    declare(&registry_url(folder), JOBS, "0 * * * * *").await.unwrap();
    let node = evenkeel::open(config(folder, JOBS as u32).with(seen.functions())).await.unwrap();
    until_held(&node, JOBS).await;
    // The minute after the next one is surely not yet claimed.
    let due = (clock::now().wall.0 / 60_000 + 2) * 60_000;
    sleep(until(Wall(due - 2_000))).await;
    seen.record(JOBS);
    let deadline = due + 50_000;
    while (seen.recorded() as usize) < JOBS && clock::now().wall.0 < deadline {
        sleep(Duration::from_millis(10)).await;
    }
    let took = clock::now().wall.0 - due;
    let seen = seen.due_between(Wall(due), Wall(due + 1));
    let fires = seen.fires;
    println!("burst: {fires} of {JOBS} started within {took} ms of their due moment, {}", lateness(&seen));
    node.stop_now().await;
}

/// 200 commands due on every second: what does each cost outside of the node, beside the program alone?
async fn commands(folder: &Path) {
    const A_SECOND: usize = 200;
    const SECONDS: u64 = 20;
    const ALONE: u32 = 2_000;
    let before = children_seconds();
    for _ in 0..ALONE {
        assert!(Command::new("true").status().unwrap().success());
    }
    let alone = (children_seconds() - before) / f64::from(ALONE);
    declare_with(&registry_url(folder), A_SECOND, "* * * * * *", run_true).await.unwrap();
    let before = children_seconds();
    let node = evenkeel::open(config(folder, 2 * A_SECOND as u32).with(Functions::new())).await.unwrap();
    until_held(&node, A_SECOND).await;
    sleep(Duration::from_secs(SECONDS)).await;
    // The guard ends with the node, and what its runs took is told as its own.
    node.stop_now().await;
    let runs = outputs(folder);
    let each = (children_seconds() - before) / runs as f64;
    println!(
        "commands: {runs} runs, each {:.2} ms of processor time beside {:.2} ms of the program alone, ratio {:.1}",
        each * 1000.0,
        alone * 1000.0,
        each / alone
    );
}

/// One command due on every second: how late does its program start, beside how long the program alone takes until it reads
/// the clock?
async fn punctual(folder: &Path) {
    const SECONDS: usize = 60;
    const CLOCK: [&str; 2] = ["date", "+%s%N"];
    let read = |text: &[u8]| String::from_utf8_lossy(text).trim().parse::<f64>().map(|ns| ns / 1e6).ok();
    let alone: Vec<f64> = (0..200)
        .map(|_| {
            let asked = wall_ms();
            let said = Command::new(CLOCK[0]).arg(CLOCK[1]).output().unwrap();
            read(&said.stdout).unwrap() - asked
        })
        .collect();
    declare_with(&registry_url(folder), 1, "* * * * * *", |job| {
        job.function.clear();
        job.command = Program::Argv(CLOCK.map(String::from).into());
    })
    .await
    .unwrap();
    let node = evenkeel::open(config(folder, 4).with(Functions::new())).await.unwrap();
    until_held(&node, 1).await;
    sleep(Duration::from_secs(2 + SECONDS as u64)).await;
    node.stop_now().await;
    // Each run's file is called FIRE.SHARD.ATTEMPT.log, and a fire is the moment at which it was due.
    let runs = std::fs::read_dir(folder.join("a/logs/job-0000000")).unwrap().map(|entry| entry.unwrap());
    let late: Vec<f64> = runs
        .filter_map(|run| {
            let due: f64 = run.file_name().to_str()?.split('.').next()?.parse().ok()?;
            Some(read(&std::fs::read(run.path()).ok()?)? - due)
        })
        .collect();
    let Percentiles { count, p50, p99, max, .. } = Percentiles::of(late);
    let Percentiles { p50: own, p99: own_99, .. } = Percentiles::of(alone);
    println!(
        "punctual: {count} commands, lateness ms p50 {p50:.1} p99 {p99:.1} max {max:.1}, of which the program alone takes p50 {own:.1} \
         p99 {own_99:.1}"
    );
}

/// The wall clock, in milliseconds with their parts.
fn wall_ms() -> f64 {
    clock::wall_micros() as f64 / 1e3
}

/// How many times a second this process starts the program of `run_true`, by `posix_spawn`, and waits for its end.
fn bare_starts() -> f64 {
    const STARTS: u32 = 2_000;
    let begin = wall_ms();
    for _ in 0..STARTS {
        assert!(Command::new("true").status().unwrap().success());
    }
    f64::from(STARTS) / (wall_ms() - begin) * 1000.0
}

/// More commands due on every second than can be started, on 64 slots: how many are a second, beside a process that does
/// nothing but start them one after the other, and what does each cost the node and its guard?
async fn starts(folder: &Path) {
    const SECONDS: u64 = 20;
    let bare = bare_starts();
    declare_with(&registry_url(folder), 2_000, "* * * * * *", run_true).await.unwrap();
    let node = evenkeel::open(config(folder, 64).with(Functions::new())).await.unwrap();
    until_held(&node, 2_000).await;
    sleep(Duration::from_secs(2)).await;
    let (before, cpu) = (outputs(folder), cpu_seconds());
    sleep(Duration::from_secs(SECONDS)).await;
    let (runs, cpu) = (outputs(folder) - before, cpu_seconds() - cpu);
    let guarded = children_seconds();
    node.stop_now().await;
    let all = outputs(folder) as f64;
    let guarded = children_seconds() - guarded;
    // The machine may have had more or less to do at either end.
    let bare = f64::midpoint(bare, bare_starts());
    let a_second = runs as f64 / SECONDS as f64;
    println!(
        "starts: {a_second:.0} commands/s, bare posix_spawn {bare:.0}, ratio {:.2}, each {:.2} ms of processor time in the node and \
         {:.2} ms in its guard and the program",
        a_second / bare,
        cpu / runs as f64 * 1000.0,
        guarded / all * 1000.0
    );
}

fn run_true(job: &mut JobFile) {
    job.function.clear();
    job.command = Program::Argv(vec!["true".into()]);
}

/// How many attempts there were: each has a file for its output.
fn outputs(folder: &Path) -> usize {
    let jobs = std::fs::read_dir(folder.join("a/logs")).into_iter().flatten();
    jobs.map(|job| std::fs::read_dir(job.unwrap().path()).unwrap().count()).sum()
}

/// A million jobs that are hardly ever due: how long does a node take to start, and what does it cost to have them?
async fn million(folder: &Path) {
    const JOBS: usize = 1_000_000;
    declare(&registry_url(folder), JOBS, "0 0 1 1 *").await.unwrap();
    let memory_before = memory_mb();
    let begin = clock::now().mono;
    let node = evenkeel::open(config(folder, 64)).await.unwrap();
    let joined = clock::now().mono - begin;
    until_held(&node, JOBS).await;
    let held = clock::now().mono - begin;
    sleep(Duration::from_secs(15)).await;
    let cpu = cpu_seconds();
    sleep(Duration::from_secs(60)).await;
    println!(
        "million: joined after {joined}, all claimed after {held}, {} MB (the filler had left {memory_before} MB), idle CPU {:.1} %",
        memory_mb(),
        (cpu_seconds() - cpu) / 60.0 * 100.0
    );
    node.stop_now().await;
}

fn memory_mb() -> u64 {
    usage(None).memory >> 20
}

/// CPU time that this process has used.
fn cpu_seconds() -> f64 {
    usage(None).processor
}

/// CPU time that those children of this process have used which have ended, and theirs.
fn children_seconds() -> f64 {
    usage(None).children
}
