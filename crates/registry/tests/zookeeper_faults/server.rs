//! A ZooKeeper server of one test: started, killed, frozen, and asked past the engine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_registry::clock::Stopwatch;

use crate::certificates::Certificates;
use crate::host::{free_ports, skip};
use crate::listening::{PORTS, listens, says_in_use};
use crate::process::ChildServer;

/// What it is started from: Debian's name of the server forgets a library that it needs for encryption.
const JARS: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/netty-codec.jar";

/// How long a server may take. No promise: the limit of a wait that hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// The server. Killed when it is dropped.
pub(crate) struct ZookeeperServer {
    folder: tempfile::TempDir,
    port: u16,
    /// What its configuration says of its ensemble; nothing of one that is alone.
    peers: String,
    /// What its configuration says besides.
    more: String,
    /// Where it is spoken to with encryption, and what its configuration says of that.
    secure: Option<(u16, String)>,
    process: ChildServer,
}

/// Whether this host has the server at all; says so aloud where it has not.
pub(crate) fn is_there() -> bool {
    let jars = JARS.split(':').all(|jar| Path::new(jar).is_file());
    let found = jars && Command::new("java").arg("-version").output().is_ok();
    if !found {
        skip("there is no ZooKeeper: `cargo xtask engines install`");
    }
    found
}

impl ZookeeperServer {
    /// Starts one, in a folder of its own; `None`, said aloud, where there is none to start.
    pub(crate) fn start() -> Option<Self> {
        Self::start_as(|_| {})
    }

    /// Starts one with lines more in its configuration, which count instead of those before.
    pub(crate) fn with(more: &str) -> Option<Self> {
        Self::start_as(|server| more.clone_into(&mut server.more))
    }

    /// Starts one that is spoken to with encryption as well, by those whom the same authority vouches for.
    pub(crate) fn encrypted(certificates: &Certificates) -> Option<Self> {
        Self::start_as(|server| {
            let parts =
                ["key.pem", "cert.pem"].map(|name| std::fs::read_to_string(certificates.at(name)).unwrap());
            let ours = server.folder.path().join("server.pem");
            std::fs::write(&ours, parts.concat()).unwrap();
            let port = free_ports(1)[0];
            let said = format!(
                "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.clientAuth=need\n\
                 serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                 ssl.keyStore.location={}\nssl.trustStore.location={}\n",
                ours.display(),
                certificates.at("ca.pem")
            );
            server.secure = Some((port, said));
        })
    }

    /// Starts one as `set` says, with other ports each time one of its is in use.
    fn start_as(set: impl Fn(&mut Self)) -> Option<Self> {
        if !is_there() {
            return None;
        }
        for _ in 0..PORTS {
            let mut server = Self::new(String::new());
            set(&mut server);
            server.launch();
            if server.serves() {
                return Some(server);
            }
        }
        panic!("the ports of ZooKeeper were in use {PORTS} times");
    }

    fn new(peers: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            folder,
            port: free_ports(1)[0],
            peers,
            more: String::new(),
            secure: None,
            process: ChildServer::default(),
        }
    }

    fn member(id: u8, peers: &str, more: &str) -> Self {
        let mut server = Self::new(peers.to_owned());
        more.clone_into(&mut server.more);
        let data = server.folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("myid"), id.to_string()).unwrap();
        server.launch();
        server
    }

    /// Starts it again, with what is on its disk, and waits until it answers.
    pub(crate) fn restart(&mut self) {
        self.launch();
        assert!(self.serves(), "its port is in use");
    }

    /// Waits until it, and no other program at its ports, answers; `false` when one of them is in use.
    fn serves(&mut self) -> bool {
        let begun = Stopwatch::start();
        while !self.listens() || self.mode().is_empty() {
            if says_in_use(&self.log()) {
                return false;
            }
            let ended = self.process.has_ended();
            assert!(!ended && begun.elapsed() < PATIENCE, "the server does not come up: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    fn listens(&self) -> bool {
        let ports = [Some(self.port), self.secure.as_ref().map(|(port, _)| *port)];
        ports.into_iter().flatten().all(|port| listens(self.process.id(), port))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Copies what is on its disk. It must have been killed.
    pub(crate) fn keep_copy(&self) {
        self.copy("data", "kept");
    }

    /// Puts back what was kept, in place of what is on its disk. It must have been killed.
    pub(crate) fn go_back(&self) {
        std::fs::remove_dir_all(self.folder.path().join("data")).unwrap();
        self.copy("kept", "data");
    }

    fn copy(&self, from: &str, to: &str) {
        let copied = Command::new("cp").args(["-r", from, to]).current_dir(self.folder.path()).status();
        assert!(copied.is_ok_and(|copied| copied.success()));
    }

    /// Starts it again, and does not wait.
    pub(crate) fn launch(&mut self) {
        let config = format!(
            "tickTime=250\nmaxSessionTimeout=60000\ninitLimit=40\nsyncLimit=20\ndataDir={}/data\nclientPort={}\n\
             clientPortAddress=127.0.0.1\nforceSync=yes\npreAllocSize=1024\nadmin.enableServer=false\n\
             4lw.commands.whitelist=*\n{}{}{}",
            self.folder.path().display(),
            self.port,
            self.peers,
            self.more,
            self.secure.as_ref().map_or("", |(_, said)| said)
        );
        let path = self.folder.path().join("zoo.cfg");
        std::fs::write(&path, config).unwrap();
        let light = "-Xmx128m -Xms32m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp";
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let main = if self.peers.is_empty() { "ZooKeeperServerMain" } else { "quorum.QuorumPeerMain" };
        let mut java = Command::new("java");
        java.args(light.split(' ')).args([JARS, &format!("org.apache.zookeeper.server.{main}")]).arg(path);
        self.process.start(java.stdout(log).stderr(Stdio::null()));
    }

    /// What it is in its ensemble; nothing while it does not serve.
    fn mode(&self) -> &'static str {
        let told = four_letter_reply(self.at(), "srvr");
        let modes = ["standalone", "leader", "follower"];
        modes.into_iter().find(|mode| told.contains(&format!("Mode: {mode}"))).unwrap_or("")
    }

    pub(crate) fn at(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn url(&self) -> String {
        format!("zookeeper://{}", self.at())
    }

    /// Where it is spoken to with encryption.
    pub(crate) fn secure_port(&self) -> u16 {
        self.secure.as_ref().expect("it is encrypted").0
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
}

/// Three servers that are one. Killed when they are dropped.
pub(crate) struct Ensemble {
    members: Vec<ZookeeperServer>,
}

impl Ensemble {
    /// Starts one, with other ports each time one of its is in use; `None`, said aloud, where there is none to start.
    pub(crate) fn start() -> Option<Self> {
        if !is_there() {
            return None;
        }
        let started = (0..PORTS).find_map(|_| {
            let ports = free_ports(6);
            Self::of(&ports, &ports, "")
        });
        Some(started.expect("its ports are free once"))
    }

    /// Starts one at these ports: two a member, the first for whom it leads. The first member reaches the others at
    /// `detours`, written likewise, and takes long to give up one that leads it. `None` where there is none to start, or where a
    /// port is in use.
    pub(crate) fn with_detours(ports: &[u16], detours: &[u16]) -> Option<Self> {
        if is_there() { Self::of(ports, detours, "syncLimit=2000\n") } else { None }
    }

    fn of(ports: &[u16], of_first: &[u16], more: &str) -> Option<Self> {
        let peers = |ports: &[u16]| {
            let pairs = ports.chunks(2).zip(1..);
            pairs.map(|(at, id)| format!("server.{id}=127.0.0.1:{}:{}\n", at[0], at[1])).collect::<String>()
        };
        let first = ZookeeperServer::member(1, &peers(of_first), more);
        let others = (2..=3).map(|id| ZookeeperServer::member(id, &peers(ports), ""));
        let mut ensemble = Self { members: std::iter::once(first).chain(others).collect() };
        ensemble.members.iter_mut().all(ZookeeperServer::serves).then_some(ensemble)
    }

    fn wait(&self, good: impl Fn(&[&str]) -> bool) {
        let begun = Stopwatch::start();
        loop {
            let modes: Vec<_> = self.members.iter().map(ZookeeperServer::mode).collect();
            if good(&modes) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "the ensemble does not come up: {modes:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(|member| member.at().to_string()).collect();
        format!("zookeeper://{}", hosts.join(","))
    }

    /// Where its first member is, which follows, and one that leads.
    pub(crate) fn first_and_leader(&self) -> (SocketAddr, SocketAddr) {
        let leader = self.members[1..].iter().find(|member| member.mode() == "leader");
        (self.members[0].at(), leader.expect("one of the others leads").at())
    }

    /// What its members say that they are.
    pub(crate) fn modes(&self) -> Vec<&'static str> {
        self.members.iter().map(ZookeeperServer::mode).collect()
    }

    /// Kills one that follows, and tells where it was.
    pub(crate) fn lose_one(&mut self) -> SocketAddr {
        let follows = |member: &&mut ZookeeperServer| member.mode() == "follower";
        let member = self.members.iter_mut().find(follows).expect("somebody follows");
        member.kill();
        member.at()
    }

    /// Kills the one who leads, and starts it again when another one does.
    pub(crate) fn depose(&mut self) {
        let leader =
            self.members.iter().position(|member| member.mode() == "leader").expect("somebody leads");
        self.members[leader].kill();
        self.wait(|modes| modes.contains(&"leader"));
        self.members[leader].launch();
        self.wait(|modes| modes.iter().filter(|mode| !mode.is_empty()).count() == 3);
    }
}

/// What a server says to one of its four-letter words; nothing where it does not answer.
pub(crate) fn four_letter_reply(at: SocketAddr, word: &str) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(at) {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = stream.write_all(word.as_bytes());
        let _ = stream.read_to_string(&mut text);
    }
    text
}
