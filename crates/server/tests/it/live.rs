//! The console's stream: one document, then what changes in it, and a stream that goes on where an earlier one broke off.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::process::{PATIENCE, ServerProcess, own_key_line, until};

/// An event of the stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveEvent {
    kind: String,
    id: String,
    data: String,
}

/// A reader of the stream, and the document as of the last event.
pub(crate) struct LiveStream {
    stream: BufReader<TcpStream>,
    last: Option<LiveEvent>,
    document: Value,
}

impl LiveStream {
    /// A reader of all, by the key that the nodes of all tests share.
    pub(crate) fn of(node: &ServerProcess) -> Self {
        Self::open(node, "", &own_key_line())
    }

    /// A reader with this query, and with these further lines of its request's head.
    fn open(node: &ServerProcess, query: &str, head: &str) -> Self {
        let mut stream = TcpStream::connect(node.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        write!(stream, "GET /api/v1/live?{query} HTTP/1.1\r\nHost: {}\r\n{head}\r\n\r\n", node.address)
            .expect("it reads");
        Self { stream: BufReader::new(stream), last: None, document: Value::Null }
    }

    /// A reader that goes on after this event, from this document on.
    fn resume(node: &ServerProcess, event_id: &str, document: &Value) -> Self {
        let head = format!("{}\r\nLast-Event-ID: {event_id}", own_key_line());
        Self { document: document.clone(), ..Self::open(node, "", &head) }
    }

    /// The document after the next event.
    pub(crate) fn next(&mut self) -> &Value {
        self.event();
        &self.document
    }

    /// The next event, which the document then has.
    fn event(&mut self) -> LiveEvent {
        let event = self.read().expect("an event");
        let data = serde_json::from_str(&event.data).expect("it is JSON");
        match event.kind.as_str() {
            "snapshot" => self.document = data,
            "patch" => json_patch::merge(&mut self.document, &data),
            other => panic!("{other}"),
        }
        self.last = Some(event.clone());
        event
    }

    fn read(&mut self) -> std::io::Result<LiveEvent> {
        let mut event = LiveEvent { kind: String::new(), id: String::new(), data: String::new() };
        loop {
            let mut line = String::new();
            assert!(self.stream.read_line(&mut line)? > 0, "the stream ended");
            let line = line.trim_end();
            match line.split_once(": ") {
                Some(("event", kind)) => event.kind = kind.to_owned(),
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("data", data)) => event.data = data.to_owned(),
                _ if line.is_empty() && !event.data.is_empty() => return Ok(event),
                _ => {}
            }
        }
    }

    fn last_id(&self) -> &str {
        self.last.as_ref().map_or("", |event| &event.id)
    }

    /// Reads on up to this event; returns all that it read.
    fn read_to(&mut self, id: &str) -> Vec<LiveEvent> {
        let mut read = Vec::new();
        while self.last_id() != id {
            read.push(self.event());
        }
        read
    }

    /// Reads on until a job is paused in the document; returns all that it read.
    fn read_to_pause(&mut self, job: &str) -> Vec<LiveEvent> {
        let mut read = Vec::new();
        while self.document["jobs"][job]["paused"] != true {
            read.push(self.event());
        }
        read
    }
}

/// A node that owns this many jobs, `job-0` and so on.
fn node_with_jobs(folder: &std::path::Path, jobs: usize) -> ServerProcess {
    let node = ServerProcess::serve(folder, "a", &[]);
    let declare =
        |n| format!("[[job]]\nname = \"job-{n}\"\nschedule = \"0 3 * * *\"\ncommand = [\"true\"]\n");
    let jobs: String = (0..jobs).map(declare).collect();
    assert!(node.fed(&["job", "apply", "-f", "-"], &jobs).status.success());
    until("it owns them", || {
        let jobs = node.json(&["job", "list"]);
        jobs.as_array()?.iter().all(|job| job["owner"] == "a").then_some(())
    });
    node
}

#[test]
fn the_whole_document_comes_first_and_then_a_small_patch_for_each_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node_with_jobs(folder.path(), 40);
    let mut live = LiveStream::of(&node);
    let whole = live.event();
    assert_eq!(
        (whole.kind.as_str(), live.document["jobs"].as_object().map(|jobs| jobs.len())),
        ("snapshot", Some(40))
    );
    assert!(!whole.data.contains("null"), "a patch could not say it: {}", whole.data);
    let (_, seq) = whole.id.rsplit_once('-').expect("a feed and a position");
    let mut seq: u64 = seq.parse().expect("a number");
    node.ok(&["job", "pause", "job-7"]);
    for patch in live.read_to_pause("job-7") {
        seq += 1;
        assert_eq!(patch.kind, "patch");
        assert!(patch.id.ends_with(&format!("-{seq}")), "{} is not {seq}", patch.id);
        assert!(patch.data.len() * 5 < whole.data.len(), "{} for {}", patch.data.len(), whole.data.len());
        assert!(!patch.data.contains("job-8"), "{}", patch.data);
    }
}

#[test]
fn a_stream_that_goes_on_gets_exactly_what_it_missed_and_has_the_same_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node_with_jobs(folder.path(), 4);
    let mut live = LiveStream::of(&node);
    live.event();
    let (left, document) = (live.last_id().to_owned(), live.document.clone());
    let mut missed = Vec::new();
    for job in ["job-0", "job-1", "job-2"] {
        node.ok(&["job", "pause", job]);
        missed.extend(live.read_to_pause(job));
    }
    assert!(missed.len() >= 3, "{missed:?}");

    let mut resumed = LiveStream::resume(&node, &left, &document);
    assert_eq!(resumed.read_to(live.last_id()), missed);
    assert_eq!(resumed.document, live.document);
    let mut by_query = LiveStream::open(&node, &format!("last_event_id={left}"), &own_key_line());
    by_query.document = document;
    assert_eq!(by_query.read_to(live.last_id()), missed);

    // A caller that has everything is sent what comes next.
    let mut current = LiveStream::resume(&node, live.last_id(), &live.document);
    node.ok(&["job", "pause", "job-3"]);
    assert!(current.read_to_pause("job-3").iter().all(|event| event.kind == "patch"));
    let mut whole = LiveStream::of(&node);
    whole.event();
    live.read_to(whole.last_id());
    assert_eq!(live.document, whole.document);
}

#[test]
fn an_id_that_the_node_does_not_know_gets_the_whole_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node_with_jobs(folder.path(), 1);
    let mut live = LiveStream::of(&node);
    let known = live.event().id;
    let mut of_default = LiveStream::open(&node, "namespace=default", &own_key_line());
    let elsewhere = of_default.event().id;
    let (feed, seq) = known.rsplit_once('-').expect("a feed and a position");
    let later = format!("{feed}-{}", seq.parse::<u64>().expect("a number") + 1_000);
    for id in ["", "x", "7", "-1", "no-feed-1", &elsewhere, &later, &format!("{feed}-0"), &"9".repeat(400)] {
        assert_eq!(LiveStream::resume(&node, id, &Value::Null).event().kind, "snapshot", "{id}");
    }
    let mut same = LiveStream::of(&node);
    assert!(same.event().id.starts_with(feed), "one feed for all its viewers");
}

#[test]
fn a_stream_of_a_namespace_has_nothing_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node_with_jobs(folder.path(), 1);
    node.ok(&["namespace", "create", "team-a"]);
    node.ok(&["namespace", "create", "team-b"]);
    let key = own_key_line();
    let mut of_a = LiveStream::open(&node, "namespace=team-a", &key);
    let mut of_b = LiveStream::open(&node, "namespace=team-b", &key);
    // It sees one namespace only, and needs not name it.
    let token = node.json(&["token", "create", "t", "--role", "viewer:team-b"]);
    let head = format!("Authorization: Bearer {}", token["token"].as_str().expect("a token"));
    let mut by_token = LiveStream::open(&node, "", &head);
    for live in [&mut of_a, &mut of_b, &mut by_token] {
        assert_eq!(live.next()["jobs"], serde_json::json!({}));
    }
    let declare = |name: &str| format!("[[job]]\nname = \"{name}\"\ncommand = [\"true\"]\n");
    for (namespace, job) in [("team-a", "secret-a"), ("team-b", "seen-b")] {
        assert!(node.fed(&["-n", namespace, "job", "apply", "-f", "-"], &declare(job)).status.success());
        node.ok(&["-n", namespace, "job", "run", job]);
    }
    for live in [&mut of_b, &mut by_token] {
        until("its run is in the document", || {
            let document = live.next().to_string();
            assert!(!document.contains("secret-a") && !document.contains("job-0"), "{document}");
            document.contains("succeeded").then_some(())
        });
    }
    until("its run is in the document", || of_a.next().to_string().contains("succeeded").then_some(()));
    assert!(!of_a.document.to_string().contains("seen-b"));
}

#[test]
fn nothing_is_sent_while_nothing_happens() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node_with_jobs(folder.path(), 3);
    let mut live = LiveStream::of(&node);
    live.event();
    // A node looks again every two seconds, and publishes its load once a minute.
    live.stream.get_ref().set_read_timeout(Some(Duration::from_secs(7))).expect("a timeout");
    let next = |_| live.read().inspect_err(|error| assert_eq!(error.kind(), ErrorKind::WouldBlock)).ok();
    let events: Vec<_> = (0..10).map_while(next).collect();
    assert!(events.len() < 10, "{events:?}");
}
