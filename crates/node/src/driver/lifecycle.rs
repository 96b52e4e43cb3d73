//! The lifecycle of a node: opens everything, drives the node, and closes everything, on a thread of its own.
//!
//! The thread also has a runtime of its own, so that functions which block the embedder's threads never delay the
//! renewal of a lease.

mod opened_history;
mod tasks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use evenkeel_core::effect::Event;
use evenkeel_core::handoff::NodeHandoff;
use evenkeel_core::ids::NodeName;
use evenkeel_core::node::{Node, Settings};
use evenkeel_core::record::Layouts;
use evenkeel_core::time::{Millis, Mono};
use evenkeel_registry::Registry;
use tokio::runtime::{Builder, Handle as Runtime};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::cluster;
use super::commits::CommitQueue;
use super::data_folder::DataFolder;
use super::feed::FeedListener;
use super::guarded_member::GuardedMember;
use super::heartbeats::Heartbeats;
use super::inbox::{DriverEvent, Inbox, REQUESTS_MAX};
use super::joining;
use super::lease::Leases;
use super::overdue_watch::OverdueWatch;
use super::peers::DriverPeers;
use super::pending_audit::PendingAudit;
use super::registry_thread::RegistryThread;
use super::runs::RunTracker;
use super::timer::Timer;
use super::upgrade_state::{HandoffSender, UpgradeState};
use super::{Driver, DriverExit, Readiness};
use crate::config::Config;
use crate::error::OpenError;
use crate::executor::ExecutorEvent;
use crate::executors::Executors;
use crate::executors::{
    CommandExecutor, FunctionExecutor, HttpExecutor, ItemCounts, ShadowExecutor, StreamEndCheck,
};
use crate::guard::{self, GuardClient, GuardConnection, GuardHandoff, GuardPipes};
use crate::handle::{Handle, HandleState};
use crate::history::History;
use crate::logs::{LogLimits, Logs};
use crate::metrics::NodeMetrics;
use crate::notify::{Notifier, Notifiers};
use crate::published_loads::PublishedLoads;
use crate::request::HandleRequest;
use crate::secrets::NodeSecrets;
use crate::trace::ids::RunEnvironment;
use crate::upgrade::{HandoffRecord, ReceivedHandoff};
use opened_history::{open_history, run_environment};
use tasks::{run_background, tidy, watch_changes};

/// The shortest term of a lease.
const TTL_MIN: Duration = Duration::from_secs(2);
/// How long before its due moment a fire may be claimed; also how far ahead fires are uncertain after a crash.
const LEAD_MAX: Millis = Millis::secs(1);
/// The same at least: on a quick registry a timer that comes late must not delay a fire.
const LEAD_MIN: Millis = Millis(50);
/// How much the clock may differ from the registry's.
const MAX_CLOCK_SKEW: Millis = Millis::secs(1);
/// How often everything is read again even if no change was missed.
const RESCAN: Millis = Millis::secs(60);
/// How often the output folder is tidied.
const TIDY: Duration = Duration::from_secs(60);
/// The shortest time between two notifications of watchers.
const CHANGES: Duration = Duration::from_millis(100);
/// How long runs may take to end when the node stops: as long as the guard gives them, and a little.
const LAST_RUNS: Duration = Duration::from_secs(3);
/// How long notifiers may take to send what waits.
const NOTIFIERS_PATIENCE: Duration = Duration::from_secs(3);
/// How long history may take for its last entries.
const LAST_ENTRIES: Duration = Duration::from_secs(5);
/// How often the host is measured; the first time sooner, for until then its load is unknown.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
const MEASURE_FIRST: Duration = Duration::from_millis(500);

/// Opens a node and starts its thread. Returns once it is a member, or failed to become one within a lease's term; if
/// another node has its name, after half a term more or what the settings say.
pub(crate) async fn begin(config: Config, passed: Option<ReceivedHandoff>) -> Result<Handle, OpenError> {
    if config.ttl < TTL_MIN {
        return Err(OpenError::Setting(format!(
            "the lease's term is {:?}: give at least {TTL_MIN:?}",
            config.ttl
        )));
    }
    if config.slots == 0 {
        return Err(OpenError::Setting("slots is 0: give at least 1".to_string()));
    }
    let wait = config.wait_for_name;
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
        let places = Runtimes { functions: functions_run_on, registry: registry.handle().clone() };
        runtime.block_on(live(config, passed, places, opened));
        // A call that still blocks, on a file's lock at most, must not keep the thread.
        runtime.shutdown_timeout(Duration::from_secs(1));
        registry.shutdown_timeout(Duration::from_secs(1));
    });
    thread.map_err(|e| OpenError::Setting(format!("no thread could be started: {e}")))?;
    let ended = || OpenError::Setting("the node's thread ended unexpectedly: see the log".to_string());
    let (handle, mut joined, ttl) = ready.await.map_err(|_| ended())??;
    let Some(taken) = joining::refusal(&mut joined, ttl, wait).await else { return Ok(handle) };
    handle.stop_now().await;
    Err(taken)
}

/// The node's own runtime, and the one that talks to its registry.
fn runtimes() -> std::io::Result<(tokio::runtime::Runtime, tokio::runtime::Runtime)> {
    let mut aside = Builder::new_multi_thread();
    let aside = aside.worker_threads(1).thread_name("evenkeel-registry").enable_all().build()?;
    Ok((Builder::new_current_thread().enable_all().build()?, aside))
}

/// The runtimes for work that must not delay a step.
struct Runtimes {
    functions: Runtime,
    registry: Runtime,
}

type OpenResult = Result<(Handle, watch::Receiver<Option<Event>>, Duration), OpenError>;

async fn live(
    config: Config,
    passed: Option<ReceivedHandoff>,
    places: Runtimes,
    opened: oneshot::Sender<OpenResult>,
) {
    let ttl = config.ttl;
    let mut life = match DriverLifecycle::open(config, passed, places).await {
        Ok((life, handle, joined)) => {
            // The caller may have given up; then the handle is dropped and the node stops.
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

/// A driver, and what must be closed after it.
struct DriverLifecycle {
    driver: Driver,
    guard: Option<JoinHandle<()>>,
    stopped: watch::Sender<Option<String>>,
}

impl DriverLifecycle {
    async fn open(
        config: Config,
        passed: Option<ReceivedHandoff>,
        places: Runtimes,
    ) -> Result<(Self, Handle, watch::Receiver<Option<Event>>), OpenError> {
        let (folder, registry, generation) = open_registry(&config, places.registry).await?;
        let (name, url) = (config.name.clone(), evenkeel_registry::redacted(&config.registry));
        let (baton, runs, kept) = unpack_handoff(passed, &name, &url);
        let (changed, (to_driver, history_events)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
        let metrics = Arc::new(NodeMetrics::new(registry.facts().engine));
        let environment = run_environment(&name, &folder);
        let past = open_history((&config, &folder), to_driver, (&changed, &metrics), &environment).await?;
        let (logs, (news_from, news)) = (Logs::new(folder.path().join("logs")), mpsc::unbounded_channel());
        // The old life's runs end before its member is removed: the next node starts none beside them (law 8).
        let (orders, keeper, guard, lacking) = start_guard(&config, kept, &folder, &news_from).await?;
        let node = build_node(settings(&config, &folder, &registry, (generation, lacking)), baton);
        let ((to_node, asked), (stopped_by, stopped)) = (mpsc::channel(REQUESTS_MAX), watch::channel(None));
        let ((inbox, sender), (joined_by, joined)) =
            (Inbox::new(news, history_events, asked, metrics.clone()), watch::channel(None));
        let functions = functions((&config, &environment), places.functions, &node, &news_from, &to_node);
        let executor = executor((&config, &node), (functions, environment), orders, &logs, &news_from);
        let heartbeats = Heartbeats::new(&config, &registry.facts());
        let notifiers = start_notifiers(config.notify, &name, &past.writer)?;
        let (watch, late) = OverdueWatch::new(name.clone(), node.clone(), &to_node, &past.writer, &notifiers);
        let driver = Driver {
            node: node.clone(),
            registry: registry.clone(),
            inbox,
            sender,
            leases: Leases::new(folder, config.ttl),
            member: GuardedMember::new(config.registry),
            feed: FeedListener::default(),
            commits: CommitQueue::new(config.ttl, metrics.clone()),
            executor,
            peers: DriverPeers(config.peers),
            runs: RunTracker::new(name.clone()).resume(runs),
            history: past.writer,
            changed: changed.clone(),
            pending_answers: BTreeMap::new(),
            pending_audit: PendingAudit::new(name.clone(), life_id()?),
            wake: None,
            trust: None,
            heartbeats,
            readiness: Readiness { history: true, executor: true },
            joined: joined_by,
            effects: Vec::new(),
            timer: timer()?,
            taken: 0,
            load_at: Mono(i64::MIN),
            alarm: None,
            notifiers,
            upgrading: UpgradeState::new(url, keeper),
            late,
        };
        run_background(&driver.sender.registry, watch.run(), tidy(logs.clone(), config.retention));
        let shared = HandleState {
            name,
            facts: registry.facts(),
            node,
            requests: to_node,
            history: past.reader,
            metrics,
            shares_history: past.is_shared,
            logs,
            secrets: driver.executor.secrets(),
            loads: PublishedLoads::default(),
            changes: watch_changes(changed),
            stopped,
        };
        Ok((Self { driver, guard, stopped: stopped_by }, Handle { shared: Arc::new(shared) }, joined))
    }

    /// Ends what still runs, writes what is to be remembered, and unlocks the folder.
    async fn close(mut self, end: DriverExit) {
        if tokio::time::timeout(LAST_RUNS, self.driver.end_runs()).await.is_err() {
            tracing::warn!("some runs did not end within {LAST_RUNS:?}");
        }
        self.driver.sum_up();
        self.driver.answer_all();
        let Driver { mut leases, executor, history, notifiers, .. } = self.driver;
        leases.finish().await;
        // The guard ends the remaining runs when its pipe closes, and then itself.
        drop(executor);
        if let Some(guard) = self.guard {
            let _ = guard.await;
        }
        notifiers.close(NOTIFIERS_PATIENCE).await;
        history.close(LAST_ENTRIES).await;
        drop(leases);
        let why = match end {
            DriverExit::Requested => String::new(),
            DriverExit::Fatal(why) => why,
        };
        self.stopped.send_replace(Some(why));
    }
}

fn timer() -> Result<Timer, OpenError> {
    Timer::new().map_err(|e| OpenError::Setting(format!("no timer can be had: {e}")))
}

/// The id that distinguishes this life's entries of the audit log from all others.
fn life_id() -> Result<String, OpenError> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    let id = id.map_err(|e| OpenError::Setting(format!("the system gives no random id: {e}")))?;
    Ok(id.trim().to_owned())
}

/// Splits the handoff of an earlier program of this process. A handoff of another node is dropped: its guard ends its
/// runs when its pipes close here.
fn unpack_handoff(passed: Option<ReceivedHandoff>, name: &NodeName, url: &str) -> HandoffParts {
    let Some(ReceivedHandoff { state, pipes, .. }) = passed.filter(|passed| passed.is_of(name, url)) else {
        return (None, Vec::new(), None);
    };
    (Some(state.node), state.runs, state.guard.zip(pipes))
}

type HandoffParts = (Option<NodeHandoff>, Vec<HandoffRecord>, Option<(GuardHandoff, GuardPipes)>);

/// Builds the node's state: empty, or continued from a handoff.
fn build_node(settings: Settings, baton: Option<NodeHandoff>) -> Arc<RwLock<Node>> {
    Arc::new(RwLock::new(match baton {
        Some(baton) => Node::resume(settings, baton),
        None => Node::new(settings),
    }))
}

/// The executor of functions, which also reports their item counts to the node.
fn functions(
    (config, environment): (&Config, &RunEnvironment),
    run_on: Runtime,
    node: &Arc<RwLock<Node>>,
    news: &mpsc::UnboundedSender<ExecutorEvent>,
    to_node: &mpsc::Sender<HandleRequest>,
) -> FunctionExecutor {
    let counts = Arc::new(ItemCounts::default());
    tokio::spawn(counts.clone().report(to_node.downgrade()));
    let (functions, environment) = (config.functions.clone(), environment.clone());
    FunctionExecutor::new(functions, environment, run_on, (counts, ends_stream(node)), news.clone())
}

/// All executors of the node.
fn executor(
    (config, node): (&Config, &Arc<RwLock<Node>>),
    (functions, environment): (FunctionExecutor, RunEnvironment),
    orders: Option<GuardSender>,
    logs: &Logs,
    news: &mpsc::UnboundedSender<ExecutorEvent>,
) -> Executors {
    let bounds = LogLimits { keep: config.retention.output, rate: config.retention.output_rate };
    let secrets = NodeSecrets::new(config.secrets.clone(), config.secret_opener.clone(), node);
    Executors {
        http: HttpExecutor::new(config, environment.clone(), secrets.clone(), logs.clone(), news.clone()),
        functions,
        commands: CommandExecutor::new(
            orders,
            environment,
            (logs.clone(), bounds),
            (config.commands.clone(), secrets),
            news.clone(),
        ),
        shadows: ShadowExecutor::new(news.clone()),
    }
}

/// The check that ends a run of streaming data. A node that is gone has ended it already.
fn ends_stream(node: &Arc<RwLock<Node>>) -> StreamEndCheck {
    let node = Arc::downgrade(node);
    Arc::new(move |run| {
        let node = node.upgrade()?;
        let node = node.read().unwrap_or_else(PoisonError::into_inner);
        node.ends_stream(&run.id.job, run.id.shard)
    })
}

type GuardSender = mpsc::UnboundedSender<guard::GuardRequest>;

/// The channels to a guard, its task, and which limits of whole runs it cannot enforce, and why.
type GuardStart = (Option<GuardSender>, Option<HandoffSender>, Option<JoinHandle<()>>, String);

/// Starts the guard, if this program can be one.
async fn start_guard(
    config: &Config,
    kept: Option<(GuardHandoff, GuardPipes)>,
    folder: &DataFolder,
    news: &mpsc::UnboundedSender<ExecutorEvent>,
) -> Result<GuardStart, OpenError> {
    let program = config.executable.clone();
    if program.is_none() && !guard::is_possible() {
        return Ok((None, None, None, String::new()));
    }
    let data: PathBuf = folder.path().to_path_buf();
    let (orders, to_guard) = mpsc::unbounded_channel();
    let (to_keeper, passing) = mpsc::channel(1);
    let (folder, patience) = ((data.clone(), config.cgroups), config.ttl / 3);
    let keeper = GuardClient::new(program.clone(), folder, patience, to_guard, passing, news.clone());
    let (keeper, guard) = match kept {
        Some((kept, pipes)) => {
            let guard = GuardConnection::resume(&kept, pipes).map_err(OpenError::Guard)?;
            (keeper.resume(kept), guard)
        }
        None => {
            let guard = GuardConnection::start(program.as_deref(), &data, config.cgroups, config.ttl).await;
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
    Ok((Some(orders), Some(to_keeper), Some(tokio::spawn(keeper.run(guard))), lacking))
}

/// Starts a thread for each notifier.
fn start_notifiers(all: Vec<Notifier>, name: &NodeName, history: &History) -> Result<Notifiers, OpenError> {
    Notifiers::start(all, name.as_str(), &history.weak())
        .map_err(|e| OpenError::Setting(format!("no thread could be started for a notifier: {e}")))
}

/// Locks the data folder, opens the registry, and checks that they belong together. Returns the generation too.
async fn open_registry(
    config: &Config,
    thread: Runtime,
) -> Result<(Arc<DataFolder>, Arc<dyn Registry>, u16), OpenError> {
    // The URL in records and messages has no password in it.
    let url = evenkeel_registry::redacted(&config.registry);
    let folder = Arc::new(DataFolder::open(&config.data, &config.name, &url)?);
    let seals = config.identity.as_ref().map(|identity| identity.seals.clone());
    let registry = RegistryThread::open(&config.registry, seals, thread).await?;
    let generation =
        cluster::check(&registry, &url, &folder, (config.identity.as_ref(), config.term(&registry.facts())))
            .await?;
    Ok((folder, registry, generation))
}

fn settings(
    config: &Config,
    folder: &DataFolder,
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
        lead_max: LEAD_MAX,
        lead_min: LEAD_MIN,
        max_clock_skew: MAX_CLOCK_SKEW,
        rescan: RESCAN,
        early: facts.early,
        notice: facts.notice,
        operations_max: facts.operations_max,
        class: facts.class,
        generation,
    }
}
