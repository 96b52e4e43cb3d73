//! A Redis server of one test: started, killed, frozen, and spoken to past the engine.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::Value;
use rustix::process::{Pid, Signal, kill_process};

/// The settings of a server that keeps all it answered.
pub(crate) const ALWAYS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// Whether this host has the server at all; says so aloud where it has not.
///
/// # Panics
/// Where it has not and `REQUIRE=all` wants it.
fn is_there() -> bool {
    let found = Command::new("redis-server").arg("--version").output().is_ok();
    if !found {
        let required = std::env::var("REQUIRE").is_ok_and(|which| which == "all");
        assert!(!required, "there is no redis-server: `cargo xtask engines install`");
        eprintln!("skipped: there is no redis-server: `cargo xtask engines install`");
    }
    found
}

/// The server. Killed when it is dropped.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    port: u16,
    settings: Vec<String>,
    process: Option<Child>,
}

impl Server {
    /// Starts one, in a folder of its own.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        if !is_there() {
            return None;
        }
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { folder, port: free_port(), settings, process: None };
        server.again();
        Some(server)
    }

    /// Starts it again, with what is on its disk.
    pub(crate) fn again(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0", "--port"]);
        command.arg(self.port.to_string()).arg("--dir").arg(self.folder.path()).args(&self.settings);
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        self.process = Some(command.stdout(log).stderr(Stdio::inherit()).spawn().unwrap());
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
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// Says something to it as an operator would, and returns the answer as text.
    pub(crate) fn say(&self, command: &str, args: &[&str]) -> String {
        self.ask(command, args).unwrap_or_else(|error| panic!("{command} {args:?}: {error}"))
    }

    fn ask(&self, command: &str, args: &[&str]) -> Result<String, redis::RedisError> {
        let client = redis::Client::open(format!("redis://{}/", self.at()))?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
        redis::cmd(command).arg(args).query(&mut connection).map(|answer: Value| shown(&answer))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
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

/// A port that nobody listened on a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A certificate for `localhost`, who vouches for it, and a stranger; `None`, said aloud, without `openssl`.
pub(crate) fn certificates() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let script = "
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem &&
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=stranger -keyout s.key -out stranger.pem &&
        openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key.pem -out cert.csr &&
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > names &&
        openssl x509 -req -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem";
    let made = Command::new("sh").args(["-ec", script]).current_dir(folder.path()).output();
    if made.as_ref().is_ok_and(|made| made.status.success()) {
        return Some(folder);
    }
    assert!(!std::env::var("REQUIRE").is_ok_and(|which| which == "all"), "no certificates: {made:?}");
    eprintln!("skipped: openssl makes no certificates: {made:?}");
    None
}
