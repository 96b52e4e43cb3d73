//! `cluster status` and `top`: the cluster on one page, once and live.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::process::{ServerProcess, text, until, until_told};

const JOBS: &str = r#"
[[job]]
name = "long"
schedule = "0 0 1 1 *"
command = ["sleep", "3600"]

[[job]]
name = "soon"
schedule = "@every 1h"
command = ["true"]

[[job]]
name = "nowhere"
schedule = "@every 1h"
command = ["true"]
node_selector = ["gpu"]
"#;

#[test]
fn the_cluster_is_on_one_page_and_the_exit_code_says_how_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    let page = until("the job that no node fits needs a person", || {
        let page = node.ok(&["cluster", "status"]);
        page.contains("unschedulable").then_some(page)
    });
    for part in
        ["ok, 1 of 1 nodes online", "sqlite", "last day", "next hour  1 fire of", "lateness", "nowhere"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains('\u{1b}'), "a pipe has no colours: {page}");
    let whole = node.json(&["cluster", "status"]);
    assert_eq!(whole["verdict"], "ok", "{whole}");
    for key in ["health", "nodes", "attention", "settings", "last_day", "next_hour"] {
        assert!(whole[key].is_object(), "{key}: {whole}");
    }
    let other = ServerProcess::serve(folder.path(), "b", &["--ttl", "10m"]);
    until("both are online", || (node.living().len() == 2).then_some(()));
    other.signal("STOP");
    let said = until("the silent node is missed", || {
        let said = node.cli(&["cluster", "status"]);
        (!said.status.success()).then_some(said)
    });
    other.signal("CONT");
    assert_eq!(said.status.code(), Some(1), "{}", text(&said.stderr));
    assert!(
        text(&said.stdout).contains("degraded") && text(&said.stdout).contains("b: "),
        "{}",
        text(&said.stdout)
    );
}

/// A program on a terminal of its own, and what it has printed.
struct OnTerminal {
    child: Child,
    terminal: File,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn start(node: &ServerProcess, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
        let side = || File::options().read(true).write(true).open(&name).expect("the other side");
        let mut command = node.client(args);
        command.env("TERM", "xterm").stdin(side()).stdout(side());
        let child = command.spawn().expect("evenkeel starts");
        // The command has the other side: nothing of it is left open here.
        drop(command);
        let terminal = File::from(master);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, sink) = (terminal.try_clone().expect("a clone"), printed.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                sink.lock().expect("no panic").extend_from_slice(&piece[..read]);
            }
        });
        Self { child, terminal, printed }
    }

    fn shown(&self) -> String {
        text(&self.printed.lock().expect("no panic"))
    }

    fn await_text(&self, wanted: &str) {
        until_told(wanted, || self.shown().contains(wanted).then_some(()), || self.shown());
    }

    fn end(mut self) -> (i32, String) {
        let code = until("it ends", || self.child.try_wait().expect("it is ours")).code().unwrap_or(-1);
        until_told(
            "the terminal is given back",
            || self.shown().ends_with(LEAVE).then_some(()),
            || self.shown(),
        );
        (code, self.shown())
    }
}

/// What gives the terminal back.
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";

#[test]
fn top_shows_the_cluster_live_and_gives_the_terminal_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    assert!(node.fed(&["job", "apply", "-f", "-"], JOBS).status.success());
    node.ok(&["job", "run", "long", "--request", "r"]);
    until("it runs", || (node.json(&["run", "running"])["running"] == 1).then_some(()));
    let once = node.ok(&["top"]);
    for part in ["evenkeel ok, 1 of 1 nodes", "NODES 1", "RUNNING 1", "long:ask-r:0", "NEXT", "soon", "in "] {
        assert!(once.contains(part), "{part}: {once}");
    }
    assert!(!once.contains('\u{1b}'), "a pipe gets one picture: {once}");
    let snapshot: Value = node.json(&["top"]);
    assert_eq!(snapshot["running"]["running"], 1, "{snapshot}");

    let mut top = OnTerminal::start(&node, &["top", "--every", "1s"]);
    top.await_text("long:ask-r:0");
    assert!(top.shown().starts_with("\u{1b}[?1049h"), "{}", top.shown());
    node.ok(&["run", "kill", "long:ask-r:0"]);
    top.await_text("RUNNING 0");
    write!(top.terminal, "p").expect("a key");
    top.await_text("paused");
    write!(top.terminal, "q").expect("a key");
    assert_eq!(top.end().0, 0);
    let top = OnTerminal::start(&node, &["top"]);
    top.await_text("NODES 1");
    let killed = std::process::Command::new("kill").arg("-TERM").arg(top.child.id().to_string()).status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(top.end().0, 143);
}
