//! A ZooKeeper server of one test: started, killed, frozen, and asked past the engine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

const JAR: &str = "/usr/share/java/zookeeper.jar";

/// The server. Killed when it is dropped.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

impl Server {
    /// Starts one, in a folder of its own; `None`, said aloud, where there is none to start.
    ///
    /// # Panics
    /// Where there is none and `REQUIRE=all` wants it.
    pub(crate) fn start() -> Option<Self> {
        let found = Path::new(JAR).is_file() && Command::new("java").arg("-version").output().is_ok();
        if !found {
            let required = std::env::var("REQUIRE").is_ok_and(|which| which == "all");
            assert!(!required, "there is no ZooKeeper: `cargo xtask engines install`");
            eprintln!("skipped: there is no ZooKeeper: `cargo xtask engines install`");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Self { folder: tempfile::tempdir().unwrap(), port, process: None };
        server.again();
        Some(server)
    }

    /// Starts it again, with what is on its disk.
    pub(crate) fn again(&mut self) {
        let config = format!(
            "tickTime=250\ndataDir={}/data\nclientPort={}\nclientPortAddress=127.0.0.1\nforceSync=yes\n\
             preAllocSize=1024\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
            self.folder.path().display(),
            self.port
        );
        let path = self.folder.path().join("zoo.cfg");
        std::fs::write(&path, config).unwrap();
        let light = "-Xmx128m -Xms32m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp";
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut java = Command::new("java");
        java.args(light.split(' ')).args([JAR, "org.apache.zookeeper.server.ZooKeeperServerMain"]).arg(path);
        self.process = Some(java.stdout(log).stderr(Stdio::null()).spawn().unwrap());
        for _ in 0..1_500 {
            if said(self.at(), "srvr").contains("Mode") {
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
        format!("zookeeper://{}", self.at())
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
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
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
