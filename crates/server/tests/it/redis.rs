//! A Redis of a test's own, reached at an address that stays the test's while the server is down.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::host::skip;
use crate::process::until;

/// What a Redis keeps by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedisPersistence {
    Nothing,
    All,
}

/// A Redis. Killed when it is dropped.
pub(crate) struct RedisProcess {
    /// Its files in `now`, and what they were in `then`.
    folder: tempfile::TempDir,
    keeps: RedisPersistence,
    address: SocketAddr,
    child: Option<Child>,
}

impl RedisProcess {
    /// Starts one; `None`, said aloud, where there is none.
    pub(crate) fn start(keeps: RedisPersistence) -> Option<Self> {
        if Command::new("redis-server").arg("--version").output().is_err() {
            skip("there is no redis-server: `cargo xtask engines install`");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("now")).expect("a folder");
        let address = forward_to(folder.path().join("socket"));
        let mut redis = Self { folder, keeps, address, child: None };
        redis.restart();
        Some(redis)
    }

    pub(crate) fn restart(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--save", "", "--port", "0", "--unixsocket"]).arg(self.folder.path().join("socket"));
        command.arg("--dir").arg(self.folder.path().join("now"));
        if self.keeps == RedisPersistence::All {
            command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        }
        let child = command.stdout(Stdio::null()).spawn();
        self.child = Some(child.expect("the server starts"));
        until("it answers", || (self.send_command("PING")? == "PONG").then_some(()));
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
    }

    /// Has a copy made of what it holds now.
    pub(crate) fn keep(&self) {
        if self.keeps == RedisPersistence::Nothing {
            assert_eq!(self.send_command("SAVE").as_deref(), Some("OK"));
        }
        let copied = Command::new("cp").args(["-a", "now", "then"]).current_dir(self.folder.path()).status();
        assert!(copied.expect("cp runs").success());
    }

    /// Puts the copy, if there is one, in the place of its files.
    pub(crate) fn go_back(&self) {
        let [now, then] = ["now", "then"].map(|name| self.folder.path().join(name));
        if then.exists() {
            fs::remove_dir_all(&now).expect("removed");
            fs::rename(then, now).expect("moved");
        }
    }

    /// One word to it, and the first line of its answer.
    fn send_command(&self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.write_all(format!("{word}\r\n").as_bytes()).ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        Some(line.trim_start_matches('+').trim().to_owned())
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A listener that is open for as long as the test runs, so no other process is given its port; each connection to it goes to
/// the server at this socket, and ends at once where there is none.
fn forward_to(socket: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = UnixStream::connect(&socket) else { continue };
            client.set_nodelay(true).expect("an option");
            let (client_too, server_too) = (client.try_clone().expect("it"), server.try_clone().expect("it"));
            thread::spawn(move || {
                let _ = std::io::copy(&mut &client, &mut &server);
                let _ = server.shutdown(Shutdown::Write);
            });
            thread::spawn(move || {
                let _ = std::io::copy(&mut &server_too, &mut &client_too);
                let _ = client_too.shutdown(Shutdown::Both);
            });
        }
    });
    address
}
