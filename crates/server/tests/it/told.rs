//! What becomes of a job's fires is told to whom the job names, once.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use evenkeel::clock;
use evenkeel_core::time::{Millis, Wall};
use serde_json::Value;

use crate::process::{Node, text, until};

/// Answers every request, and hands on what it was sent.
fn listen(socket: TcpListener) -> Receiver<Value> {
    let (heard, posts) = channel();
    thread::spawn(move || {
        for stream in socket.incoming() {
            if heard.send(answered(stream.expect("a connection"))).is_err() {
                return;
            }
        }
    });
    posts
}

fn answered(stream: TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).expect("a line") > 2 {
        let head = line.to_ascii_lowercase();
        length = head.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().expect("a number"));
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    reader.get_mut().write_all(answer).expect("it is answered");
    serde_json::from_slice(&body).expect("it is JSON")
}

fn listener() -> (String, Receiver<Value>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    (url(&socket), listen(socket))
}

fn url(socket: &TcpListener) -> String {
    format!("http://{}/hook", socket.local_addr().expect("its address"))
}

fn next(posts: &Receiver<Value>) -> Value {
    posts.recv_timeout(Duration::from_secs(60)).expect("it is told")
}

/// A node whose settings file has these notifiers.
fn node(folder: &Path, name: &str, notify: &str, more: &[&str]) -> Node {
    let path = folder.join(format!("{name}.toml"));
    fs::write(&path, notify).expect("written");
    Node::serve(folder, name, &[&["--config", &path.display().to_string()], more].concat())
}

fn apply(node: &Node, jobs: &str) {
    let applied = node.fed(&["job", "apply", "-f", "-"], jobs);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
}

fn ran(node: &Node, job: &str) -> Option<i32> {
    let run = node.json(&["job", "run", job])["run"].as_str().expect("a run").to_owned();
    node.cli(&["run", "wait", &run]).status.code()
}

fn events(node: &Node, kind: &str) -> Vec<Value> {
    let events = node.json(&["event", "list", "--kind", kind]);
    events.as_array().expect("a list").clone()
}

#[test]
fn the_last_failure_and_the_recovery_go_to_whom_the_job_names_and_others_to_who_asks() {
    let folder = tempfile::tempdir().expect("a folder");
    let ((oncall, called), (everybody, heard)) = (listener(), listener());
    let notify = format!(
        "[[notify]]\nname = \"oncall\"\nwebhook = \"{oncall}\"\nwindow = \"0s\"\n\n\
         [[notify]]\non = [\"job.failure\"]\nwebhook = \"{everybody}\"\nwindow = \"0s\"\n"
    );
    let node = node(folder.path(), "a", &notify, &[]);
    let mended = folder.path().join("mended").display().to_string();
    apply(
        &node,
        &format!(
            "[[job]]\nname = \"named\"\ncommand = [\"/usr/bin/test\", \"-e\", \"{mended}\"]\n\
             retry = {{ times = 1, wait = \"1s\" }}\nnotify = {{ on = [\"failure\", \"recovery\"], to = [\"oncall\"] }}\n\n\
             [[job]]\nname = \"plain\"\ncommand = [\"/bin/false\"]\n\n\
             [[job]]\nname = \"mute\"\ncommand = [\"/bin/false\"]\nnotify = {{ on = [] }}\n\n\
             [[job]]\nname = \"lost\"\ncommand = [\"/bin/false\"]\nnotify = {{ to = [\"nobody\"] }}\n"
        ),
    );
    assert_ne!(ran(&node, "named"), Some(0));
    let said = next(&called);
    assert_eq!(
        (said["kind"].as_str(), said["subject"].as_str()),
        (Some("job.failure"), Some("named")),
        "{said}"
    );
    assert_eq!(said["facts"]["attempt"], 2, "the first one is not the last: {said}");
    assert!(said["text"].as_str().is_some_and(|text| text.contains("exit code 1")), "{said}");
    fs::write(&mended, "").expect("written");
    assert_eq!(ran(&node, "named"), Some(0));
    assert_eq!(next(&called)["kind"], "job.recovery");
    assert_eq!(ran(&node, "named"), Some(0), "it is well, so nothing is told");

    for job in ["mute", "plain"] {
        assert_ne!(ran(&node, job), Some(0));
    }
    let said = next(&heard);
    assert_eq!(
        (said["kind"].as_str(), said["subject"].as_str()),
        (Some("job.failure"), Some("plain")),
        "{said}"
    );
    assert_ne!(ran(&node, "lost"), Some(0));
    assert_eq!(next(&heard)["subject"], "lost", "who is not known is told instead to who asks");
    let complaint = until("it says so", || events(&node, "notify_failed").pop());
    let complaint = complaint["text"].as_str().expect("a text");
    assert!(complaint.contains("write name = \"nobody\" in a [[notify]] of its settings"), "{complaint}");
    assert!(called.try_recv().is_err() && heard.try_recv().is_err(), "nothing else is told");
    let told: Vec<_> =
        events(&node, "job.failure").into_iter().map(|event| event["text"].to_string()).collect();
    assert_eq!(told.len(), 3, "{told:?}");
}

#[test]
fn what_was_not_told_when_the_node_was_killed_is_told_in_its_next_life() {
    let folder = tempfile::tempdir().expect("a folder");
    // Takes connections and never answers.
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let notify =
        format!("[[notify]]\non = [\"job.failure\"]\nwebhook = \"{}\"\ntimeout = \"60s\"\n", url(&socket));
    let first = node(folder.path(), "a", &notify, &[]);
    apply(&first, "[[job]]\nname = \"j\"\ncommand = [\"/bin/false\"]\n");
    assert_ne!(ran(&first, "j"), Some(0));
    let id = {
        let (mute, _) = socket.accept().expect("it tries to tell");
        first.signal("KILL");
        drop(mute);
        first.end()
    };
    assert_eq!(id, -1, "it was killed");
    let posts = listen(socket);
    let second = node(folder.path(), "a", &notify, &[]);
    let said = next(&posts);
    assert_eq!((said["kind"].as_str(), said["subject"].as_str()), (Some("job.failure"), Some("j")), "{said}");
    assert_eq!(events(&second, "job.failure").len(), 1, "it is one failure");
    second.signal("TERM");
    assert_eq!(second.end(), 0);
    let third = node(folder.path(), "a", &notify, &[]);
    assert_ne!(ran(&third, "j"), Some(0));
    assert_ne!(next(&posts)["run"], said["run"], "what was told is not told again");
}

#[test]
fn a_fire_that_nobody_starts_is_told_to_be_late_and_then_absent_once_by_two_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, posts) = listener();
    let notify = format!("[[notify]]\nname = \"oncall\"\nwebhook = \"{url}\"\n");
    let serve = |name: &str| {
        let history = format!("sqlite:{}", folder.path().join(format!("{name}-history")).display());
        node(folder.path(), name, &notify, &["--slots", "1", "--history", &history])
    };
    let nodes = [serve("a"), serve("b")];
    // Each node is busy with one of these.
    let hogs: String = (0..2)
        .map(|n| {
            format!(
                "[[job]]\nname = \"hog{n}\"\nplacement = \"dispatched\"\ncommand = [\"/bin/sleep\", \"600\"]\n\n"
            )
        })
        .collect();
    apply(&nodes[0], &hogs);
    for hog in ["hog0", "hog1"] {
        nodes[0].ok(&["job", "run", hog]);
    }
    until("both are busy", || {
        let runs = nodes[0].json(&["run", "list", "--state", "running"]);
        (runs.as_array()?.len() == 2).then_some(())
    });
    let due = moment(4_000);
    apply(
        &nodes[1],
        &format!(
            "[[job]]\nname = \"starved\"\nschedule = \"at {due}\"\ncommand = [\"/bin/true\"]\n\
             notify = {{ to = [\"oncall\"], late_after = \"1s\", absent_after = \"3s\" }}\n"
        ),
    );
    let (late, absent) = (next(&posts), next(&posts));
    assert_eq!((late["kind"].as_str(), absent["kind"].as_str()), (Some("job.late"), Some("job.absent")));
    for said in [&late, &absent] {
        assert_eq!(
            (said["subject"].as_str(), said["due"].as_str()),
            (Some("starved"), Some(due.as_str())),
            "{said}"
        );
        assert!(said["text"].as_str().is_some_and(|text| text.contains("has it a free slot?")), "{said}");
        assert_eq!(said["node"], "a", "the first by name watches");
    }
    // The watching node goes, and the other one takes over: what was told stays told.
    let [a, b] = nodes;
    a.signal("KILL");
    a.end();
    until("b is alone", || (b.json(&["node", "list"]).as_array()?.len() == 1).then_some(()));
    let second = moment(4_000);
    apply(
        &b,
        &format!(
            "[[job]]\nname = \"other\"\nschedule = \"at {second}\"\ncommand = [\"/bin/true\"]\n\
             notify = {{ on = [\"absent\"], to = [\"oncall\"], absent_after = \"2s\" }}\n"
        ),
    );
    let said = next(&posts);
    assert_eq!((said["subject"].as_str(), said["node"].as_str()), (Some("other"), Some("b")), "{said}");
    assert!(posts.try_recv().is_err(), "nothing is told twice");
}

#[test]
fn a_fire_that_came_while_there_was_no_node_is_told_by_the_first_that_is_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, posts) = listener();
    let notify = format!("[[notify]]\non = [\"job.late\", \"job.miss\"]\nwebhook = \"{url}\"\n");
    let first = node(folder.path(), "a", &notify, &[]);
    let due = moment(3_000);
    let over = clock::now().wall + Millis::secs(6);
    apply(
        &first,
        &format!(
            "[[job]]\nname = \"made-up\"\nschedule = \"at {due}\"\ncommand = [\"/bin/true\"]\n\
             notify = {{ late_after = \"1s\" }}\n\n\
             [[job]]\nname = \"given-up\"\nschedule = \"at {due}\"\ncommand = [\"/bin/true\"]\ngrace = 0\ncatch_up = \"skip\"\n"
        ),
    );
    first.signal("KILL");
    first.end();
    until("the moment is over", || (clock::now().wall > over).then_some(()));
    let second = node(folder.path(), "a", &notify, &[]);
    let mut said = [next(&posts), next(&posts)];
    said.sort_by_key(|said| said["kind"].to_string());
    assert_eq!(
        (said[0]["kind"].as_str(), said[0]["subject"].as_str()),
        (Some("job.late"), Some("made-up")),
        "{said:?}"
    );
    assert_eq!(
        (said[1]["kind"].as_str(), said[1]["subject"].as_str()),
        (Some("job.miss"), Some("given-up")),
        "{said:?}"
    );
    assert!(said[1]["text"].as_str().is_some_and(|text| text.contains("older than the grace")), "{said:?}");
    until("it was made up", || {
        let runs = second.json(&["run", "list", "--job", "made-up", "--state", "succeeded"]);
        (runs.as_array()?.len() == 1).then_some(())
    });
}

/// A whole second so many milliseconds from now, or a little later, as RFC 3339.
fn moment(ahead: i64) -> String {
    let at = clock::now().wall.0 + ahead;
    Wall((at / 1000 + 1) * 1000).to_string()
}
