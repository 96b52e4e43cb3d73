//! What becomes of a job's fires is told to whom the job names, once.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use evenkeel::clock;
use evenkeel_core::time::Wall;
use serde_json::Value;

use crate::process::{PATIENCE, SHORT_LEASE, ServerProcess, text, until};

/// Answers every request, and hands on what it was sent.
fn listen(socket: TcpListener) -> Receiver<Value> {
    let (heard, posts) = channel();
    thread::spawn(move || {
        for stream in socket.incoming() {
            let mut stream = stream.expect("a connection");
            // Before the answer: a test that has seen the answer's effect finds the request here.
            let wanted = heard.send(received(&stream)).is_ok();
            stream
                .write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
                .expect("it is answered");
            if !wanted {
                return;
            }
        }
    });
    posts
}

fn received(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).expect("a line") > 2 {
        let head = line.to_ascii_lowercase();
        length = head.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().expect("a number"));
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
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
    posts.recv_timeout(PATIENCE).expect("it is told")
}

/// A node whose settings file has these notifiers.
fn node(folder: &Path, name: &str, notify: &str, more: &[&str]) -> ServerProcess {
    let path = folder.join(format!("{name}.toml"));
    fs::write(&path, notify).expect("written");
    ServerProcess::serve(folder, name, &[&["--config", &path.display().to_string()], more].concat())
}

fn apply(node: &ServerProcess, jobs: &str) {
    let applied = node.fed(&["job", "apply", "-f", "-"], jobs);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
}

fn ran(node: &ServerProcess, job: &str) -> Option<i32> {
    let run = node.json(&["job", "run", job])["run"].as_str().expect("a run").to_owned();
    node.cli(&["run", "wait", &run]).status.code()
}

fn events(node: &ServerProcess, kind: &str) -> Vec<Value> {
    let events = node.json(&["event", "list", "--kind", kind]);
    events.as_array().expect("a list").clone()
}

#[test]
fn the_last_failure_and_the_recovery_go_to_whom_the_job_names_and_others_to_who_asks() {
    let folder = tempfile::tempdir().expect("a folder");
    let ((oncall, called), (everybody, heard)) = (listener(), listener());
    let notify = format!(
        "[[notify]]\nname = \"oncall\"\nwebhook = \"{oncall}\"\ntimeout = \"60s\"\nwindow = \"0s\"\n\n\
         [[notify]]\non = [\"job.failure\"]\nwebhook = \"{everybody}\"\ntimeout = \"60s\"\nwindow = \"0s\"\n"
    );
    let node = node(folder.path(), "a", &notify, &[]);
    let mended = folder.path().join("mended").display().to_string();
    apply(
        &node,
        &format!(
            "[[job]]\nname = \"named\"\ncommand = [\"/usr/bin/test\", \"-e\", \"{mended}\"]\n\
             retry = {{ max_retries = 1, delay = \"1s\" }}\nnotify = {{ on = [\"failure\", \"recovery\"], to = [\"oncall\"] }}\n\n\
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

/// A node ends politely: it takes nothing more, and goes when its run is ended.
fn leave(node: ServerProcess, other: &ServerProcess) {
    let runs = other.json(&["run", "list", "--state", "running"]);
    let own = runs.as_array().into_iter().flatten().find(|run| run["node"] == "a");
    let own = own.and_then(|run| run["run"].as_str()).expect("it runs something").to_owned();
    node.signal("TERM");
    until("it hands over", || {
        let (status, _) = node.raw(&format!("GET /api/v1/ready HTTP/1.1\nHost: {}", node.address), b"");
        (status == 503).then_some(())
    });
    other.ok(&["run", "kill", &own]);
    assert_eq!(node.end(), 0);
}

fn kill(node: ServerProcess, _: &ServerProcess) {
    node.signal("KILL");
    node.end();
}

#[test]
fn a_fire_that_nobody_starts_is_told_to_be_late_and_then_absent_once_by_two_nodes() {
    tell_of_a_fire_that_nobody_starts(leave, &[]);
}

#[test]
#[ignore = "soak: it waits for the end of a killed node's lease"]
fn a_fire_that_nobody_starts_is_told_once_though_the_node_that_told_it_is_killed() {
    tell_of_a_fire_that_nobody_starts(kill, &SHORT_LEASE);
}

fn tell_of_a_fire_that_nobody_starts(end: fn(ServerProcess, &ServerProcess), lease: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, posts) = listener();
    let notify = format!("[[notify]]\nname = \"oncall\"\nwebhook = \"{url}\"\ntimeout = \"60s\"\n");
    let serve = |name: &str| {
        let history = format!("sqlite:{}", folder.path().join(format!("{name}-history")).display());
        let more = [&["--slots", "1", "--history", &history][..], lease].concat();
        node(folder.path(), name, &notify, &more)
    };
    let nodes = [serve("a"), serve("b")];
    // Each node is busy with one of these.
    let hogs: String = (0..2)
        .map(|n| {
            format!(
                "[[job]]\nname = \"hog{n}\"\nplacement = \"dispatched\"\ncommand = [\"/bin/sleep\", \"3600\"]\n\n"
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
    let starved = apply_ahead(
        &nodes[1],
        "starved",
        "notify = { to = [\"oncall\"], late_after = \"1s\", absent_after = \"2s\" }",
    );
    let [late, absent] = [(); 2].map(|()| next_of(&posts, &starved.job));
    assert_eq!((late["kind"].as_str(), absent["kind"].as_str()), (Some("job.late"), Some("job.absent")));
    for said in [&late, &absent] {
        assert_eq!(said["due"], *starved.due, "{said}");
        assert!(said["text"].as_str().is_some_and(|text| text.contains("has it a free slot?")), "{said}");
        assert_eq!(said["node"], "a", "the first by name watches");
    }
    // The watching node goes, and the other one takes over: what was told stays told.
    let [a, b] = nodes;
    end(a, &b);
    until("b is alone", || (b.living().len() == 1).then_some(()));
    let other =
        apply_ahead(&b, "other", "notify = { on = [\"absent\"], to = [\"oncall\"], absent_after = \"1s\" }");
    let said = next(&posts);
    assert!(
        said["subject"].as_str().is_some_and(|job| job.starts_with("other")),
        "the first job has a second notice: {said}"
    );
    assert_eq!(said["node"], "b", "{said}");
    if said["subject"] != *other.job {
        next_of(&posts, &other.job);
    }
    assert!(posts.try_recv().is_err(), "nothing is told twice");
}

/// A job that fires once, and the moment of its fire.
struct OneShotJob {
    job: String,
    due: String,
}

/// Declares a job that fires once, a few seconds later, and is known before that. On a machine that stood still meanwhile
/// another job is declared, further ahead.
fn apply_ahead(node: &ServerProcess, name: &str, lines: &str) -> OneShotJob {
    for attempt in 0..6 {
        let once = OneShotJob { job: format!("{name}-{attempt}"), due: moment(2_000 << attempt) };
        let job = format!(
            "[[job]]\nname = \"{}\"\nschedule = \"at {}\"\ncommand = [\"/bin/true\"]\n{lines}\n",
            once.job, once.due
        );
        let applied = node.fed(&["job", "apply", "-f", "-"], &job);
        if !is_over(&once.due) {
            assert!(applied.status.success(), "{}", text(&applied.stderr));
            return once;
        }
        node.cli(&["job", "delete", &once.job]);
    }
    panic!("no declaration of {name} was known before its moment");
}

/// The next notice about this job.
fn next_of(posts: &Receiver<Value>, job: &str) -> Value {
    loop {
        let said = next(posts);
        if said["subject"] == job {
            return said;
        }
    }
}

#[test]
fn a_fire_that_came_while_there_was_no_node_is_told_by_the_first_that_is_back() {
    // On a machine that stood still the node may see the fire before it is killed: that is begun again.
    let is_told = (0..6).any(|attempt| is_told_by_the_first_that_is_back(2_000 << attempt));
    assert!(is_told, "no node was killed before its job came due");
}

/// `false` where the node was killed only after the moment that lies so many milliseconds ahead.
fn is_told_by_the_first_that_is_back(ahead: i64) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, posts) = listener();
    let notify =
        format!("[[notify]]\non = [\"job.late\", \"job.miss\"]\nwebhook = \"{url}\"\ntimeout = \"60s\"\n");
    let first = node(folder.path(), "a", &notify, &[]);
    let due = moment(ahead);
    let jobs = format!(
        "[[job]]\nname = \"made-up\"\nschedule = \"at {due}\"\ncommand = [\"/bin/true\"]\n\
         notify = {{ late_after = \"1s\" }}\n\n\
         [[job]]\nname = \"given-up\"\nschedule = \"at {due}\"\ncommand = [\"/bin/true\"]\nmisfire_grace = \"0s\"\ncatch_up = \"skip\"\n"
    );
    let applied = first.fed(&["job", "apply", "-f", "-"], &jobs);
    first.signal("KILL");
    first.end();
    // It claims a fire up to a second ahead.
    if wall() > parsed(&due) - 1_000 {
        return false;
    }
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    until("the moment and the second after it are over", || (wall() > parsed(&due) + 1_500).then_some(()));
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
    true
}

/// A whole second so many milliseconds from now, or a little later, as RFC 3339.
fn moment(ahead: i64) -> String {
    Wall(((wall() + ahead) / 1000 + 1) * 1000).to_string()
}

fn wall() -> i64 {
    clock::now().wall.0
}

fn parsed(moment: &str) -> i64 {
    moment.parse::<jiff::Timestamp>().expect("a moment").as_millisecond()
}

fn is_over(moment: &str) -> bool {
    wall() >= parsed(moment)
}
