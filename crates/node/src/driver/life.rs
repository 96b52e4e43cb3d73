//! A node's life: everything is opened, then driven, then closed, on a thread of its own.
//!
//! The thread has a runtime of its own too, so that functions which block the embedder's threads never keep a lease from
//! being renewed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use evenkeel_core::baton::Baton;
use evenkeel_core::effect::Event;
use evenkeel_core::node::{Node, Settings};
use evenkeel_core::record::Layouts;
use evenkeel_core::time::{Millis, Mono};
use evenkeel_core::words::NodeName;
use evenkeel_registry::Registry;
use tokio::runtime::{Builder, Handle as Runtime};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::aside::Aside;
use super::cluster;
use super::commits::Commits;
use super::feed::Listening;
use super::folder::Folder;
use super::inbox::{Happening, Inbox, ORDERS_MAX};
use super::joining;
use super::lease::Leases;
use super::pass::{ToKeeper, Upgrading};
use super::peers::Reach;
use super::runs::Runs;
use super::timer::Timer;
use super::trails::Trails;
use super::watch::Watch;
use super::{Able, Driver, End};
use crate::clock;
use crate::config::{Config, Keep};
use crate::error::OpenError;
use crate::executor::{Executor, News};
use crate::executors::{CommandRuns, Counts, Ends, FunctionRuns, HttpRuns};
use crate::guard::{self, Guard, Keeper, Kept, Pipes};
use crate::handle::{Handle, Order, Shared};
use crate::history::{History, HistoryReader, Place, Told};
use crate::host::Host;
use crate::logs::{Bounds, Logs};
use crate::notify::{Notifier, Notifiers};
use crate::upgrade::{Passed, PassedRun};

/// The shortest term of a lease.
const TTL_MIN: Duration = Duration::from_secs(2);
/// How long before its due moment a fire may be claimed; also how much of the future a crash puts in doubt.
const LEAD: Millis = Millis::secs(1);
/// How much the clock may differ from the registry's.
const MAX_CLOCK_SKEW: Millis = Millis::secs(1);
/// How often everything is read again even if no news is missing.
const RESCAN: Millis = Millis::secs(60);
/// How often output is tidied.
const TIDY: Duration = Duration::from_secs(60);
/// How often watchers are told of changes at most.
const CHANGES: Duration = Duration::from_millis(100);
/// How long runs may take to end when the node stops: as long as the guard lets them, and a little.
const LAST_RUNS: Duration = Duration::from_secs(3);
/// How long notifiers may take to tell what waits.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How long the history may take for its last entries.
const LAST_ENTRIES: Duration = Duration::from_secs(5);
/// How often the host is measured; the first time sooner, for until then nobody knows how busy it is.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
const MEASURE_FIRST: Duration = Duration::from_millis(500);

/// Opens a node and starts its thread. Returns once it is a member, or could not become one within a lease's term; where another
/// has its name, within half a term more.
pub(crate) async fn begin(config: Config, passed: Option<Passed>) -> Result<Handle, OpenError> {
    if config.ttl < TTL_MIN {
        return Err(OpenError::Setting(format!(
            "the lease's term is {:?}: give at least {TTL_MIN:?}",
            config.ttl
        )));
    }
    if config.slots == 0 {
        return Err(OpenError::Setting("slots is 0: give at least 1".to_string()));
    }
    let (opened, ready) = oneshot::channel();
    let functions_run_on = Runtime::current();
    let thread = thread::Builder::new().name("evenkeel-node".into()).spawn(move || {
        let (runtime, registry) = match runtimes() {
            Ok(both) => both,
            Err(e) => {
                let _ = opened.send(Err(OpenError::Setting(format!("no runtime could be started: {e}"))));
                return;
            }
        };
        let places = Places { functions: functions_run_on, registry: registry.handle().clone() };
        runtime.block_on(live(config, passed, places, opened));
        // What still blocks, a lock on a file at the most, must not keep the thread.
        runtime.shutdown_timeout(Duration::from_secs(1));
        registry.shutdown_timeout(Duration::from_secs(1));
    });
    thread.map_err(|e| OpenError::Setting(format!("no thread could be started: {e}")))?;
    let ended = || OpenError::Setting("the node's thread ended unexpectedly: see the log".to_string());
    let (handle, mut joined, ttl) = ready.await.map_err(|_| ended())??;
    let Some(taken) = joining::refusal(&mut joined, ttl).await else { return Ok(handle) };
    handle.stop_now().await;
    Err(taken)
}

/// What the node itself runs on, and what asks its registry.
fn runtimes() -> std::io::Result<(tokio::runtime::Runtime, tokio::runtime::Runtime)> {
    let mut aside = Builder::new_multi_thread();
    let aside = aside.worker_threads(1).thread_name("evenkeel-registry").enable_all().build()?;
    Ok((Builder::new_current_thread().enable_all().build()?, aside))
}

/// Where that runs which is to hold up no step.
struct Places {
    functions: Runtime,
    registry: Runtime,
}

type Opened = Result<(Handle, watch::Receiver<Option<Event>>, Duration), OpenError>;

async fn live(config: Config, passed: Option<Passed>, places: Places, opened: oneshot::Sender<Opened>) {
    let ttl = config.ttl;
    let mut life = match Life::open(config, passed, places).await {
        Ok((life, handle, joined)) => {
            // Whoever opened it may have given up; then the handle is dropped and the node stops.
            let _ = opened.send(Ok((handle, joined, ttl)));
            life
        }
        Err(e) => {
            let _ = opened.send(Err(e));
            return;
        }
    };
    life.driver.trust_at_once();
    let end = life.driver.run().await;
    life.close(end).await;
}

/// A driver and what must be closed after it.
struct Life {
    driver: Driver,
    guard: Option<JoinHandle<()>>,
    stopped: watch::Sender<Option<String>>,
}

impl Life {
    async fn open(
        config: Config,
        passed: Option<Passed>,
        places: Places,
    ) -> Result<(Self, Handle, watch::Receiver<Option<Event>>), OpenError> {
        let (folder, registry, generation) = enter(&config, places.registry).await?;
        let url = evenkeel_registry::redacted(&config.registry);
        let (baton, runs, kept) = take_up(passed, &config.name, &url);
        let changed = Arc::new(Notify::new());
        let (told_by, told) = mpsc::unbounded_channel();
        let place = place(&config, &folder)?;
        let shares_history = place.is_shared() || shares_host(&config);
        let (history, reader) = open_history(place, &config, told_by, changed.clone()).await?;
        let logs = Logs::new(folder.path().join("logs"));
        let (news_from, news) = mpsc::unbounded_channel();
        // The old life's runs are gone before its member is: whoever takes over starts beside nobody (law 8).
        let (orders, keeper, guard, lacking) = start_guard(&config, kept, &folder, &news_from).await?;
        let node = mind(settings(&config, &folder, &registry, (generation, lacking)), baton);
        let (to_node, asked) = mpsc::channel(ORDERS_MAX);
        let (inbox, sender) = Inbox::new(news, told, asked);
        let sampled_by = sender.registry.clone();
        let (joined_by, joined) = watch::channel(None);
        let name = config.name.clone();
        let functions = functions(&config, places.functions, &node, &news_from, &to_node);
        let executor = executor(&config, functions, orders, &logs, &news_from);
        let notifiers = start_notifiers(config.notify, &name, &history)?;
        let (watch, late) = Watch::new(name.clone(), node.clone(), &to_node, &history, &notifiers);
        let driver = Driver {
            node: node.clone(),
            registry: registry.clone(),
            inbox,
            sender,
            leases: Leases::new(folder, config.ttl),
            listening: Listening::default(),
            commits: Commits::new(config.ttl),
            executor,
            reach: Reach(config.peers),
            runs: Runs::new(name.clone()).resume(runs),
            history,
            changed: changed.clone(),
            asking: BTreeMap::new(),
            trails: Trails::new(name.clone(), life_id()?),
            wake: None,
            trust: None,
            able: Able { history: true, executor: true },
            joined: joined_by,
            effects: Vec::new(),
            timer: Timer::new().map_err(|e| OpenError::Setting(format!("no timer can be had: {e}")))?,
            taken: 0,
            load_at: Mono(i64::MIN),
            alarm: None,
            notifiers,
            upgrading: Upgrading::new(url, keeper),
            late,
        };
        let (stopped_by, stopped) = watch::channel(None);
        let changes = tell_of_changes(changed);
        tokio::spawn(keep_house(measure(sampled_by), watch.keep(), tidy(logs.clone(), config.keep)));
        let shared = Shared {
            name,
            facts: registry.facts(),
            node,
            orders: to_node,
            history: reader,
            shares_history,
            logs,
            changes,
            stopped,
        };
        Ok((Self { driver, guard, stopped: stopped_by }, Handle { shared: Arc::new(shared) }, joined))
    }

    /// Ends what still runs, writes what is to be remembered, and lets go of the folder.
    async fn close(mut self, end: End) {
        if tokio::time::timeout(LAST_RUNS, self.driver.end_runs()).await.is_err() {
            tracing::warn!("some runs did not end within {LAST_RUNS:?}");
        }
        self.driver.sum_up();
        self.driver.answer_all();
        let Driver { mut leases, executor, history, notifiers, .. } = self.driver;
        leases.finish().await;
        // The guard ends what is left when it hears nothing more, and then itself.
        drop(executor);
        if let Some(guard) = self.guard {
            let _ = guard.await;
        }
        notifiers.close(LAST_WORDS).await;
        history.close(LAST_ENTRIES).await;
        drop(leases);
        let why = match end {
            End::Asked => String::new(),
            End::Fatal(why) => why,
        };
        self.stopped.send_replace(Some(why));
    }
}

/// What tells this life's entries of the audit log from all others.
fn life_id() -> Result<String, OpenError> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    let id = id.map_err(|e| OpenError::Setting(format!("the system gives no random id: {e}")))?;
    Ok(id.trim().to_owned())
}

/// What an earlier program of this process passed on, in parts. Of what another node passed on nothing is this one's: its
/// guard ends its runs when its pipes are dropped here.
fn take_up(passed: Option<Passed>, name: &NodeName, url: &str) -> TakenUp {
    let Some(Passed { state, pipes, .. }) = passed.filter(|passed| passed.is_of(name, url)) else {
        return (None, Vec::new(), None);
    };
    (Some(state.node), state.runs, state.guard.zip(pipes))
}

type TakenUp = (Option<Baton>, Vec<PassedRun>, Option<(Kept, Pipes)>);

/// A node's mind: one that has heard nothing yet, or that goes on.
fn mind(settings: Settings, baton: Option<Baton>) -> Arc<RwLock<Node>> {
    Arc::new(RwLock::new(match baton {
        Some(baton) => Node::resume(settings, baton),
        None => Node::new(settings),
    }))
}

/// Where history is kept.
fn place(config: &Config, folder: &Folder) -> Result<Place, OpenError> {
    Place::of(config.history.as_deref(), &config.registry, folder.path()).map_err(OpenError::Setting)
}

/// What executes functions, and tells the node what they counted.
fn functions(
    config: &Config,
    run_on: Runtime,
    node: &Arc<RwLock<Node>>,
    news: &mpsc::UnboundedSender<News>,
    to_node: &mpsc::Sender<Order>,
) -> FunctionRuns {
    let counts = Arc::new(Counts::default());
    tokio::spawn(counts.clone().tell(to_node.downgrade()));
    let (functions, name) = (config.functions.clone(), config.name.clone());
    FunctionRuns::new(functions, name, run_on, (counts, ends_stream(node)), news.clone())
}

/// Whatever can execute a run.
fn executor(
    config: &Config,
    functions: FunctionRuns,
    orders: Option<Orders>,
    logs: &Logs,
    news: &mpsc::UnboundedSender<News>,
) -> Executor {
    let bounds = Bounds { keep: config.keep.output, rate: config.keep.output_rate };
    Executor {
        http: HttpRuns::new(config, logs.clone(), news.clone()),
        functions,
        commands: CommandRuns::new(orders, config.name.clone(), logs.clone(), bounds, news.clone()),
    }
}

/// What tells a run of streaming data to end. A node that is gone has ended it already.
fn ends_stream(node: &Arc<RwLock<Node>>) -> Ends {
    let node = Arc::downgrade(node);
    Arc::new(move |run| {
        let node = node.upgrade()?;
        let node = node.read().unwrap_or_else(PoisonError::into_inner);
        node.ends_stream(&run.id.job, run.id.shard)
    })
}

/// Measures the host as long as there is a node.
async fn measure(sampled: mpsc::Sender<Happening>) {
    let (mut host, mut wait) = (Host::default(), MEASURE_FIRST);
    loop {
        // Reading a few lines of the kernel's takes no time worth another thread.
        if sampled.send(Happening::Sampled(host.measure())).await.is_err() {
            return;
        }
        tokio::time::sleep(std::mem::replace(&mut wait, MEASURE_EVERY)).await;
    }
}

type Orders = mpsc::UnboundedSender<guard::Order>;

/// The ways to a guard, and which limits of whole runs it cannot keep, and why.
type Started = (Option<Orders>, Option<ToKeeper>, Option<JoinHandle<()>>, String);

/// Starts the guard, where this program can be one.
async fn start_guard(
    config: &Config,
    kept: Option<(Kept, Pipes)>,
    folder: &Folder,
    news: &mpsc::UnboundedSender<News>,
) -> Result<Started, OpenError> {
    let program = config.executable.clone();
    if program.is_none() && !guard::is_possible() {
        return Ok((None, None, None, String::new()));
    }
    let data: PathBuf = folder.path().to_path_buf();
    let (orders, to_guard) = mpsc::unbounded_channel();
    let (to_keeper, passing) = mpsc::channel(1);
    let (folder, patience) = ((data.clone(), config.cgroups), config.ttl / 3);
    let keeper = Keeper::new(program.clone(), folder, patience, to_guard, passing, news.clone());
    let (keeper, guard) = match kept {
        Some((kept, pipes)) => {
            let guard = Guard::resume(&kept, pipes).map_err(OpenError::Guard)?;
            (keeper.resume(kept), guard)
        }
        None => {
            let guard = Guard::start(program.as_deref(), &data, config.cgroups, config.ttl).await;
            (keeper, guard.map_err(OpenError::Guard)?)
        }
    };
    let lacking = match (config.cgroups, &guard.lacking) {
        (true, why) => why.clone().unwrap_or_default(),
        (false, _) => "cgroups are off, and such jobs run without these limits".to_owned(),
    };
    if !lacking.is_empty() {
        tracing::info!("what jobs say in limits.together cannot be kept on this node: {lacking}");
    }
    Ok((Some(orders), Some(to_keeper), Some(tokio::spawn(keeper.keep(guard))), lacking))
}

/// Starts a thread for each notifier.
fn start_notifiers(all: Vec<Notifier>, name: &NodeName, history: &History) -> Result<Notifiers, OpenError> {
    Notifiers::start(all, name.as_str(), &history.weak())
        .map_err(|e| OpenError::Setting(format!("no thread could be started for a notifier: {e}")))
}

/// Takes the data folder and finds the registry, and sees that they belong together. Tells the generation too.
async fn enter(config: &Config, thread: Runtime) -> Result<(Arc<Folder>, Arc<dyn Registry>, u16), OpenError> {
    // What is written down and said of the registry has no password in it.
    let url = evenkeel_registry::redacted(&config.registry);
    let folder = Arc::new(Folder::open(&config.data, &config.name, &url)?);
    let registry = Aside::open(&config.registry, thread).await?;
    let generation = cluster::check(&registry, &url, &folder, config.term(&registry.facts())).await?;
    Ok((folder, registry, generation))
}

/// Whether the nodes of the cluster share a host, and said nothing else of history.
fn shares_host(config: &Config) -> bool {
    config.history.is_none() && config.registry.starts_with("sqlite:")
}

async fn open_history(
    place: Place,
    config: &Config,
    told_by: mpsc::UnboundedSender<Told>,
    changed: Arc<Notify>,
) -> Result<(History, HistoryReader), OpenError> {
    let url = place.to_string();
    let opened = History::open(place, config.name.as_str(), config.keep, told_by, changed).await;
    opened.map_err(|error| OpenError::History { url, error })
}

fn settings(
    config: &Config,
    folder: &Folder,
    registry: &Arc<dyn Registry>,
    (generation, lacking): (u16, String),
) -> Settings {
    let facts = registry.facts();
    Settings {
        name: config.name.clone(),
        predecessor: folder.predecessor(),
        address: config.address.clone(),
        home: config.home.clone(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        knows: Layouts::OWN,
        ttl: config.term(&facts),
        tolerance: config.tolerance.max(1),
        alarm: config.alarm,
        slots: config.slots,
        labels: config.labels.clone(),
        lacking,
        spread: config.spread,
        quota: config.quota,
        lead: LEAD,
        max_clock_skew: MAX_CLOCK_SKEW,
        rescan: RESCAN,
        early: facts.early,
        notice: facts.notice,
        operations_max: facts.operations_max,
        class: facts.class,
        generation,
    }
}

/// Passes changes on, many as one.
fn tell_of_changes(changed: Arc<Notify>) -> watch::Receiver<u64> {
    let (tell, changes) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            changed.notified().await;
            tell.send_modify(|n: &mut u64| *n += 1);
            tokio::time::sleep(CHANGES).await;
        }
    });
    changes
}

/// Whatever goes on beside the driver as long as there is a node.
async fn keep_house(
    measured: impl Future<Output = ()>,
    watched: impl Future<Output = ()>,
    tidied: impl Future<Output = ()>,
) {
    tokio::join!(measured, watched, tidied);
}

/// Keeps output within its bounds.
async fn tidy(logs: Logs, keep: Keep) {
    loop {
        let logs = logs.clone();
        let swept = tokio::task::spawn_blocking(move || logs.sweep(clock::now().wall, &keep)).await;
        if let Ok(Err(e)) = swept {
            tracing::warn!("old output could not be removed: {e}");
        }
        tokio::time::sleep(TIDY).await;
    }
}
