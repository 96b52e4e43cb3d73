//! etcd servers of one test alone, which it may kill, freeze and start again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_registry::clock::Stopwatch;
use tempfile::TempDir;

use crate::LONG;
use crate::certificates::Certificates;
use crate::host::{free_ports, skip};
use crate::listening::{PORTS, listens, says_in_use};
use crate::process::ChildServer;
use crate::until::until;

/// One member.
pub(crate) struct EtcdMember {
    pub(crate) port: u16,
    /// Where it is asked by an operator, who knows nothing of encryption.
    plain: u16,
    pub(crate) folder: PathBuf,
    options: Vec<String>,
    process: ChildServer,
}

/// The members of one etcd.
pub(crate) struct EtcdCluster {
    pub(crate) members: Vec<EtcdMember>,
    _folder: TempDir,
}

impl EtcdCluster {
    /// Starts so many members, with short elections; `None`, said aloud, where etcd is not installed.
    pub(crate) fn start(count: usize) -> Option<Self> {
        Self::start_as(count, |_| {})
    }

    /// Which of them leads, once one does.
    pub(crate) async fn leader(&self) -> usize {
        until("a leader", || async { self.members.iter().position(EtcdMember::leads) }).await
    }

    /// Starts one with an option more.
    pub(crate) fn with(option: &str) -> Option<Self> {
        Self::start_as(1, |member| member.options.push(option.into()))
    }

    /// Starts one that speaks with encryption only, and to those whom the same authority vouches for.
    pub(crate) fn encrypted(certificates: &Certificates) -> Option<Self> {
        Self::start_as(1, |member| {
            member.plain = free_ports(1)[0];
            for option in &mut member.options {
                if option.contains("client-urls=") {
                    *option = option.replace("http:", "https:");
                }
            }
            member.options.extend([
                format!("--listen-metrics-urls=http://127.0.0.1:{}", member.plain),
                format!("--cert-file={}", certificates.at("cert.pem")),
                format!("--key-file={}", certificates.at("key.pem")),
                format!("--trusted-ca-file={}", certificates.at("ca.pem")),
                "--client-cert-auth".to_owned(),
            ]);
        })
    }

    /// Starts members with options that `set` changes, with other ports each time one of theirs is in use.
    fn start_as(count: usize, set: impl Fn(&mut EtcdMember)) -> Option<Self> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            skip("there is no etcd here: `cargo xtask engines install` gets it");
            return None;
        }
        for _ in 0..PORTS {
            let mut etcd = Self::new(count);
            etcd.members.iter_mut().for_each(&set);
            etcd.members.iter_mut().for_each(EtcdMember::spawn);
            if etcd.members.iter_mut().all(EtcdMember::serves) {
                return Some(etcd);
            }
        }
        panic!("the ports of etcd were in use {PORTS} times");
    }

    fn new(count: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = free_ports(2 * count);
        let peer = |member: usize| format!("http://127.0.0.1:{}", ports[2 * member + 1]);
        let all: Vec<_> = (0..count).map(|member| format!("m{member}={}", peer(member))).collect();
        let members = (0..count).map(|member| {
            let client = format!("http://127.0.0.1:{}", ports[2 * member]);
            let folder = folder.path().join(format!("m{member}"));
            let options = vec![
                format!("--name=m{member}"),
                format!("--data-dir={}", folder.display()),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={}", peer(member)),
                format!("--initial-advertise-peer-urls={}", peer(member)),
                format!("--initial-cluster={}", all.join(",")),
                "--heartbeat-interval=50".into(),
                "--election-timeout=500".into(),
            ];
            let port = ports[2 * member];
            EtcdMember { port, plain: port, folder, options, process: ChildServer::default() }
        });
        Self { members: members.collect(), _folder: folder }
    }

    /// A URL with every member in it.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        format!("etcd://{}/test", hosts.join(","))
    }
}

impl EtcdMember {
    fn spawn(&mut self) {
        let log = std::fs::File::create(self.folder.with_extension("log")).expect("a log");
        let mut etcd = Command::new("etcd");
        etcd.args(&self.options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process.start(&mut etcd);
    }

    /// Waits until it, and no other program at its ports, serves; `false` when it has ended because one of them is in use.
    fn serves(&mut self) -> bool {
        let begun = Stopwatch::start();
        let log = || std::fs::read_to_string(self.folder.with_extension("log")).unwrap_or_default();
        while !self.listens() || !self.is_healthy() {
            if self.process.has_ended() {
                assert!(says_in_use(&log()), "etcd does not start: {}", log());
                return false;
            }
            assert!(begun.elapsed() < LONG, "etcd does not start: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }

    fn listens(&self) -> bool {
        [self.port, self.plain].into_iter().all(|port| listens(self.process.id(), port))
    }

    fn is_healthy(&self) -> bool {
        self.http("GET", "/health", "").is_some_and(|answer| answer.contains("\"true\""))
    }

    pub(crate) fn at(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    pub(crate) fn start(&mut self) {
        self.spawn();
        assert!(self.serves(), "its port is in use");
    }

    pub(crate) fn freeze(&self) {
        self.process.freeze();
    }

    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }

    /// Asks over HTTP, as an operator's tool would; the answer's body.
    pub(crate) fn http(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.plain)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}")
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    /// Whether it is the leader of its etcd.
    pub(crate) fn leads(&self) -> bool {
        let leader = self.status("leader");
        leader.is_some() && leader == self.status("member_id")
    }

    /// How many elections it knows of.
    pub(crate) fn term(&self) -> Option<u64> {
        self.status("raftTerm")?.parse().ok()
    }

    fn status(&self, name: &str) -> Option<String> {
        let status = self.http("POST", "/v3/maintenance/status", "{}").unwrap_or_default();
        status.split(&format!("\"{name}\":\"")).nth(1)?.split('"').next().map(str::to_owned)
    }
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a kind").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}
