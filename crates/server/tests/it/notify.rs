//! Whom a living node tells of what happens to it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;

use crate::process::{PATIENCE, ServerProcess, evenkeel, text, until};

/// Answers every request, and hands on what it was sent.
fn listener() -> (String, Receiver<Value>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", socket.local_addr().expect("its address"));
    let (heard, posts) = channel();
    thread::spawn(move || {
        for stream in socket.incoming() {
            let mut reader = BufReader::new(stream.expect("a connection"));
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).expect("a line") > 2 {
                let head = line.to_ascii_lowercase();
                length = head
                    .strip_prefix("content-length:")
                    .map_or(length, |n| n.trim().parse().expect("a number"));
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("the body");
            // Before the answer: a test that has seen the answer's effect finds the request here.
            let wanted = heard.send(serde_json::from_slice(&body).expect("it is JSON")).is_ok();
            let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
            reader.get_mut().write_all(answer).expect("it is answered");
            if !wanted {
                return;
            }
        }
    });
    (url, posts)
}

/// A node whose settings file has these notifiers.
fn node(folder: &Path, notify: &str) -> ServerProcess {
    let path = folder.join("settings.toml");
    fs::write(&path, notify).expect("written");
    ServerProcess::serve(folder, "a", &["--config", &path.display().to_string(), "--alarm", "1"])
}

fn jobs(n: usize) -> String {
    (0..n).map(|n| format!("[[job]]\nname = \"j{n}\"\ncommand = [\"/bin/true\"]\n")).collect()
}

/// proves: S1-26
#[test]
fn the_alarm_is_told_once_by_webhook_and_command_while_another_webhook_hangs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, posts) = listener();
    // Takes connections and never answers.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let told = folder.path().join("told");
    let notify = format!(
        "[[notify]]\non = [\"*\"]\nwebhook = \"http://{}/\"\ntimeout = \"60s\"\n\n\
         [[notify]]\non = [\"alarm\"]\nwebhook = \"{url}\"\ntimeout = \"60s\"\nwindow = \"1h\"\n\n\
         [[notify]]\non = [\"alarm\"]\ncommand = [\"/bin/sh\", \"-c\", \"cat >> {}\"]\ntimeout = \"60s\"\nwindow = \"1h\"\n",
        mute.local_addr().expect("its address"),
        told.display()
    );
    let node = node(folder.path(), &notify);
    for n in 1..=6 {
        assert!(node.fed(&["job", "apply", "-f", "-"], &jobs(n)).status.success());
        until("it is held", || (node.json(&["node", "list"])[0]["held"] == n).then_some(()));
    }
    let said = posts.recv_timeout(PATIENCE).expect("it is told");
    assert_eq!((said["kind"].as_str(), said["node"].as_str()), (Some("alarm"), Some("a")), "{said}");
    assert_eq!(
        (said["facts"]["held"].as_u64(), said["facts"]["alarm"].as_u64()),
        (Some(2), Some(1)),
        "{said}"
    );
    let written =
        until("the command is told", || serde_json::from_str::<Value>(&fs::read_to_string(&told).ok()?).ok());
    assert_eq!(written, said);
    let run = node.json(&["job", "run", "j0"])["run"].as_str().expect("a run").to_owned();
    assert!(node.cli(&["run", "wait", &run]).status.success(), "a webhook that hangs delays no run");
    assert!(posts.try_recv().is_err(), "five alarms within the window are told once");
    node.signal("TERM");
    assert_eq!(node.end(), 0, "nor does it keep the node from ending");
}

#[test]
fn notifiers_that_make_no_sense_are_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("settings.toml");
    for (notify, says) in [
        ("[[notify]]\non = [\"alarms\"]\nwebhook = \"http://h/\"\n", "no event is called \"alarms\""),
        (
            "[[notify]]\non = [\"*\"]\nhook = \"http://h/\"\n",
            "settings.toml:3: unknown key \"hook\" in notify: the keys are name, on, webhook",
        ),
    ] {
        fs::write(&path, notify).expect("written");
        let data = folder.path().join("data").display().to_string();
        let given = ["serve", "--registry", "sqlite:r", "--name", "a", "--data", &data, "--config"];
        let path = path.display().to_string();
        let args = [&given[..], &[path.as_str()]].concat();
        let refused = evenkeel(&args).output().expect("evenkeel starts");
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
    }
}
