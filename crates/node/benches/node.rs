//! What a whole node can do over SQLite: `cargo bench -p evenkeel --bench node -- steady|flood|burst|million`.
//!
//! Each part prints one line of figures. Without an argument all but `million` run.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails is no benchmark")]

use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::core::job::Spec;
use evenkeel::core::keys;
use evenkeel::core::record::{Place, SpecRecord, encode};
use evenkeel::core::registry::{Guard, Outcome, Txn, Write};
use evenkeel::core::shards::ShardSet;
use evenkeel::core::time::Wall;
use evenkeel::{Config, Functions, Handle, Job, RunContext, Work, clock};
use evenkeel_registry::bench::{VALUE, ceiling};
use tokio::time::sleep;

/// More than can be fired in a second.
const FLOOD: usize = 50_000;
const PARTS: [&str; 4] = ["steady", "flood", "burst", "million"];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for part in PARTS {
        if asked.iter().any(|arg| arg == part) || (asked.is_empty() && part != "million") {
            let folder = tempfile::tempdir().unwrap();
            runtime.block_on(async {
                match part {
                    "steady" => steady(folder.path()).await,
                    "flood" => flood(folder.path()).await,
                    "burst" => burst(folder.path()).await,
                    _ => million(folder.path()).await,
                }
            });
        }
    }
}

/// What the function `note` saw.
#[derive(Default)]
struct Seen {
    fires: AtomicU64,
    /// Lateness in ms of each fire, while `from` has come.
    late: Mutex<Vec<i64>>,
    from: AtomicI64,
    until: AtomicI64,
}

impl Seen {
    fn functions(self: &Arc<Self>) -> Functions {
        let seen = self.clone();
        Functions::new().add("note", move |run: RunContext| {
            let due = run.run().due.0;
            let now = clock::now().wall.0;
            if (seen.from.load(Ordering::Relaxed)..seen.until.load(Ordering::Relaxed)).contains(&now) {
                seen.fires.fetch_add(1, Ordering::Relaxed);
                seen.late.lock().unwrap().push(now - due);
            }
            async {}
        })
    }

    /// Counts what happens in these seconds of the wall clock, from the next whole second on.
    async fn watch(&self, seconds: i64) {
        let from = (clock::now().wall.0 / 1000 + 2) * 1000 - 500;
        self.until.store(from + seconds * 1000, Ordering::Relaxed);
        self.from.store(from, Ordering::Relaxed);
        sleep(until(Wall(from + seconds * 1000 + 200))).await;
    }

    fn lateness(&self) -> String {
        let mut late = self.late.lock().unwrap();
        late.sort_unstable();
        let at = |share: f64| late.get(((late.len() as f64 * share) as usize).min(late.len() - 1)).copied();
        format!("lateness ms p50 {:?} p99 {:?} max {:?}", at(0.5), at(0.99), late.last()).replace("Some", "")
    }
}

fn until(moment: Wall) -> Duration {
    Duration::from_millis(u64::try_from((moment - clock::now().wall).0).unwrap_or(0))
}

fn config(folder: &Path, slots: u32) -> Config {
    let registry = format!("sqlite:{}", folder.join("books").display());
    let mut config = Config::new("a".parse().unwrap(), registry, folder.join("a"));
    config.slots = slots;
    config
}

/// Declares `n` jobs behind the node's back, as if they had been there for long.
async fn fill(folder: &Path, n: usize, schedule: &str) {
    let registry =
        evenkeel_registry::open(&format!("sqlite:{}", folder.join("books").display())).await.unwrap();
    let since = clock::now().wall;
    for first in (0..n).step_by(2_000) {
        let txns = (first..n.min(first + 2_000)).map(|i| {
            let job =
                Job::new(format!("job-{i:07}").parse().unwrap(), schedule, Work::Function("note".into()));
            let (spec, place) = (keys::spec(&job.name), keys::place(&job.name));
            let record = SpecRecord::Live(Box::new(Spec {
                job,
                version: 1,
                since,
                paused: false,
                off: ShardSet::empty(),
            }));
            let put = |key, value| Write::Put { key, value, owner: None };
            Txn {
                guards: vec![Guard::Absent(spec.clone())],
                writes: vec![
                    put(spec, encode(&record)),
                    put(place, encode(&Place { epoch: 1, version: 1, ..Place::default() })),
                ],
            }
        });
        let outcomes = registry.commit(txns.collect()).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied(_))));
    }
}

async fn revision(folder: &Path) -> u64 {
    let registry =
        evenkeel_registry::open(&format!("sqlite:{}", folder.join("books").display())).await.unwrap();
    registry.list().await.unwrap().revision.0
}

async fn until_held(node: &Handle, n: usize) {
    let held = || node.look(|node| node.member().map_or(0, |member| node.view().count(&member)));
    while held() < n {
        sleep(Duration::from_millis(50)).await;
    }
}

/// 1,000 jobs due on every second: how late do they start, and what does a fire cost?
async fn steady(folder: &Path) {
    let seen = Arc::new(Seen::default());
    fill(folder, 1_000, "* * * * * *").await;
    let node = evenkeel::open(config(folder, 2_000).with(seen.functions())).await.unwrap();
    until_held(&node, 1_000).await;
    sleep(Duration::from_secs(2)).await;
    let (before, cpu) = (revision(folder).await, cpu_seconds());
    seen.watch(20).await;
    let (after, cpu) = (revision(folder).await, cpu_seconds() - cpu);
    let fires = seen.fires.load(Ordering::Relaxed);
    println!(
        "steady: {:.0} fires/s, {}, {:.2} transactions a fire, {:.0} % of a core",
        fires as f64 / 20.0,
        seen.lateness(),
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
    let all = (0..2 * BATCH).map(|i| Txn { guards: vec![], writes: vec![put(keys::place(&job(i)))] });
    let places = registry.commit(all.collect()).await;
    let mut lanes = vec![None; 2 * BATCH];
    let begin = clock::now().mono;
    for _ in 0..ROUNDS {
        let half = |half: usize| {
            let txns = (half * BATCH..(half + 1) * BATCH).map(|i| {
                let Outcome::Applied(place) = places[i] else { panic!("{:?}", places[i]) };
                let lane = keys::lane(&job(i));
                let known = lanes[i].map_or(Guard::Absent(lane.clone()), |at| Guard::At(lane.clone(), at));
                let guards =
                    vec![known, Guard::At(keys::place(&job(i)), place), Guard::Present(keys::place(&job(0)))];
                Txn { guards, writes: vec![put(lane)] }
            });
            registry.commit(txns.collect())
        };
        let (first, second) = tokio::join!(half(0), half(1));
        for (lane, outcome) in lanes.iter_mut().zip(first.into_iter().chain(second)) {
            let Outcome::Applied(at) = outcome else { panic!("{outcome:?}") };
            *lane = Some(at);
        }
    }
    (2 * BATCH * ROUNDS) as f64 / (clock::now().mono - begin).0 as f64 * 1000.0
}

/// Far more jobs than can be fired in a second: how many are, beside what SQLite itself could write?
async fn flood(folder: &Path) {
    let writes = ceiling(&folder.join("ceiling"), 20_000, 1_000, 200).unwrap();
    let engine = engine(folder).await;
    let seen = Arc::new(Seen::default());
    fill(folder, FLOOD, "* * * * * *").await;
    let node = evenkeel::open(config(folder, FLOOD as u32).with(seen.functions())).await.unwrap();
    until_held(&node, FLOOD).await;
    sleep(Duration::from_secs(2)).await;
    let cpu = cpu_seconds();
    seen.watch(10).await;
    let fires = seen.fires.load(Ordering::Relaxed) as f64 / 10.0;
    println!(
        "flood: {fires:.0} fires/s, {}, the engine alone {engine:.0} guarded transactions/s, \
         ratio {:.2} at two a fire, SQLite by hand {writes:.0} rows/s, {:.0} % of a core",
        seen.lateness(),
        fires * 2.0 / engine,
        (cpu_seconds() - cpu) / 11.0 * 100.0
    );
    node.stop_now().await;
}

/// 100,000 jobs due at one moment: how long until the last one has started?
async fn burst(folder: &Path) {
    const JOBS: usize = 100_000;
    let seen = Arc::new(Seen::default());
    fill(folder, JOBS, "0 * * * * *").await;
    let node = evenkeel::open(config(folder, JOBS as u32).with(seen.functions())).await.unwrap();
    until_held(&node, JOBS).await;
    // The minute after the next one is surely not yet claimed.
    let due = (clock::now().wall.0 / 60_000 + 2) * 60_000;
    sleep(until(Wall(due - 2_000))).await;
    seen.until.store(due + 59_000, Ordering::Relaxed);
    seen.from.store(due - 2_000, Ordering::Relaxed);
    let deadline = due + 50_000;
    while (seen.fires.load(Ordering::Relaxed) as usize) < JOBS && clock::now().wall.0 < deadline {
        sleep(Duration::from_millis(10)).await;
    }
    let took = clock::now().wall.0 - due;
    let fires = seen.fires.load(Ordering::Relaxed);
    println!("burst: {fires} of {JOBS} started within {took} ms of their due moment, {}", seen.lateness());
    node.stop_now().await;
}

/// A million jobs that are hardly ever due: how long does a node take to start, and what does it cost to have them?
async fn million(folder: &Path) {
    const JOBS: usize = 1_000_000;
    fill(folder, JOBS, "0 0 1 1 *").await;
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
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// CPU time that this process has used, by its clock ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let rest = stat.rsplit_once(") ").unwrap().1;
    let ticks: f64 = rest.split(' ').skip(11).take(2).map(|n| n.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}
