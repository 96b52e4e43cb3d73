//! The connection that all is asked on, and what is known of the history behind it.
//!
//! Each new connection first hears from the server whether that history is still the one we know (`adopt.lua`): a server
//! that started again without its data, or a replica that was promoted, does not go on with ours unnoticed.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use evenkeel_core::keys::HOT_ROOT;
use evenkeel_core::registry::{Class, Revision};
use evenkeel_core::time::{Millis, Mono};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Script, Value};
use tokio::sync::watch;

use super::door::{Door, Server};
use super::wire::{list, number, text};
use crate::RegistryError;
use crate::clock::{Clock, HostClock};

/// How long an answer may take. A lease of the usual 15 s then survives one server that went silent.
pub(super) const ANSWER: Millis = Millis::secs(4);

/// For how long nobody tries again after a connection failed.
const PAUSE: Millis = Millis(100);

/// The layout of the keys, kept in `meta`.
const LAYOUT: &str = "1";

/// What is asked on one connection, and learned by it.
pub(super) struct Link {
    door: Door,
    keys: Keys,
    scripts: Scripts,
    slot: tokio::sync::Mutex<Slot>,
    known: Mutex<Known>,
    bell: Mutex<Option<watch::Sender<Revision>>>,
    ended: OnceLock<RegistryError>,
}

/// The keys of one namespace. One hash tag for all, so that they are one slot of a cluster.
pub(super) struct Keys(pub(super) String);

struct Scripts {
    act: Script,
    look: Script,
    adopt: Script,
}

/// Which script.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    /// `act.lua`
    Act,
    /// `look.lua`
    Look,
}

#[derive(Default)]
struct Slot {
    /// Counted, so that the one who saw a connection break drops that one and not its successor.
    open: Option<(u64, MultiplexedConnection)>,
    opened: u64,
    failed: Option<(Mono, RegistryError)>,
}

/// What the server has told.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The name of the history; empty before it was told.
    line: String,
    pub(super) generation: u16,
    pub(super) class: Option<Class>,
    /// Where the order stands.
    pub(super) revision: Revision,
    /// When a cold entry last changed.
    pub(super) cold: Revision,
}

impl Keys {
    fn of(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("{{{}}}:{name}", self.0)).collect()
    }

    /// The stream of what changed.
    pub(super) fn news(&self) -> String {
        format!("{{{}}}:news", self.0)
    }
}

impl Link {
    pub(super) fn new(door: Door, namespace: &str) -> Self {
        let scripts = Scripts {
            act: Script::new(include_str!("act.lua")),
            look: Script::new(include_str!("look.lua")),
            adopt: Script::new(include_str!("adopt.lua")),
        };
        Self {
            door,
            keys: Keys(namespace.into()),
            scripts,
            slot: tokio::sync::Mutex::default(),
            known: Mutex::default(),
            bell: Mutex::new(Some(watch::Sender::new(Revision(0)))),
            ended: OnceLock::new(),
        }
    }

    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// What the server has told so far.
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings with each revision that there is to be read.
    pub(super) fn bell(&self) -> Result<watch::Receiver<Revision>, RegistryError> {
        let bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*bell, self.ended.get()) {
            (_, Some(why)) => Err(why.clone()),
            (Some(bell), None) => Ok(bell.subscribe()),
            (None, None) => Err(RegistryError::Fatal("the registry was left".into())),
        }
    }

    /// Ends all feeds.
    pub(super) fn silence(&self) {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// A server said that a cold entry changed.
    pub(super) fn hear(&self, cold: Revision) {
        let mut known = self.known();
        known.cold = known.cold.max(cold);
        drop(known);
        self.ring(cold);
    }

    fn learn(&self, revision: Revision, cold: Revision) {
        let mut known = self.known();
        known.revision = known.revision.max(revision);
        known.cold = known.cold.max(cold);
        drop(known);
        self.ring(revision);
    }

    fn ring(&self, revision: Revision) {
        if let Some(bell) = &*self.bell.lock().unwrap_or_else(PoisonError::into_inner) {
            bell.send_if_modified(|rung| revision > std::mem::replace(rung, revision.max(*rung)));
        }
    }

    /// Nothing of this goes on: whoever asks hears why, and feeds end.
    fn end(&self, why: String) -> RegistryError {
        let why = self.ended.get_or_init(|| RegistryError::Fatal(why)).clone();
        self.silence();
        why
    }

    /// Connects and asks the server who it is, unless that is done already.
    pub(super) async fn enter(&self) -> Result<(), RegistryError> {
        self.connection().await.map(drop)
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), RegistryError> {
        if let Some(why) = self.ended.get() {
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
        let (mut connection, server) = self.door.connect(patience(ANSWER)).await?;
        self.adopt(&mut connection, &server).await?;
        Ok(connection)
    }

    /// Finds out whether the history here is ours.
    async fn adopt(
        &self,
        connection: &mut MultiplexedConnection,
        server: &Server,
    ) -> Result<(), RegistryError> {
        let answer = self.introduce(connection, server).await?;
        let told = list(answer).map(Iterator::collect::<Vec<_>>).unwrap_or_default();
        let [status, line, rest @ ..] = told.as_slice() else { return Err(nonsense()) };
        match (text(status.clone()).as_deref(), rest) {
            (Some("layout"), _) => Err(RegistryError::Refused(format!(
                "the registry has layout {}, this program knows up to {LAYOUT}: use a newer evenkeel",
                text(line.clone()).unwrap_or_default()
            ))),
            (Some("lost"), _) => Err(self.end(
                "the registry's Redis may have lost what it had answered (it started again without its data, a replica \
                 was promoted, or it was emptied): start this node again"
                    .into(),
            )),
            (Some("ok"), [generation, revision, cold]) => {
                let (line, generation) = (text(line.clone()), number(generation));
                let (Some(line), Some(generation)) = (line, generation) else { return Err(nonsense()) };
                let (Some(revision), Some(cold)) = (number(revision), number(cold)) else {
                    return Err(nonsense());
                };
                self.trust(line, generation, server.class())?;
                self.learn(Revision(revision), Revision(cold));
                Ok(())
            }
            _ => Err(nonsense()),
        }
    }

    async fn introduce(
        &self,
        connection: &mut MultiplexedConnection,
        server: &Server,
    ) -> Result<Value, RegistryError> {
        let known = self.known().clone();
        let mut cmd = call(&self.scripts.adopt, &self.keys.of(&["meta", "ends", "terms"]));
        cmd.arg(LAYOUT).arg(&known.line).arg(known.revision.0).arg(known.generation).arg(new_name()?);
        cmd.arg(&server.run).arg(&server.second).arg(if server.keeps_all { "1" } else { "0" });
        let answer = run(&cmd, &self.scripts.adopt, connection).await;
        answer.map_err(|error| self.door.explain(&error))
    }

    /// Has it written down when the server does not keep all any more. Should it then lose something while nobody of us is
    /// left who knew better, whoever comes next is told by that.
    pub(super) async fn look_again(&self) -> Result<(), RegistryError> {
        let (nth, mut connection) = self.connection().await?;
        let server = match self.door.look(&mut connection).await {
            Ok(server) => server,
            Err(error) => {
                // Also of a server that was demoted, and whose scripts tell of that as of any error of theirs.
                self.drop_connection(nth).await;
                return Err(error);
            }
        };
        if !server.keeps_all {
            // Whose connection this is heard already whose history it is; what is said now is for others.
            self.introduce(&mut connection, &server).await?;
        }
        Ok(())
    }

    fn trust(&self, line: String, generation: u16, class: Class) -> Result<(), RegistryError> {
        let mut known = self.known();
        if known.class.is_some_and(|promised| class < promised) {
            drop(known);
            return Err(self.end(
                "the registry's Redis promises less than when this node started (see appendonly, appendfsync and its \
                 replicas): set them right, or start this node again"
                    .into(),
            ));
        }
        known.class.get_or_insert(class);
        (known.line, known.generation) = (line, generation);
        Ok(())
    }

    /// Runs a script and returns what it told beside where the order stands.
    pub(super) async fn ask(
        &self,
        verb: Verb,
        add: impl FnOnce(&mut Cmd),
    ) -> Result<(Revision, std::vec::IntoIter<Value>), RegistryError> {
        let (nth, mut connection) = self.connection().await?;
        let (script, keys) = match verb {
            Verb::Act => (
                &self.scripts.act,
                self.keys.of(&[
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
            Verb::Look => (
                &self.scripts.look,
                self.keys.of(&["meta", "cold", "cold:values", "hot", "hot:values", "news"]),
            ),
        };
        let mut cmd = call(script, &keys);
        {
            let known = self.known();
            cmd.arg(&known.line).arg(known.revision.0).arg(HOT_ROOT);
        }
        add(&mut cmd);
        let answer = match run(&cmd, script, &mut connection).await {
            Ok(answer) => answer,
            Err(error) => {
                if is_the_end_of_it(&error) {
                    self.drop_connection(nth).await;
                }
                return Err(self.door.explain(&error));
            }
        };
        let mut told = list(answer).ok_or_else(nonsense)?;
        match told.next().and_then(text).as_deref() {
            Some("ok") => {}
            Some("moved") => {
                // The next connection is told what happened, and ends this registry.
                self.drop_connection(nth).await;
                self.connection().await?;
                return Err(RegistryError::Unavailable(
                    "the registry's history was replaced: ask again".into(),
                ));
            }
            _ => return Err(nonsense()),
        }
        let mut next = || number(&told.next()?).map(Revision);
        let (Some(revision), Some(cold)) = (next(), next()) else { return Err(nonsense()) };
        self.learn(revision, cold);
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
fn call(script: &Script, keys: &[String]) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(script.get_hash()).arg(keys.len()).arg(keys);
    cmd
}

/// Sends a call, and the script before it where the server does not know it: then nothing of it was done yet.
async fn run(
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

/// Whether an error says that this connection, or this server, is not the one to ask any more.
fn is_the_end_of_it(error: &RedisError) -> bool {
    let elsewhere = ["READONLY", "UNBLOCKED", "LOADING", "MASTERDOWN", "MOVED", "CLUSTERDOWN", "NOAUTH"];
    error.code().is_none_or(|code| elsewhere.contains(&code))
}

/// What the scripts never say.
pub(super) fn nonsense() -> RegistryError {
    RegistryError::Unavailable(
        "the registry's Redis gave an answer that no script of ours gives: see its log".into(),
    )
}

/// A span as the client wants it.
pub(super) fn patience(span: Millis) -> Duration {
    Duration::from_millis(span.0.unsigned_abs())
}

/// A name that nobody else has.
fn new_name() -> Result<String, RegistryError> {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    let read =
        read.map_err(|error| RegistryError::Unavailable(format!("this host gives no random name: {error}")));
    Ok(read?.trim().into())
}

/// Shared by everybody who asks.
pub(super) type Shared = Arc<Link>;
