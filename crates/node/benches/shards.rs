//! What sharded jobs cost over SQLite: `cargo bench -p evenkeel --bench shards -- lateness|spread|recut|requests`.
//!
//! Several nodes live in this process on one registry file, each on a thread of its own as in production, and call
//! functions. Each line of the table has what the same machine did beside it, to compare with. Without an argument all
//! parts run.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails is no benchmark")]

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use evenkeel::core::ids::JobName;
use evenkeel::core::job::Placement;
use evenkeel::core::sharding_strategy::ShardingStrategy;
use evenkeel::{Command, Config, Functions, Handle, JobFile, RunContext, Work};
use evenkeel_registry::bench::sqlite_ceiling;
use mimalloc::MiMalloc;
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The one that the binary has.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const PARTS: [&str; 4] = ["lateness", "spread", "recut", "requests"];
const NAMES: [&str; 3] = ["a", "b", "c"];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    tracing::subscriber::set_global_default(EffectTrace).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{:<58} {:>9} {:>9} {:>9}  goal", "", "p50", "p99", "max");
    for part in PARTS.iter().filter(|part| asked.is_empty() || asked.iter().any(|arg| arg == *part)) {
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            match *part {
                "lateness" => lateness(folder.path()).await,
                "spread" => spread(folder.path()).await,
                "recut" => {
                    for (shards, goal) in [(1_000, 50), (5_000, 100), (20_000, 300)] {
                        reshard(&folder.path().join(shards.to_string()), shards, goal).await;
                    }
                }
                _ => requests(folder.path()).await,
            }
        });
    }
}

/// Microseconds of the calendar.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures below the milliseconds that nodes know")]
fn micros() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}

/// One line of the table, of figures in microseconds.
fn print_row(what: &str, mut figures: Vec<i64>, goal: &str) {
    figures.sort_unstable();
    let at = |share: f64| match figures.len() {
        0 => "none".to_string(),
        n => format!("{:.2} ms", figures[((n as f64 * share) as usize).min(n - 1)] as f64 / 1000.0),
    };
    println!("{what:<58} {:>9} {:>9} {:>9}  {goal}", at(0.5), at(0.99), at(1.0));
}

/// What the function `note` saw.
#[derive(Default)]
struct StartLog {
    starts: Mutex<Vec<ShardStart>>,
    count: AtomicUsize,
}

#[derive(Clone)]
struct ShardStart {
    at: i64,
    due: i64,
    job: JobName,
    node: &'static str,
}

impl StartLog {
    fn functions(self: &Arc<Self>, node: &'static str) -> Functions {
        let seen = self.clone();
        Functions::new().add("note", move |run: RunContext| {
            let at = micros();
            let run = run.run();
            let start = ShardStart { at, due: run.due.0 * 1000, job: run.id.job.clone(), node };
            seen.starts.lock().unwrap().push(start);
            seen.count.fetch_add(1, Ordering::Relaxed);
            async {}
        })
    }

    async fn open(self: &Arc<Self>, folder: &Path, name: &'static str) -> Handle {
        let registry = format!("sqlite:{}", folder.join("books").display());
        let mut config = Config::new(name.parse().unwrap(), registry, folder.join(name));
        config.slots = 50_000;
        evenkeel::open(config.with(self.functions(name))).await.unwrap()
    }

    /// What starts in these seconds, from the next whole one on.
    async fn watch(&self, seconds: i64) -> Vec<ShardStart> {
        let from = (micros() / 1_000_000 + 1) * 1_000_000 + 500_000;
        sleep_until(from).await;
        self.starts.lock().unwrap().clear();
        sleep_until(from + seconds * 1_000_000).await;
        std::mem::take(&mut *self.starts.lock().unwrap())
    }

    /// Waits until so many have started since the last time.
    async fn wait(&self, n: usize) -> Vec<ShardStart> {
        while self.count.load(Ordering::Relaxed) < n {
            sleep(Duration::from_millis(5)).await;
        }
        self.count.fetch_sub(n, Ordering::Relaxed);
        std::mem::take(&mut *self.starts.lock().unwrap())
    }
}

async fn sleep_until(at: i64) {
    sleep(Duration::from_micros(u64::try_from(at - micros()).unwrap_or(0))).await;
}

/// How late this process wakes at whole seconds when it does nothing else: what no scheduler in it can beat.
async fn bare_timer(seconds: i64) -> Vec<i64> {
    let mut late = Vec::new();
    let first = micros() / 1_000_000 + 2;
    for second in first..first + seconds {
        sleep_until(second * 1_000_000).await;
        late.push(micros() - second * 1_000_000);
    }
    late
}

fn job(name: &str, schedule: &str, shards: u32) -> JobFile {
    let mut job = JobFile::new(name.parse().unwrap(), schedule, Work::Function("note".into()));
    job.placement = Placement::Sharded;
    job.shards = shards;
    job
}

/// Until the shares of all these jobs are cut for so many nodes.
async fn until_resharded(node: &Handle, jobs: &[JobFile], nodes: usize) {
    let cut = |job: &JobFile| {
        let sharding = node.with_node(|node| node.view().find(job.name.name())?.sharding().cloned());
        sharding.is_some_and(|sharding| {
            sharding.shard_map.among.len() == nodes && sharding.reshard_pending.is_none()
        })
    };
    while !jobs.iter().all(cut) {
        sleep(Duration::from_millis(20)).await;
    }
}

async fn stop(nodes: Vec<Handle>) {
    for node in nodes {
        node.leave(Duration::from_secs(5)).await;
    }
}

/// One job of 10 shards, each second, on 2 nodes.
async fn lateness(folder: &Path) {
    let seen = Arc::new(StartLog::default());
    let nodes = vec![seen.open(folder, "a").await, seen.open(folder, "b").await];
    let jobs = vec![job("ten", "* * * * * *", 10)];
    nodes[0].apply(jobs.clone()).await.unwrap();
    until_resharded(&nodes[0], &jobs, 2).await;
    let (starts, bare) = tokio::join!(seen.watch(40), bare_timer(38));
    assert_eq!(starts.len(), 400, "every shard ran each second");
    let late = starts.iter().map(|start| start.at - start.due).collect();
    print_row("10 shards each second on 2 nodes: lateness", late, "p50 ≤ 2 ms, p99 ≤ 5 ms");
    print_row("  beside it: a bare timer of this process", bare, "");
    stop(nodes).await;
}

/// 100 jobs of one shard in the same second on 2 nodes.
async fn spread(folder: &Path) {
    let seen = Arc::new(StartLog::default());
    let nodes = vec![seen.open(folder, "a").await, seen.open(folder, "b").await];
    let jobs: Vec<JobFile> = (0..100)
        .map(|i| JobFile {
            strategy: ShardingStrategy::Rotate,
            ..job(&format!("one-{i:03}"), "*/2 * * * * *", 1)
        })
        .collect();
    nodes[0].apply(jobs.clone()).await.unwrap();
    until_resharded(&nodes[0], &jobs, 2).await;
    let (starts, bare) = tokio::join!(seen.watch(40), bare_timer(38));
    assert_eq!(starts.len(), 2_000, "every job ran each two seconds");
    let late = starts.iter().map(|start| start.at - start.due).collect();
    print_row("100 jobs of one shard in one second on 2 nodes: lateness", late, "p50 ≤ 5 ms, p99 ≤ 20 ms");
    print_row("  beside it: a bare timer of this process", bare, "");
    let share = |name| starts.iter().filter(|start| start.node == name).count() / 20;
    let names: std::collections::BTreeSet<_> = starts.iter().map(|start| &start.job).collect();
    println!("  jobs on each node: {} and {}, of {}; goal even", share("a"), share("b"), names.len());
    stop(nodes).await;
}

/// A third node joins, a run is asked for: how long until the first shard starts under the new cut?
async fn reshard(folder: &Path, shards: u32, goal: i64) {
    const ROUNDS: usize = 7;
    std::fs::create_dir(folder).unwrap();
    let seen = Arc::new(StartLog::default());
    let nodes = vec![seen.open(folder, "a").await, seen.open(folder, "b").await];
    let jobs = vec![job("wide", "", shards)];
    nodes[0].apply(jobs.clone()).await.unwrap();
    ask(&nodes[0], "warm").await;
    seen.wait(shards as usize).await;
    until_rest(&nodes[0]).await;
    let mut figures: [Vec<i64>; 5] = Default::default();
    for round in 0..ROUNDS {
        EffectTrace::listen();
        let third = seen.open(folder, NAMES[2]).await;
        let joined = micros();
        until_reshard_pending(&nodes[0]).await;
        let asked = micros();
        ask(&nodes[0], &format!("joined-{round}")).await;
        let starts = seen.wait(shards as usize).await;
        let heard = EffectTrace::counts();
        let cut = heard.get("commit cut").map_or(0, |told| told.last);
        let first = starts.iter().map(|start| start.at).min().unwrap();
        let last = starts.iter().map(|start| start.at).max().unwrap();
        assert!(starts.iter().any(|start| start.node == NAMES[2]), "the third node got a share");
        for (figures, since) in
            figures.iter_mut().zip([first - joined, first - asked, first - cut, last - cut, cut - asked])
        {
            figures.push(since);
        }
        third.leave(Duration::from_secs(5)).await;
        until_reshard_pending(&nodes[0]).await;
        ask(&nodes[0], &format!("left-{round}")).await;
        seen.wait(shards as usize).await;
        until_rest(&nodes[0]).await;
    }
    let goal = format!("≤ {goal} ms");
    let [joined, asked, cut, all, wait] = figures;
    print_row(&format!("re-cut of {shards} shards on 3 nodes: joined to first start"), joined, &goal);
    print_row("  asked for to first start", asked, &goal);
    print_row("  asked for to cut", wait, "");
    print_row("  cut to first start", cut, &goal);
    print_row("  cut to last start", all, "");
    let commit = (1_000_000.0 / sqlite_ceiling(&folder.join("ceiling"), 20, 1, 200).unwrap()) as i64;
    print_row("  beside it: a commit of one row by hand, on average", vec![commit], "");
    stop(nodes).await;
}

async fn ask(node: &Handle, request: &str) {
    let command = Command::RunNow("wide".parse().unwrap(), request.parse().unwrap());
    let answer = node.ask(command).await;
    assert!(matches!(answer, evenkeel::Answer::Accepted(..)), "{answer:?}");
}

/// Until no run of the fire before is open: a new cut waits for those, and that is not what is measured.
async fn until_rest(node: &Handle) {
    let wide = "wide".parse().unwrap();
    while !node.shard_run_states(&wide).await.unwrap().values().all(|run_state| run_state.open.is_empty()) {
        sleep(Duration::from_millis(20)).await;
    }
}

async fn until_reshard_pending(node: &Handle) {
    let wide = "wide".parse().unwrap();
    let marked = || node.with_node(|n| Some(n.view().find(&wide)?.sharding()?.reshard_pending.is_some()));
    while marked() != Some(true) {
        sleep(Duration::from_millis(1)).await;
    }
}

/// One job of 1,000 shards on 3 nodes: what does a fire ask of the registry?
async fn requests(folder: &Path) {
    const FIRES: usize = 10;
    let seen = Arc::new(StartLog::default());
    let mut nodes = Vec::new();
    for name in NAMES {
        nodes.push(seen.open(folder, name).await);
    }
    let jobs = vec![job("thousand", "*/2 * * * * *", 1_000)];
    nodes[0].apply(jobs.clone()).await.unwrap();
    until_resharded(&nodes[0], &jobs, 3).await;
    seen.watch(2).await;
    EffectTrace::listen();
    let starts = seen.watch(2 * FIRES as i64).await;
    let heard = EffectTrace::counts();
    assert_eq!(starts.len(), 1_000 * FIRES, "every shard ran each two seconds");
    let late = starts.iter().map(|start| start.at - start.due).collect();
    print_row("1,000 shards each two seconds on 3 nodes: lateness", late, "");
    let asks = |kind: &str| !(kind.starts_with("start") || kind.starts_with("announce"));
    let total: usize = heard.iter().filter(|(kind, _)| asks(kind)).map(|(_, told)| told.count).sum();
    let kinds: Vec<String> = heard
        .iter()
        .filter(|(kind, _)| asks(kind))
        .map(|(kind, told)| format!("{} {kind}", told.count))
        .collect();
    // Listening began a little before the fires that are counted.
    let each = total as f64 / (FIRES as f64 + 0.75);
    println!("requests to the registry, all nodes, a fire of 1,000 shards: {each:.1}; goal ≤ 50");
    println!("  in {FIRES} fires: {}", kinds.join(", "));
    stop(nodes).await;
}

/// Listens to what the nodes' drivers ask of the world, by their own trace.
struct EffectTrace;

/// What was heard of one kind of effect.
#[derive(Clone, Copy, Default)]
struct EffectCount {
    count: usize,
    last: i64,
}

static LISTENING: AtomicBool = AtomicBool::new(false);
static EFFECTS: Mutex<BTreeMap<String, EffectCount>> = Mutex::new(BTreeMap::new());

impl EffectTrace {
    fn listen() {
        EFFECTS.lock().unwrap().clear();
        LISTENING.store(true, Ordering::SeqCst);
    }

    fn counts() -> BTreeMap<String, EffectCount> {
        LISTENING.store(false, Ordering::SeqCst);
        std::mem::take(&mut *EFFECTS.lock().unwrap())
    }
}

impl Subscriber for EffectTrace {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        LISTENING.load(Ordering::Relaxed) && metadata.target() == "evenkeel::driver"
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }

    fn event(&self, event: &Event<'_>) {
        let mut said = EventPrefix::default();
        event.record(&mut said);
        // Of a commit the act, of anything else its first word.
        let mut words = said.0.split(' ');
        let kind = match words.next() {
            Some("start") => return,
            Some("commit") => {
                let act = said.0.split_once(' ').and_then(|(_, rest)| rest.split_once(' '));
                format!("commit {}", act.map_or("", |(_, act)| act.split(':').next().unwrap_or("")))
            }
            first => first.unwrap_or("").to_string(),
        };
        let mut heard = EFFECTS.lock().unwrap();
        let told = heard.entry(kind).or_default();
        *told = EffectCount { count: told.count + 1, last: micros() };
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The first words of an event.
#[derive(Default)]
struct EventPrefix(String);

impl Visit for EventPrefix {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Ends with an error when enough was said.
            let _ = write!(self, "{value:?}");
        }
    }
}

impl fmt::Write for EventPrefix {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() > 40 { Err(fmt::Error) } else { Ok(()) }
    }
}
