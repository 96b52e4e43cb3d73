//! A Redis server of one test: started, killed, frozen, and spoken to past the engine.

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_core::registry::LeaseId;
use redis::Value;

use crate::host::{free_ports, skip};
use crate::process::Process;

/// The settings of a server that keeps all it answered.
pub(crate) const ALWAYS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// The server. Killed when it is dropped.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    port: u16,
    settings: Vec<String>,
    process: Process,
}

impl Server {
    /// Starts one, in a folder of its own.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        if Command::new("redis-server").arg("--version").output().is_err() {
            skip("there is no redis-server: `cargo xtask engines install`");
            return None;
        }
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { folder, port: free_ports(1)[0], settings, process: Process::default() };
        server.again();
        Some(server)
    }

    /// Starts it again, with what is on its disk.
    pub(crate) fn again(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0", "--port"]);
        command.arg(self.port.to_string()).arg("--dir").arg(self.folder.path()).args(&self.settings);
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        self.process.start(command.stdout(log).stderr(Stdio::inherit()));
        for _ in 0..1_000 {
            if TcpStream::connect(self.at()).is_ok() && self.ask("PING", &[]).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server does not come up: {:?}", std::fs::read_to_string(self.folder.path().join("log")));
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
    pub(crate) fn say(&self, command: &str, args: &[&str]) -> String {
        self.ask(command, args).unwrap_or_else(|error| panic!("{command} {args:?}: {error}"))
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

    fn ask(&self, command: &str, args: &[&str]) -> Result<String, redis::RedisError> {
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
