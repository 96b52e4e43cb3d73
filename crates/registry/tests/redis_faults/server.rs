//! A Redis server of one test: started, killed, frozen, and spoken to past the engine.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_core::registry::LeaseId;
use evenkeel_registry::clock::Stopwatch;
use redis::Value;

use crate::host::{free_ports, skip};
use crate::listening::{PORTS, listens, says_in_use};
use crate::process::ChildServer;

/// The settings of a server that keeps all it answered.
pub(crate) const ALWAYS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// The server. Killed when it is dropped.
pub(crate) struct RedisServer {
    folder: tempfile::TempDir,
    port: u16,
    /// Where it is spoken to with encryption, if at all.
    secure: Option<u16>,
    settings: Vec<String>,
    process: ChildServer,
}

impl RedisServer {
    /// Starts one, in a folder of its own.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        Self::start_at(settings, false)
    }

    /// Starts one that is spoken to with encryption as well.
    pub(crate) fn start_encrypted(settings: &[&str]) -> Option<Self> {
        Self::start_at(settings, true)
    }

    fn start_at(settings: &[&str], encrypted: bool) -> Option<Self> {
        if Command::new("redis-server").arg("--version").output().is_err() {
            skip("there is no redis-server: `cargo xtask engines install`");
            return None;
        }
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { folder, port: 0, secure: None, settings, process: ChildServer::default() };
        for ports in free_ports(2 * PORTS).chunks(2) {
            (server.port, server.secure) = (ports[0], encrypted.then_some(ports[1]));
            server.launch();
            if server.serves() {
                return Some(server);
            }
            assert!(says_in_use(&server.log()), "the server does not start: {}", server.log());
            server.kill();
        }
        panic!("each of {PORTS} ports is in use: {}", server.log());
    }

    /// Starts it again, with what is on its disk.
    pub(crate) fn restart(&mut self) {
        self.launch();
        assert!(self.serves(), "the server does not start again: {}", self.log());
    }

    fn launch(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0", "--port"]);
        command.arg(self.port.to_string()).arg("--dir").arg(self.folder.path()).args(&self.settings);
        if let Some(port) = self.secure {
            command.args(["--tls-port", &port.to_string()]);
        }
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        self.process.start(command.stdout(log).stderr(Stdio::inherit()));
    }

    /// Waits until it, and no other program at its ports, answers; `false` when it has ended.
    fn serves(&mut self) -> bool {
        let begun = Stopwatch::start();
        while !self.listens() || self.query("PING", &[]).is_err() {
            if self.process.has_ended() {
                return false;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "the server does not come up: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    fn listens(&self) -> bool {
        [Some(self.port), self.secure].into_iter().flatten().all(|port| listens(self.process.id(), port))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Where it is spoken to with encryption.
    pub(crate) fn secure_port(&self) -> u16 {
        self.secure.expect("it is encrypted")
    }

    pub(crate) fn at(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/0", self.at())
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    pub(crate) fn freeze(&self) {
        self.process.freeze();
    }

    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }

    /// Says something to it as an operator would, and returns the answer as text.
    pub(crate) fn command(&self, command: &str, args: &[&str]) -> String {
        self.query(command, args).unwrap_or_else(|error| panic!("{command} {args:?}: {error}"))
    }

    /// Lets a lease be over from the moment on at which memory is full: no time can be written any more then.
    pub(crate) fn end_in_full_memory(&self, lease: LeaseId) {
        let client = redis::Client::open(self.url()).expect("a URL");
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(5)).expect("it answers");
        let mut both = redis::pipe();
        both.atomic().cmd("ZADD").arg("{evenkeel}:ends").arg(1).arg(lease.0).ignore();
        both.cmd("CONFIG").arg(&["SET", "maxmemory", "1"]).ignore();
        both.query::<()>(&mut connection).expect("both are done");
    }

    fn query(&self, command: &str, args: &[&str]) -> Result<String, redis::RedisError> {
        let client = redis::Client::open(format!("redis://{}/", self.at()))?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
        redis::cmd(command).arg(args).query(&mut connection).map(|answer: Value| shown(&answer))
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::VerbatimString { text, .. } => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Array(parts) => parts.iter().map(shown).collect::<Vec<_>>().join("\n"),
        other => format!("{other:?}"),
    }
}
