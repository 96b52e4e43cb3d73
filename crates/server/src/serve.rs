//! The life of a node's process: bind, join, serve, hand over.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::upgrade::ReceivedHandoff;
use evenkeel::{CommandPolicy, CommandUsers, Config, Handle, LeaveOutcome, OutgoingHeartbeat, TraceSink};
use evenkeel_core::node::Node;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::api::{AccessPolicy, App, DenialLog, PlanLimiter, SearchLimiter, router};
use crate::exit::{CliError, ExitKind};
use crate::key::KeyFile;
use crate::listen::{ListenSecurity, Listeners, LocalSocket};
use crate::log_dedup::RepeatFilter;
use crate::logging;
use crate::oidc::OidcProvider;
use crate::otlp::logs::LogSender;
use crate::otlp::traces::TraceExporter;
use crate::peer::{HttpPeers, PeerHttpClient};
use crate::settings::ServerSettings;
use crate::tls::{NodeTls, PresentNode};
use crate::upgrade::{self, UpgradeHandle, UpgradeTrigger};
use crate::{heartbeat, listen, queries};

/// A hand-over waits this long for runs to end before it is cut short; a second signal ends the wait at once.
const HAND_OVER: Duration = Duration::from_secs(600);
/// How often the files of certificates and keys are looked at; `HUP` makes the node look at once.
const FRESH: Duration = Duration::from_secs(10);
/// The time for responses in progress to end after the node has left.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A node that answers at its address.
pub(crate) struct StartedNode {
    /// The node.
    pub(crate) handle: Handle,
    /// Its address.
    pub(crate) address: SocketAddr,
    /// What its callers are checked against.
    pub(crate) access: Arc<AccessPolicy>,
}

/// Runs a node until a signal ends it; calls `born` once the node answers at its address. `repeats` counts log lines.
///
/// # Errors
/// The node cannot start, or it stops by itself.
pub(crate) fn run_node<F: Future<Output = Result<(), CliError>>>(
    mut meant: ServerSettings,
    repeats: RepeatFilter,
    born: impl FnOnce(StartedNode) -> F,
) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| CliError::new(ExitKind::Failed, format!("no runtime: {e}")))?;
    warn_of_root(&meant.node.commands);
    runtime.spawn(repeats.clone().keep_counting());
    let collector = std::mem::take(&mut meant.collector);
    let (node, registry) = (&meant.node.name, &meant.node.registry);
    let logs = collector.logs.map(|to| LogSender::start(&to, node, registry)).transpose()?;
    if let Some(logs) = &logs {
        logging::send_over(logs.bridge());
    }
    let traces = collector.traces.map(|to| TraceExporter::start(&to, node, registry)).transpose()?;
    let traces = traces.map(Arc::new);
    meant.node.traces = traces.clone().map(|traces| traces as Arc<dyn TraceSink>);
    let ended = runtime.block_on(run_process(meant, born));
    runtime.shutdown_timeout(LAST_ANSWERS);
    if let Some(traces) = traces {
        traces.close();
    }
    repeats.close();
    if let Some(logs) = logs {
        logs.close();
    }
    ended
}

/// Says at the start that commands of root are refused, and not only when the first one is.
fn warn_of_root(commands: &CommandPolicy) {
    if commands.users == CommandUsers::OwnUnlessRoot && rustix::process::geteuid().is_root() {
        tracing::warn!(
            "this node runs as root, and no command does: name users with --command-users, or allow root with \
             --command-users own"
        );
    }
}

async fn run_process<F: Future<Output = Result<(), CliError>>>(
    mut meant: ServerSettings,
    born: impl FnOnce(StartedNode) -> F,
) -> Result<(), CliError> {
    let (mut signals, key) = (Signals::new()?, Arc::new(meant.take_key()?));
    let mut passed = upgrade::receive_handoff();
    // Before anything else: a node whose port is in use must never become a member (S0-21).
    let listeners = listen_at(meant.listen, meant.socket.as_deref(), passed.as_mut()).await?;
    let listener = listeners.port.clone();
    let address = listener.local_addr().map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?;
    meant.node.address = meant.advertise.unwrap_or_else(|| address.to_string());
    let names = host_names(address, &meant.node.address, meant.hosts);
    let home = meant.node.home.clone();
    let notifiers = meant.node.notify.iter().filter_map(|notifier| notifier.name().cloned()).collect();
    let (tls, identity) = meant.tls.open(&meant.node.name, address, &names).await?;
    (meant.node.identity, meant.node.secret_opener) = (Some(identity), Some(tls.secret_opener()));
    let access = AccessPolicy::new(names, address.port(), key.ring(), tls.sessions());
    let access = Arc::new(access.reached_by(meant.origins, meant.proxies.clone(), meant.login.proxy));
    let security = ListenSecurity { tls: tls.clone(), mode: meant.tls.mode, proxies: meant.proxies };
    let line = PeerHttpClient::new(tls.clone());
    meant.node.peers = Arc::new(HttpPeers::new(line.clone()));
    let Some(handle) = open_node(meant.node, passed, &mut signals).await? else { return Ok(()) };
    let own = handle.clone();
    tls.follow(move || own.with_node(present));
    let (upgrades, mut asked) = UpgradeHandle::new();
    let (end, ending) = watch::channel(false);
    let app = App {
        access: access.clone(),
        oidc: meant.login.oidc.map(|settings| Arc::new(OidcProvider::new(settings))),
        line,
        tls: tls.clone(),
        tls_mode: meant.tls.mode,
        live: Arc::default(),
        http_metrics: Arc::default(),
        denials: Arc::new(DenialLog::default()),
        searches: SearchLimiter::new(),
        plans: PlanLimiter::new(),
        handle: handle.clone(),
        joins: Arc::default(),
        declared: Arc::default(),
        forecasts: Arc::default(),
        notifiers: Arc::new(notifiers),
        upgrades: upgrades.clone(),
        ending: ending.clone(),
    };
    let started = StartedNode { handle: handle.clone(), address, access };
    tokio::spawn(keep_fresh(tls.clone(), key));
    tokio::spawn(warn_of_foreign_homes(handle.clone(), home));
    start_heartbeat(meant.heartbeat, &handle);
    let served = tokio::spawn(listen::serve(listeners, router(app), security, ending));
    let ended = tokio::select! {
        done = async {
            born(started).await?;
            keep_running(&handle, &listener, &mut signals, (&upgrades, &mut asked)).await;
            Ok(())
        } => done,
        stopped = handle.stopped() => {
            let why = stopped.err().unwrap_or_else(|| "see its log".to_owned());
            Err(CliError::new(ExitKind::Failed, format!("the node has stopped by itself: {why}")))
        }
    };
    if ended.is_ok() {
        hand_over(&handle, &mut signals).await;
    } else {
        handle.stop_now().await;
    }
    let _ = end.send(true);
    let _ = tokio::time::timeout(LAST_ANSWERS, served).await;
    ended
}

/// Says to a monitor that the node may act, if one is named.
fn start_heartbeat(settings: Option<OutgoingHeartbeat>, handle: &Handle) {
    if let Some(heartbeat) = settings {
        let own = handle.clone();
        tokio::spawn(heartbeat::keep_beating(heartbeat, move || queries::is_member(&own)));
    }
}

/// Listens at this port, as the earlier program did, and on this socket.
async fn listen_at(
    port: SocketAddr,
    socket: Option<&Path>,
    passed: Option<&mut ReceivedHandoff>,
) -> Result<Listeners, CliError> {
    let goes_on = passed.is_some();
    let listener = match upgrade::listener(passed, port) {
        Some(listener) => listener,
        None => bind(port).await?,
    };
    let socket = match socket.map(LocalSocket::bind).transpose() {
        // The runs that it has taken over are worth more than the socket.
        Err(e) if goes_on => {
            tracing::error!("{}: nothing answers on the socket until the node is restarted", e.message);
            None
        }
        bound => bound?,
    };
    Ok(Listeners { port: Arc::new(listener), socket })
}

/// Opens the node; `None` if a signal comes first.
async fn open_node(
    config: Config,
    passed: Option<ReceivedHandoff>,
    signals: &mut Signals,
) -> Result<Option<Handle>, CliError> {
    let opened = match passed {
        Some(passed) => evenkeel::resume(config, passed).await,
        // The join may wait for an unreachable registry, or until other nodes have noticed that the registry went back.
        None => tokio::select! {
            opened = evenkeel::open(config) => opened,
            () = signals.end.next() => {
                tracing::info!("ended before it was a member");
                return Ok(None);
            }
        },
    };
    opened.map(Some).map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))
}

/// Runs until a signal ends the process gracefully; an upgrade request continues in another program.
async fn keep_running(
    handle: &Handle,
    listener: &TcpListener,
    signals: &mut Signals,
    (upgrades, asked): (&UpgradeHandle, &mut mpsc::Receiver<Duration>),
) {
    loop {
        let item = tokio::select! {
            () = signals.end.next() => return,
            _ = signals.upgrade.recv() => UpgradeTrigger::Signal,
            Some(wait) = asked.recv() => UpgradeTrigger::Caller(wait),
        };
        let refused = tokio::select! {
            () = signals.end.next() => return,
            refused = upgrades.execute(handle, listener, item) => refused,
        };
        let Err(why) = refused;
        upgrade::refused(&why);
        // Requests that came meanwhile have their answer by that.
        while asked.try_recv().is_ok() {}
    }
}

async fn hand_over(handle: &Handle, signals: &mut Signals) {
    tracing::info!("handing over: nothing more is claimed, runs may end; a second signal ends them at once");
    let left = tokio::select! {
        left = handle.leave(HAND_OVER) => left,
        () = signals.end.next() => {
            handle.stop_now().await;
            LeaveOutcome::InHaste
        }
    };
    match left {
        LeaveOutcome::Cleanly => tracing::info!("everything is handed over"),
        LeaveOutcome::InHaste => {
            tracing::warn!("left in haste: what still ran was ended, others take over when the lease ends")
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|e| {
        let fix = match e.kind() {
            std::io::ErrorKind::AddrInUse => {
                "it is in use: stop the program that listens there, or choose another --port".to_owned()
            }
            std::io::ErrorKind::AddrNotAvailable => {
                "this host has no such address: correct --listen".to_owned()
            }
            _ => e.to_string(),
        };
        CliError::new(ExitKind::Failed, format!("cannot listen on {address}: {fix}"))
    })
}

/// Looks at the files of certificates and keys again and again.
async fn keep_fresh(tls: Arc<NodeTls>, key: Arc<KeyFile>) {
    // A node that was given no file ends at this signal, as when a terminal is closed.
    let has_files = tls.is_given_certificate() || key.is_given();
    let mut asked = has_files.then(|| signal(SignalKind::hangup()).ok()).flatten();
    loop {
        let hangup = async {
            match &mut asked {
                Some(asked) => drop(asked.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = hangup => {}
            () = tokio::time::sleep(FRESH) => {}
        }
        let (tls, key) = (tls.clone(), key.clone());
        let both = move || {
            tls.refresh();
            key.refresh();
        };
        let _ = tokio::task::spawn_blocking(both).await;
    }
}

/// What a node knows of itself for its certificates.
fn present(node: &Node) -> PresentNode {
    let cluster = node.view().cluster().value.as_ref().map(|cluster| cluster.id.clone());
    PresentNode { cluster, member: node.member() }
}

/// The host names that callers may use for this node.
fn host_names(address: SocketAddr, advertised: &str, more: Vec<String>) -> Vec<String> {
    [host(&address.ip().to_string()), host(advertised)].into_iter().chain(more).collect()
}

fn host(address: &str) -> String {
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(ip)) => format!("[{ip}]"),
        Ok(std::net::IpAddr::V4(ip)) => ip.to_string(),
        Err(_) => address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned(),
    }
}

/// Warns if nodes run from different folders, for their commands would not mean the same (S0-04).
async fn warn_of_foreign_homes(handle: Handle, home: String) {
    let mut warned = BTreeSet::new();
    let mut changes = handle.changes();
    loop {
        for (node, folder) in queries::foreign_homes(&handle, &home) {
            if warned.insert((node.clone(), folder.clone())) {
                tracing::warn!(
                    "node {node} is installed in {folder}, this one in {home}: install both in the same folder, or \
                     relative paths of commands differ"
                );
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// The signals that the process handles.
struct Signals {
    end: TerminationSignals,
    /// Continue in the program that is in its file now.
    upgrade: Signal,
}

/// The signals that end a process gracefully.
pub(crate) struct TerminationSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self, CliError> {
        let (end, upgrade) = (TerminationSignals::new()?, receive(SignalKind::user_defined2())?);
        evenkeel::upgrade::unblock_signal()
            .map_err(|e| CliError::new(ExitKind::Failed, format!("no signals: {e}")))?;
        Ok(Self { end, upgrade })
    }
}

/// Receives a signal, which then has no other effect.
fn receive(kind: SignalKind) -> Result<Signal, CliError> {
    signal(kind).map_err(|e| CliError::new(ExitKind::Failed, format!("no signals: {e}")))
}

impl TerminationSignals {
    /// Receives them from now on.
    ///
    /// # Errors
    /// The host allows no handler.
    pub(crate) fn new() -> Result<Self, CliError> {
        Ok(Self {
            terminate: receive(SignalKind::terminate())?,
            interrupt: receive(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
