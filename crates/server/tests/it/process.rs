//! Nodes as processes, the command line, and HTTP by hand.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::still::wait_until_still;

/// The program under test.
pub(crate) const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
/// Where the nodes and command lines of all tests keep their one key.
pub(crate) const STATE_HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/state");
/// Whatever takes longer than this will not happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The lease of a node in a test that waits for the end of the lease; long enough for a machine that stalls for seconds.
pub(crate) const SHORT_LEASE: [&str; 2] = ["--ttl", "10s"];

/// A node in a process of its own; killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    /// Where it answers.
    pub(crate) address: SocketAddr,
    /// Whether people ask it by http or https.
    scheme: &'static str,
    /// What it printed until it answered.
    pub(crate) banner: String,
    /// Whether it was given a key of its own.
    keyed: bool,
}

/// The milliseconds of a clock that never steps.
pub(crate) fn millis() -> i64 {
    evenkeel::clock::now().mono.0
}

/// Asks again and again until there is an answer.
pub(crate) fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    until_told(what, ask, String::new)
}

/// The same; where it stays otherwise, with what stands in its way.
pub(crate) fn until_told<T>(
    what: &str,
    mut ask: impl FnMut() -> Option<T>,
    tell: impl FnOnce() -> String,
) -> T {
    let begun = millis();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        if millis() - begun >= PATIENCE.as_millis() as i64 {
            panic!("still not so: {what}. {}", tell());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The program with a narrow environment, so that the caller's settings do not reach the tests.
pub(crate) fn evenkeel(args: &[&str]) -> Command {
    let mut command = Command::new(EVENKEEL);
    command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("TZ", "UTC");
    command.env("EVENKEEL_LOG", "error").env("EVENKEEL_COMMAND_USERS", "any").stdin(Stdio::null());
    command.env("XDG_STATE_HOME", STATE_HOME);
    command
}

/// The line of a request's head that shows the key that all nodes have that are given none. One of them has made it.
pub(crate) fn own_key_line() -> String {
    let key = fs::read_to_string(Path::new(STATE_HOME).join("evenkeel/key")).expect("a node has made it");
    format!("Authorization: Bearer {}", key.trim())
}

/// Runs it to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    evenkeel(args).output().expect("evenkeel starts")
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new();
    let file = file.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.expect("the file").write_all(text.as_bytes()).expect("written");
}

/// What it said, as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl ServerProcess {
    /// `evenkeel dev` in this folder.
    pub(crate) fn dev(folder: &Path) -> Self {
        Self::dev_with(folder, &[])
    }

    /// The same with more arguments.
    pub(crate) fn dev_with(folder: &Path, more: &[&str]) -> Self {
        Self::start(evenkeel(&["dev", "--port", "0"]).args(more).current_dir(folder))
    }

    /// A node with these jobs, which owns so many of them.
    pub(crate) fn with_jobs(folder: &Path, jobs: &str, held: usize) -> Self {
        let node = Self::serve(folder, "a", &[]);
        let applied = node.fed(&["job", "apply", "-f", "-"], jobs);
        assert!(applied.status.success(), "{}", text(&applied.stderr));
        until("all jobs have an owner", || {
            let jobs = node.json(&["job", "list"]);
            let owned = jobs.as_array()?.iter().filter(|job| job["owner"] == "a").count();
            (owned == held).then_some(())
        });
        node
    }

    /// `evenkeel serve` with this name, its registry in `folder` unless the arguments say otherwise, and more arguments. Its lease is long,
    /// since the machine can stall; a test that waits for the end of a lease gives `SHORT_LEASE`.
    pub(crate) fn serve(folder: &Path, name: &str, more: &[&str]) -> Self {
        Self::start(Self::command(folder, name, more).current_dir(folder))
    }

    /// The same, not yet started. Unless `more` says otherwise, its guard does not kill it when it hangs, so that a test can
    /// stop it for a while.
    pub(crate) fn command(folder: &Path, name: &str, more: &[&str]) -> Command {
        let registry = format!("sqlite:{}", folder.join("registry.db").display());
        let data = folder.join(name).display().to_string();
        let mut command = evenkeel(&["serve", "--name", name, "--data", &data]);
        for default in [["--registry", &registry], ["--port", "0"], ["--ttl", "30s"], ["--watchdog", "off"]] {
            if !more.contains(&default[0]) {
                command.args(default);
            }
        }
        command.args(more);
        command
    }

    /// Starts it and waits until it says where it answers.
    pub(crate) fn start(command: &mut Command) -> Self {
        let keyed = command.get_args().any(|arg| arg == "--cluster-key-file");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("evenkeel starts");
        let lines = lines(child.stdout.take().expect("it is piped"));
        let mut banner = String::new();
        loop {
            let Ok(line) = lines.recv_timeout(PATIENCE) else {
                let _ = child.kill();
                let _ = child.wait();
                panic!("it does not say where it answers: {banner}");
            };
            banner.push_str(&line);
            banner.push('\n');
            let scheme = if line.contains("https://") { "https" } else { "http" };
            let address = line.split("://").nth(1).and_then(|rest| rest.split('/').next()?.parse().ok());
            if let Some(address) = address {
                return Self { child, address, scheme, banner, keyed };
            }
        }
    }

    /// Its number as a process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name. One that is stopped does nothing more when this returns.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.expect("kill runs").success());
        if name == "STOP" {
            wait_until_still(self.pid());
        }
    }

    /// Kills it together with its guard, as a host that loses power does: no process is left that could remove its member.
    pub(crate) fn lose_power(self) {
        // One that is stopped starts no other guard.
        self.signal("STOP");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it lives");
        let children: String = tasks
            .map(|task| std::fs::read_to_string(task.expect("a thread").path().join("children")))
            .collect::<Result<_, _>>()
            .expect("the kernel names its children");
        let killed = Command::new("kill").arg("-KILL").args(children.split_whitespace()).status();
        assert!(killed.expect("kill runs").success(), "it has a guard: {children:?}");
        self.signal("KILL");
        self.end();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> i32 {
        until("the process ends", || self.child.try_wait().expect("it is ours")).code().unwrap_or(-1)
    }

    /// Runs a client verb against it.
    pub(crate) fn cli(&self, args: &[&str]) -> Output {
        self.client(args).output().expect("evenkeel starts")
    }

    /// The same, not yet started.
    pub(crate) fn client(&self, args: &[&str]) -> Command {
        let mut command = evenkeel(args);
        command.env("EVENKEEL_SERVER", format!("{}://{}", self.scheme, self.address));
        command
    }

    /// Runs a client verb that must work; what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.cli(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a client verb that must work, with `-o json`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["-o", "json"]].concat());
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// The living nodes, as this one sees them.
    pub(crate) fn living(&self) -> Vec<Value> {
        let nodes = self.json(&["node", "list"]);
        let all = nodes.as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|node| node["state"] != "gone").collect()
    }

    /// Runs a client verb with this on its standard input.
    pub(crate) fn fed(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.client(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.as_mut().expect("evenkeel starts");
        let mut pipe = child.stdin.take().expect("it is piped");
        // A program that refuses early may not read all of it.
        let _ = pipe.write_all(input.as_bytes());
        drop(pipe);
        let mut output =
            Output { status: child.wait().expect("it ends"), stdout: Vec::new(), stderr: Vec::new() };
        child.stdout.take().expect("it is piped").read_to_end(&mut output.stdout).expect("it is read");
        child.stderr.take().expect("it is piped").read_to_end(&mut output.stderr).expect("it is read");
        output
    }

    /// One request, `Host` and all; the status and the rest. It shows the key that nodes share that are given none, unless it
    /// says otherwise.
    pub(crate) fn raw(&self, request: &str, body: &[u8]) -> (u16, String) {
        if self.keyed || request.contains("\nAuthorization:") || request.contains("\nCookie:") {
            return self.bare(request, body);
        }
        self.bare(&format!("{}\n{}", request.trim(), own_key_line()), body)
    }

    /// One request that shows no key but what it says.
    pub(crate) fn bare(&self, request: &str, body: &[u8]) -> (u16, String) {
        raw(self.address, request, body)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request by hand; what is missing of `Content-Length` and `Connection` is added.
pub(crate) fn raw(address: SocketAddr, request: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = request.trim().lines().map(str::trim).collect::<Vec<_>>().join("\r\n");
    let head = format!("{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).expect("it reads");
    // A refusal may come, and the connection end, before the body is read.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = text(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer)
}

fn lines(stdout: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Read on when nobody listens, so that the node never waits for us.
            let _ = send.send(line);
        }
    });
    receive
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}
