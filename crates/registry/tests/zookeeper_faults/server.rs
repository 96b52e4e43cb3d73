//! A ZooKeeper server of one test: started, killed, frozen, and asked past the engine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::certificates::Certificates;
use crate::host::{free_ports, skip};
use crate::process::Process;

/// What it is started from: Debian's name of the server forgets a library that it needs for encryption.
const JARS: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/netty-codec.jar";

/// The server. Killed when it is dropped.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    port: u16,
    /// What its configuration says of its ensemble; nothing of one that is alone.
    peers: String,
    /// What its configuration says besides.
    more: String,
    /// Where it is spoken to with encryption, and what its configuration says of that.
    secure: Option<(u16, String)>,
    process: Process,
}

/// Whether this host has the server at all; says so aloud where it has not.
fn is_there() -> bool {
    let jars = JARS.split(':').all(|jar| Path::new(jar).is_file());
    let found = jars && Command::new("java").arg("-version").output().is_ok();
    if !found {
        skip("there is no ZooKeeper: `cargo xtask engines install`");
    }
    found
}

impl Server {
    /// Starts one, in a folder of its own; `None`, said aloud, where there is none to start.
    pub(crate) fn start() -> Option<Self> {
        if !is_there() {
            return None;
        }
        let mut server = Self::new(String::new());
        server.again();
        Some(server)
    }

    /// Starts one with lines more in its configuration, which count instead of those before.
    pub(crate) fn with(more: &str) -> Option<Self> {
        if !is_there() {
            return None;
        }
        let mut server = Self::new(String::new());
        more.clone_into(&mut server.more);
        server.again();
        Some(server)
    }

    /// Starts one that is spoken to with encryption as well, by those whom the same authority vouches for.
    pub(crate) fn encrypted(certificates: &Certificates) -> Option<Self> {
        if !is_there() {
            return None;
        }
        let mut server = Self::new(String::new());
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
        server.again();
        Some(server)
    }

    fn new(peers: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            folder,
            port: free_ports(1)[0],
            peers,
            more: String::new(),
            secure: None,
            process: Process::default(),
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
    pub(crate) fn again(&mut self) {
        self.launch();
        for _ in 0..1_500 {
            if !self.mode().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server does not come up: {:?}", std::fs::read_to_string(self.folder.path().join("log")));
    }

    /// Copies what is on its disk. It must have been killed.
    pub(crate) fn keep(&self) {
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
        let told = said(self.at(), "srvr");
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
    members: Vec<Server>,
}

impl Ensemble {
    /// Starts one; `None`, said aloud, where there is none to start.
    pub(crate) fn start() -> Option<Self> {
        let ports = free_ports(6);
        Self::of(&ports, &ports, "")
    }

    /// Starts one at these ports: two a member, the first for whom it leads. The first member reaches the others at
    /// `detours`, written likewise, and takes long to give up one that leads it.
    pub(crate) fn with_detours(ports: &[u16], detours: &[u16]) -> Option<Self> {
        Self::of(ports, detours, "syncLimit=2000\n")
    }

    fn of(ports: &[u16], of_first: &[u16], more: &str) -> Option<Self> {
        if !is_there() {
            return None;
        }
        let peers = |ports: &[u16]| {
            let pairs = ports.chunks(2).zip(1..);
            pairs.map(|(at, id)| format!("server.{id}=127.0.0.1:{}:{}\n", at[0], at[1])).collect::<String>()
        };
        let first = Server::member(1, &peers(of_first), more);
        let others = (2..=3).map(|id| Server::member(id, &peers(ports), ""));
        let ensemble = Self { members: std::iter::once(first).chain(others).collect() };
        ensemble.wait(|modes| modes.iter().filter(|mode| !mode.is_empty()).count() == 3);
        Some(ensemble)
    }

    fn wait(&self, good: impl Fn(&[&str]) -> bool) {
        for _ in 0..1_500 {
            let modes: Vec<_> = self.members.iter().map(Server::mode).collect();
            if good(&modes) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the ensemble does not come up");
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
        self.members.iter().map(Server::mode).collect()
    }

    /// Kills one that follows, and tells where it was.
    pub(crate) fn lose_one(&mut self) -> SocketAddr {
        let follows = |member: &&mut Server| member.mode() == "follower";
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
pub(crate) fn said(at: SocketAddr, word: &str) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(at) {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = stream.write_all(word.as_bytes());
        let _ = stream.read_to_string(&mut text);
    }
    text
}
