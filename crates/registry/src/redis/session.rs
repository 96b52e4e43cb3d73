//! The connection of all requests, and the known state of the server's history.
//!
//! Each new connection first checks whether that history is still the known one (`adopt.lua`): a server
//! that restarted without its data, or a replica that was promoted, does not continue it unnoticed.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use evenkeel_core::keys::HOT_ROOTS;
use evenkeel_core::registry::{DurabilityClass, Revision};
use evenkeel_core::time::{Millis, Mono};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Script, Value};
use tokio::sync::watch;

use super::connector::{RedisConnector, RedisServerInfo};
use super::wire::{list, number, text};
use crate::RegistryError;
use crate::clock::{Clock, HostClock};

/// How long an answer may take. A lease of the usual 15 s then survives one server that went silent.
pub(super) const ANSWER: Millis = Millis::secs(4);

/// How long to wait after a failed connection before another try.
const PAUSE: Millis = Millis(100);

/// The layout of the keys, kept in `meta`.
const LAYOUT: &str = "1";

/// A session: the connection, and what was learned by it.
pub(super) struct RedisSession {
    connector: RedisConnector,
    keys: RedisKeys,
    scripts: RedisScripts,
    slot: tokio::sync::Mutex<RedisSlot>,
    state: Mutex<RedisState>,
    bell: Mutex<Option<watch::Sender<Revision>>>,
    failure: OnceLock<RegistryError>,
}

/// The keys of one namespace. All have one hash tag, so that they are in one slot of a cluster.
pub(super) struct RedisKeys(pub(super) String);

struct RedisScripts {
    act: Script,
    look: Script,
    adopt: Script,
}

/// The kind of script.
#[derive(Clone, Copy)]
pub(super) enum ScriptKind {
    /// `act.lua`
    Act,
    /// `look.lua`
    Look,
}

#[derive(Default)]
struct RedisSlot {
    /// Numbered, so that a caller whose connection broke drops that one and not its successor.
    open: Option<(u64, MultiplexedConnection)>,
    opened: u64,
    failed: Option<(Mono, RegistryError)>,
}

/// The known state of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct RedisState {
    /// The name of the history; empty before it is known.
    history_id: String,
    pub(super) generation: u16,
    pub(super) class: Option<DurabilityClass>,
    /// The position of the order.
    pub(super) revision: Revision,
    /// The revision of the last change of a cold entry.
    pub(super) cold: Revision,
}

impl RedisKeys {
    pub(super) fn full_names(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("{{{}}}:{name}", self.0)).collect()
    }

    /// The stream of changes.
    pub(super) fn change_stream(&self) -> String {
        format!("{{{}}}:news", self.0)
    }
}

impl RedisSession {
    pub(super) fn new(door: RedisConnector, namespace: &str) -> Self {
        let scripts = RedisScripts {
            act: Script::new(include_str!("act.lua")),
            look: Script::new(include_str!("look.lua")),
            adopt: Script::new(include_str!("adopt.lua")),
        };
        Self {
            connector: door,
            keys: RedisKeys(namespace.into()),
            scripts,
            slot: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            bell: Mutex::new(Some(watch::Sender::new(Revision(0)))),
            failure: OnceLock::new(),
        }
    }

    pub(super) fn connector(&self) -> &RedisConnector {
        &self.connector
    }

    pub(super) fn keys(&self) -> &RedisKeys {
        &self.keys
    }

    /// The known state of the server.
    pub(super) fn state(&self) -> MutexGuard<'_, RedisState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives each revision that can be read.
    pub(super) fn subscribe(&self) -> Result<watch::Receiver<Revision>, RegistryError> {
        let bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*bell, self.failure.get()) {
            (_, Some(why)) => Err(why.clone()),
            (Some(bell), None) => Ok(bell.subscribe()),
            (None, None) => Err(RegistryError::Fatal("the registry was left".into())),
        }
    }

    /// Ends all feeds.
    pub(super) fn close_feeds(&self) {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Notes that a cold entry changed on the server.
    pub(super) fn cold_changed(&self, cold: Revision) {
        let mut known = self.state();
        known.cold = known.cold.max(cold);
        drop(known);
        self.notify_feeds(cold);
    }

    fn record_revision(&self, revision: Revision, cold: Revision) {
        let mut known = self.state();
        known.revision = known.revision.max(revision);
        known.cold = known.cold.max(cold);
        drop(known);
        self.notify_feeds(revision);
    }

    fn notify_feeds(&self, revision: Revision) {
        if let Some(bell) = &*self.bell.lock().unwrap_or_else(PoisonError::into_inner) {
            bell.send_if_modified(|rung| revision > std::mem::replace(rung, revision.max(*rung)));
        }
    }

    /// Stops for good: callers get the reason, and feeds end.
    fn stop(&self, why: String) -> RegistryError {
        let why = self.failure.get_or_init(|| RegistryError::Fatal(why)).clone();
        self.close_feeds();
        why
    }

    /// Connects and identifies the server, unless that is done already.
    pub(super) async fn ensure_connected(&self) -> Result<(), RegistryError> {
        self.connection().await.map(drop)
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), RegistryError> {
        if let Some(why) = self.failure.get() {
            return Err(why.clone());
        }
        let mut slot = self.slot.lock().await;
        if let Some(open) = &slot.open {
            return Ok(open.clone());
        }
        if let Some((when, why)) = &slot.failed
            && HostClock.now().mono - *when < PAUSE
        {
            return Err(why.clone());
        }
        match self.open().await {
            Ok(connection) => {
                slot.opened += 1;
                slot.failed = None;
                slot.open = Some((slot.opened, connection.clone()));
                Ok((slot.opened, connection))
            }
            Err(why) => {
                slot.failed = Some((HostClock.now().mono, why.clone()));
                Err(why)
            }
        }
    }

    async fn open(&self) -> Result<MultiplexedConnection, RegistryError> {
        let (mut connection, server) = self.connector.connect(to_duration(ANSWER)).await?;
        self.adopt(&mut connection, &server).await?;
        Ok(connection)
    }

    /// Checks whether the history here is the known one.
    async fn adopt(
        &self,
        connection: &mut MultiplexedConnection,
        server: &RedisServerInfo,
    ) -> Result<(), RegistryError> {
        let answer = self.call_adopt(connection, server).await?;
        let told = list(answer).map(Iterator::collect::<Vec<_>>).unwrap_or_default();
        let [status, line, rest @ ..] = told.as_slice() else { return Err(unexpected_reply()) };
        match (text(status.clone()).as_deref(), rest) {
            (Some("layout"), _) => Err(RegistryError::Refused(format!(
                "the registry has layout {}, this program knows up to {LAYOUT}: use a newer evenkeel",
                text(line.clone()).unwrap_or_default()
            ))),
            (Some("lost"), _) => Err(self.stop(
                "the registry's Redis may have lost what it had answered (it started again without its data, a replica \
                 was promoted, or it was emptied): start this node again"
                    .into(),
            )),
            (Some("ok"), [generation, revision, cold]) => {
                let (line, generation) = (text(line.clone()), number(generation));
                let (Some(line), Some(generation)) = (line, generation) else { return Err(unexpected_reply()) };
                let (Some(revision), Some(cold)) = (number(revision), number(cold)) else {
                    return Err(unexpected_reply());
                };
                self.accept_history(line, generation, server.class())?;
                self.record_revision(Revision(revision), Revision(cold));
                Ok(())
            }
            _ => Err(unexpected_reply()),
        }
    }

    async fn call_adopt(
        &self,
        connection: &mut MultiplexedConnection,
        server: &RedisServerInfo,
    ) -> Result<Value, RegistryError> {
        let known = self.state().clone();
        let mut cmd = script_call(&self.scripts.adopt, &self.keys.full_names(&["meta", "ends", "terms"]));
        cmd.arg(LAYOUT)
            .arg(&known.history_id)
            .arg(known.revision.0)
            .arg(known.generation)
            .arg(random_name()?);
        cmd.arg(&server.run_id).arg(&server.replication_id2).arg(if server.is_durable { "1" } else { "0" });
        let answer = run_script(&cmd, &self.scripts.adopt, connection).await;
        answer.map_err(|error| self.connector.explain(&error))
    }

    /// Records it when the server does not keep everything any more. If it then loses something while no process
    /// is left that knew better, the next connection learns it from the record.
    pub(super) async fn recheck_server(&self) -> Result<(), RegistryError> {
        let (nth, mut connection) = self.connection().await?;
        let server = match self.connector.inspect(&mut connection).await {
            Ok(server) => server,
            Err(error) => {
                // Also for a server that was demoted, and whose scripts fail with that as with any other error.
                self.drop_connection(nth).await;
                return Err(error);
            }
        };
        if !server.is_durable {
            // Callers on this connection know the history already; the record is for others.
            self.call_adopt(&mut connection, &server).await?;
        }
        Ok(())
    }

    fn accept_history(
        &self,
        line: String,
        generation: u16,
        class: DurabilityClass,
    ) -> Result<(), RegistryError> {
        let mut known = self.state();
        if known.class.is_some_and(|promised| class < promised) {
            drop(known);
            return Err(self.stop(
                "the registry's Redis promises less than when this node started (see appendonly, appendfsync and its \
                 replicas): set them right, or start this node again"
                    .into(),
            ));
        }
        known.class.get_or_insert(class);
        (known.history_id, known.generation) = (line, generation);
        Ok(())
    }

    /// Runs a script and returns its reply besides the position of the order.
    pub(super) async fn call_script(
        &self,
        kind: ScriptKind,
        add: impl FnOnce(&mut Cmd),
    ) -> Result<(Revision, std::vec::IntoIter<Value>), RegistryError> {
        let (nth, mut connection) = self.connection().await?;
        let (script, keys) = match kind {
            ScriptKind::Act => (
                &self.scripts.act,
                self.keys.full_names(&[
                    "meta",
                    "cold",
                    "cold:values",
                    "hot",
                    "hot:values",
                    "ends",
                    "terms",
                    "news",
                    "owned:",
                ]),
            ),
            ScriptKind::Look => (
                &self.scripts.look,
                self.keys.full_names(&["meta", "cold", "cold:values", "hot", "hot:values", "news"]),
            ),
        };
        let mut cmd = script_call(script, &keys);
        {
            let known = self.state();
            cmd.arg(&known.history_id).arg(known.revision.0).arg(HOT_ROOTS.join(" "));
        }
        add(&mut cmd);
        let answer = match run_script(&cmd, script, &mut connection).await {
            Ok(answer) => answer,
            Err(error) => {
                if is_connection_lost(&error) {
                    self.drop_connection(nth).await;
                }
                return Err(self.connector.explain(&error));
            }
        };
        let mut told = list(answer).ok_or_else(unexpected_reply)?;
        match told.next().and_then(text).as_deref() {
            Some("ok") => {}
            Some("moved") => {
                // The next connection learns what happened, and stops this registry.
                self.drop_connection(nth).await;
                self.connection().await?;
                return Err(RegistryError::Unavailable(
                    "the registry's history was replaced: ask again".into(),
                ));
            }
            _ => return Err(unexpected_reply()),
        }
        let mut next = || number(&told.next()?).map(Revision);
        let (Some(revision), Some(cold)) = (next(), next()) else { return Err(unexpected_reply()) };
        self.record_revision(revision, cold);
        Ok((revision, told))
    }

    async fn drop_connection(&self, nth: u64) {
        let mut slot = self.slot.lock().await;
        if slot.open.as_ref().is_some_and(|(open, _)| *open == nth) {
            slot.open = None;
        }
    }
}

/// A call by the script's hash.
fn script_call(script: &Script, keys: &[String]) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(script.get_hash()).arg(keys.len()).arg(keys);
    cmd
}

/// Sends a call, preceded by the script if the server lacks it: then no part of it was done yet.
async fn run_script(
    cmd: &Cmd,
    script: &Script,
    connection: &mut MultiplexedConnection,
) -> Result<Value, RedisError> {
    match cmd.query_async(connection).await {
        Err(error) if error.code() == Some("NOSCRIPT") => {
            script.load_async(connection).await?;
            cmd.query_async(connection).await
        }
        answer => answer,
    }
}

/// Whether an error means that this connection, or this server, cannot be used any more.
fn is_connection_lost(error: &RedisError) -> bool {
    let elsewhere = ["READONLY", "UNBLOCKED", "LOADING", "MASTERDOWN", "MOVED", "CLUSTERDOWN", "NOAUTH"];
    error.code().is_none_or(|code| elsewhere.contains(&code))
}

/// The error for a reply that the scripts never give.
pub(super) fn unexpected_reply() -> RegistryError {
    RegistryError::Unavailable(
        "the registry's Redis gave an answer that no script of ours gives: see its log".into(),
    )
}

/// A duration of the client's type.
pub(super) fn to_duration(span: Millis) -> Duration {
    Duration::from_millis(span.0.unsigned_abs())
}

/// A unique name.
fn random_name() -> Result<String, RegistryError> {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    let read =
        read.map_err(|error| RegistryError::Unavailable(format!("this host gives no random name: {error}")));
    Ok(read?.trim().into())
}

/// Shared by all callers.
pub(super) type SharedSession = Arc<RedisSession>;
