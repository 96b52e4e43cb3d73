//! Every engine beside its own client, in one run: `cargo bench -p evenkeel --bench engines -- [ENGINE…]`.
//!
//! SQLite always, and each server that `EVENKEEL_TEST_<NAME>` names, as `cargo xtask engines env` does. One table, ratios
//! first; `docs/engines.md` says how to read it.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails is no benchmark")]

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::bench::{FireLog, Percentiles, declare, declare_with, jobs_held};
use evenkeel::core::job::Delivery;
use evenkeel::core::keys::{self, Key};
use evenkeel::core::registry::{FeedKind, Guard, Revision, Txn, TxnOutcome, Write};
use evenkeel::core::time::{Millis, Mono};
use evenkeel::{Config, Functions, Handle, clock};
use evenkeel_registry::bench::{BaselineClient, VALUE, baseline_client, nth_row, row_key};
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::conformance::with_fresh_namespace;
use evenkeel_registry::{Registry, open};
use mimalloc::MiMalloc;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// The one that the binary has.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const ENGINES: [&str; 6] = ["sqlite", "postgres", "mysql", "redis", "etcd", "zookeeper"];
/// As many as a node sends in one trip at most.
const BATCH: usize = 1_000;
const ROWS: u32 = 20_000;

/// How long everything takes.
struct BenchEffort {
    rate: Duration,
    /// How often fires are counted, each time between two counts by hand.
    rounds: usize,
    watch: u32,
    propagations: usize,
    deaths: usize,
    jobs_max: usize,
}

const THOROUGH: BenchEffort = BenchEffort {
    rate: Duration::from_secs(2),
    rounds: 3,
    watch: 5,
    propagations: 200,
    deaths: 30,
    jobs_max: 100_000,
};
/// `cargo test --benches` only wants to know that it runs.
const BRIEF: BenchEffort = BenchEffort {
    rate: Duration::from_millis(50),
    rounds: 1,
    watch: 1,
    propagations: 3,
    deaths: 1,
    jobs_max: 100,
};

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let effort = if std::env::args().any(|arg| arg == "--bench") { THOROUGH } else { BRIEF };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut table = vec![HEAD.map(str::to_owned)];
    for engine in ENGINES.into_iter().filter(|engine| asked.is_empty() || asked.iter().any(|it| it == engine))
    {
        let folder = tempfile::tempdir().unwrap();
        let Some(place) = BenchEngine::find(engine, folder.path()) else {
            println!("{engine}: skipped, EVENKEEL_TEST_{} names no server", engine.to_uppercase());
            continue;
        };
        let row = runtime.block_on(measure(&place, &effort));
        println!("{}", row.join(" | "));
        table.push(row);
    }
    print(&table);
}

/// Where an engine is, and a folder for what nodes leave.
struct BenchEngine<'a> {
    engine: &'static str,
    url: String,
    folder: &'a Path,
}

impl<'a> BenchEngine<'a> {
    fn find(engine: &'static str, folder: &'a Path) -> Option<Self> {
        let url = match engine {
            "sqlite" => format!("sqlite:{}", folder.display()),
            _ => std::env::var(format!("EVENKEEL_TEST_{}", engine.to_uppercase())).ok()?,
        };
        Some(Self { engine, url, folder })
    }

    /// A registry that nobody has used.
    fn empty(&self) -> String {
        with_fresh_namespace(&self.url)
    }

    fn config(&self, name: &str, registry: &str) -> Config {
        let data = self.folder.join(format!("{name}-{}", registry.rsplit('/').next().unwrap()));
        Config::new(name.parse().unwrap(), registry, data)
    }

    async fn native_client(&self, together: bool) -> Box<dyn BaselineClient> {
        let url = if self.engine == "sqlite" { format!("{}/by-hand", self.url) } else { self.url.clone() };
        baseline_client(&url, ROWS, together).await.unwrap()
    }

    /// Whether the engine also takes commits side by side, each as a transaction of its own.
    fn takes_each_by_itself(&self) -> bool {
        matches!(self.engine, "etcd" | "zookeeper")
    }
}

const HEAD: [&str; 14] = [
    "engine",
    "fires ÷ by hand",
    "batched ÷ by hand",
    "one ÷ by hand",
    "by hand one/s",
    "by hand batched/s",
    "each by itself/s",
    "ours one/s",
    "ours batched/s",
    "fires/s",
    "late p50/p99 ms",
    "news p50/p99 ms",
    "expiry p50 ms",
    "after p50/p99 ms",
];

async fn measure(place: &BenchEngine<'_>, effort: &BenchEffort) -> [String; 14] {
    let mut hand = place.native_client(true).await;
    let hand_one = rate(1, effort.rate, async |pairs| hand.commit(pairs).await.unwrap()).await;
    let hand_each = match place.takes_each_by_itself() {
        true => {
            let mut hand = place.native_client(false).await;
            let each = rate(BATCH, effort.rate, async |pairs| hand.commit(pairs).await.unwrap()).await;
            format!("{each:.0}")
        }
        false => "–".to_owned(),
    };
    let mut by_hand =
        async || rate(BATCH, effort.rate, async |pairs| hand.commit(pairs).await.unwrap()).await;
    let before = by_hand().await;
    let mut ours = RegistryRows::make(&place.empty()).await;
    let ours_one = rate(1, effort.rate, async |pairs| ours.commit(pairs).await).await;
    let ours_many = rate(BATCH, effort.rate, async |pairs| ours.commit(pairs).await).await;
    let pushed = ours.registry.facts().feed == FeedKind::Pushed;
    drop(ours);
    let mut after = by_hand().await;
    let batched = BenchRound { ours: ours_many, native: f64::midpoint(before, after) };
    let jobs = (after.min(ours_many) * 1.3) as usize;
    let mut rounds = Vec::new();
    for _ in 0..effort.rounds {
        let (before, fires) = (after, flood(place, jobs.clamp(100, effort.jobs_max), effort.watch).await);
        after = by_hand().await;
        rounds.push(BenchRound { ours: fires, native: f64::midpoint(before, after) });
    }
    let fires = median(rounds);
    let late = steady(place, effort.watch).await;
    let news = propagation(place, effort.propagations).await;
    let (expiry, after): (Vec<_>, Vec<_>) = deaths(place, effort.deaths).await.into_iter().unzip();
    let share = |part: f64, of: f64| format!("{:.0} %", part / of * 100.0);
    [
        format!("{} ({})", place.engine, if pushed { "pushed" } else { "polled" }),
        share(fires.ours, fires.native),
        share(batched.ours, batched.native),
        share(ours_one, hand_one),
        format!("{hand_one:.0}"),
        format!("{:.0}", fires.native),
        hand_each,
        format!("{ours_one:.0}"),
        format!("{ours_many:.0}"),
        format!("{:.0}", fires.ours),
        format!("{:.1}/{:.1}", late.p50, late.p99),
        spread(&news),
        format!("{:.0}", percentile(&expiry, 50)),
        spread(&after),
    ]
}

/// What was counted of ours, and by hand right before and after it: what a shared machine gives changes from minute to
/// minute, so only what was measured side by side is compared.
#[derive(Clone, Copy, Debug)]
struct BenchRound {
    ours: f64,
    native: f64,
}

/// The one in the middle by its ratio.
fn median(mut rounds: Vec<BenchRound>) -> BenchRound {
    rounds.sort_by(|a, b| (a.ours / a.native).total_cmp(&(b.ours / b.native)));
    rounds[rounds.len() / 2]
}

/// Commits a second, so many sent together.
async fn rate(batch: usize, span: Duration, mut commit: impl AsyncFnMut(&[[u32; 2]])) -> f64 {
    let (mut nth, mut made) = (0, 0);
    let watch = Stopwatch::start();
    while watch.elapsed() < span {
        let pairs = (0..batch as u32).map(|pair| [nth + 2 * pair, nth + 2 * pair + 1]);
        let pairs: Vec<_> = pairs.map(|pair| pair.map(|row| nth_row(row, ROWS))).collect();
        commit(&pairs).await;
        nth = (nth + 2 * batch as u32) % ROWS;
        made += batch;
    }
    made as f64 / watch.elapsed().as_secs_f64()
}

/// The same rows in a registry, as lanes.
struct RegistryRows {
    registry: Arc<dyn Registry>,
    revisions: Vec<Revision>,
}

impl RegistryRows {
    async fn make(url: &str) -> Self {
        let mut ours =
            Self { registry: open(url).await.unwrap(), revisions: vec![Revision(0); ROWS as usize] };
        for first in (0..ROWS).step_by(2 * BATCH) {
            let pairs: Vec<_> =
                (first..first + 2 * BATCH as u32).step_by(2).map(|row| [row, row + 1]).collect();
            ours.commit(&pairs).await;
        }
        ours
    }

    async fn commit(&mut self, pairs: &[[u32; 2]]) {
        let key = |row| Key::from_stored(row_key(row));
        let guard = |row| match self.revisions[row as usize] {
            Revision(0) => Guard::Absent(key(row)),
            known => Guard::At(key(row), known),
        };
        let put = |row| Write::Put { key: key(row), value: VALUE.as_slice().into(), owner: None };
        let txn = |pair: &[u32; 2]| Txn { guards: pair.map(guard).into(), writes: pair.map(put).into() };
        let outcomes = self.registry.commit(pairs.iter().map(txn).collect()).await;
        for (pair, outcome) in pairs.iter().zip(outcomes) {
            let TxnOutcome::Applied(revision) = outcome else {
                panic!("{outcome:?}: {:?}", self.registry.last_error())
            };
            pair.iter().for_each(|row| self.revisions[*row as usize] = revision);
        }
    }
}

async fn until_held(node: &Handle, n: usize) {
    while jobs_held(std::slice::from_ref(node))[0] < n {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Fires a second of more jobs than can be fired, each with its claim in the registry before it starts.
async fn flood(place: &BenchEngine<'_>, jobs: usize, seconds: u32) -> f64 {
    let (seen, url) = (Arc::new(FireLog::default()), place.empty());
    declare(&url, jobs, "* * * * * *").await.unwrap();
    let mut config = place.config("a", &url).with(seen.functions());
    config.slots = jobs as u32;
    let node = evenkeel::open(config).await.unwrap();
    until_held(&node, jobs).await;
    sleep(Duration::from_secs(2)).await;
    let seen = seen.watch(seconds).await;
    node.stop_now().await;
    seen.fires as f64 / f64::from(seconds)
}

/// How late 100 jobs start that are due on every second.
async fn steady(place: &BenchEngine<'_>, seconds: u32) -> Percentiles {
    let (seen, url) = (Arc::new(FireLog::default()), place.empty());
    declare(&url, 100, "* * * * * *").await.unwrap();
    let node = evenkeel::open(place.config("a", &url).with(seen.functions())).await.unwrap();
    until_held(&node, 100).await;
    sleep(Duration::from_secs(2)).await;
    let seen = seen.watch(seconds).await;
    node.stop_now().await;
    seen.lateness
}

/// From asking for a commit on one connection to hearing of it on another, in ms.
async fn propagation(place: &BenchEngine<'_>, times: usize) -> Vec<f64> {
    let url = place.empty();
    let (writer, listener) = (open(&url).await.unwrap(), open(&url).await.unwrap());
    let mut feed = listener.watch(listener.list().await.unwrap().revision).await.unwrap();
    let mut took = Vec::new();
    for _ in 0..times {
        let put = Write::Put {
            key: keys::assignment(&"a".parse().unwrap()),
            value: VALUE.as_slice().into(),
            owner: None,
        };
        let watch = Stopwatch::start();
        let made = writer.commit(vec![Txn { guards: vec![], writes: vec![put] }]).await.remove(0);
        let TxnOutcome::Applied(revision) = made else { panic!("{made:?}") };
        while feed.next().await.unwrap().revision < revision {}
        took.push(watch.elapsed().as_secs_f64() * 1e3);
    }
    took
}

/// A node dies without a word, again and again: how long until its lease is seen to end, and from there until its
/// successor starts its job, in ms.
async fn deaths(place: &BenchEngine<'_>, times: usize) -> Vec<(f64, f64)> {
    let mut seen = Vec::new();
    for _ in 0..times {
        let url = place.empty();
        // The run that the dead node had claimed is attempted again; there need be no wait for the next one.
        declare_with(&url, 1, "* * * * * *", |job| job.delivery = Delivery::AtLeastOnce).await.unwrap();
        let config = |name, starts: mpsc::UnboundedSender<Mono>| {
            let note = move |_| {
                let _ = starts.send(clock::now().mono);
                async {}
            };
            let mut config = place.config(name, &url).with(Functions::new().add("note", note));
            config.ttl = Duration::from_secs(2);
            config
        };
        let ((begun, mut begins), (succeeded, mut starts)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let victim = evenkeel::open(config("a", begun)).await.unwrap();
        begins.recv().await.unwrap();
        let successor = evenkeel::open(config("b", succeeded)).await.unwrap();
        let (member, watcher) = (victim.with_node(|node| node.member().unwrap()), open(&url).await.unwrap());
        while successor.with_node(|node| node.member().is_none()) {
            sleep(Duration::from_millis(20)).await;
        }
        let mut feed = watcher.watch(watcher.list().await.unwrap().revision).await.unwrap();
        begins.recv().await.unwrap();
        let killed = clock::now().mono;
        // At once, and its lease is left to end by itself.
        victim.stop_now().await;
        let gone = keys::node(&member);
        while !feed.next().await.unwrap().changes.iter().any(|it| it.key == gone && it.entry.is_none()) {}
        let ended = clock::now().mono;
        let started = starts.recv().await.unwrap();
        seen.push((ms(ended - killed), ms(started - ended).max(0.0)));
        successor.stop_now().await;
    }
    seen
}

fn ms(span: Millis) -> f64 {
    span.0 as f64
}

fn percentile(of: &[f64], percent: usize) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() * percent).div_ceil(100)).clamp(1, sorted.len()) - 1]
}

fn spread(of: &[f64]) -> String {
    format!("{:.1}/{:.1}", percentile(of, 50), percentile(of, 99))
}

fn print(table: &[[impl Display; 14]]) {
    println!();
    for (nth, row) in table.iter().enumerate() {
        let cells: Vec<_> = row.iter().map(ToString::to_string).collect();
        println!("| {} |", cells.join(" | "));
        if nth == 0 {
            println!("|{}", "---|".repeat(cells.len()));
        }
    }
}
