//! Notifiers against a real listener and real programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use evenkeel_core::effect::{Event, event_kinds};
use evenkeel_core::time::{Millis, Mono, Wall};
use serde_json::Value;
use tokio::sync::mpsc;

use super::*;
use crate::clock;
use crate::history::{EventFilter, EventRecord, History, HistoryLocation, HistoryReader};
use crate::retention::Retention;

/// The bound of every wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// A listener that answers each request with the next of these statuses, then with 200; the requests come out here.
fn listener(statuses: &[u16]) -> (String, Receiver<Value>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", socket.local_addr().unwrap());
    let (heard, posts) = channel();
    let statuses = statuses.to_vec();
    thread::spawn(move || {
        let mut statuses = statuses.into_iter();
        for stream in socket.incoming() {
            let mut stream = stream.unwrap();
            let body = read(&stream);
            // Before the answer: a test that has seen the answer's effect finds the request here.
            let wanted = heard.send(body).is_ok();
            let status = statuses.next().unwrap_or(200);
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            if !wanted {
                return;
            }
        }
    });
    (url, posts)
}

fn read(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut json) = (String::new(), 0, false);
    while reader.read_line(&mut line).unwrap() > 2 {
        let head = line.to_ascii_lowercase();
        length = head.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
        json |= head.trim() == "content-type: application/json";
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    assert!(json, "it says that it is JSON");
    serde_json::from_slice(&body).unwrap()
}

fn next(posts: &Receiver<Value>) -> Value {
    posts.recv_timeout(PATIENCE).unwrap()
}

fn webhook(on: &[&str], url: &str) -> Notifier {
    made(on, NotifyChannel::Webhook(Box::new(Webhook::plain(url.to_owned()).unwrap())))
}

fn made(on: &[&str], means: NotifyChannel) -> Notifier {
    let mut notifier = Notifier::new(on.iter().map(ToString::to_string).collect(), means).unwrap();
    notifier.pauses = [Duration::from_millis(60), Duration::from_millis(120)];
    notifier.timeout = Duration::from_secs(60);
    notifier
}

/// Notifiers of node `a`, and the history in which they report failures.
struct NotifierFixture {
    _folder: tempfile::TempDir,
    history: History,
    reader: HistoryReader,
    notifiers: Notifiers,
}

impl NotifierFixture {
    async fn new(all: Vec<Notifier>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (told, _) = mpsc::unbounded_channel();
        let place = HistoryLocation::File(folder.path().join("history"));
        let opened = History::open(place, "a", Retention::default(), told, std::sync::Arc::default());
        let (history, reader) = opened.await.unwrap();
        let notifiers = Notifiers::start(all, "a", &history.weak()).unwrap();
        Self { _folder: folder, history, reader, notifiers }
    }

    fn notify(&mut self, at: i64, event: &Event) {
        let now = Now { mono: Mono(at), wall: Wall(at) };
        self.notifiers.notify(now, "a", &event.report());
    }

    async fn failure_event(&self) -> EventRecord {
        self.failure_event_of("").await
    }

    /// The first failure event whose text contains this.
    async fn failure_event_of(&self, what: &str) -> EventRecord {
        let until = clock::now().mono + Millis(PATIENCE.as_millis() as i64);
        loop {
            let found = self.reader.events(EventFilter::default()).await.unwrap();
            let is_it = |event: &EventRecord| event.kind == "notify_failed" && event.text.contains(what);
            if let Some(found) = found.into_iter().find(is_it) {
                return found;
            }
            assert!(clock::now().mono < until, "nobody complains");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

const ALARM: Event = Event::Alarm { held: 11, alarm: 10 };

/// proves: S1-26
#[tokio::test]
async fn a_webhook_hears_what_it_asked_for_with_the_numbers_of_an_alarm() {
    let (url, posts) = listener(&[]);
    let mut telling = NotifierFixture::new(vec![webhook(&["alarm"], &url)]).await;
    telling.notify(1_000, &Event::Joined);
    telling.notify(2_000, &ALARM);
    let said = next(&posts);
    let wanted = serde_json::json!({
        "kind": "alarm", "subject": "a", "node": "a", "at": "1970-01-01T00:00:02.000Z",
        "text": "alarm: holds 11 jobs, threshold is 10", "suppressed": 0, "facts": { "held": 11, "alarm": 10 },
    });
    assert_eq!(said, wanted);
    telling.notifiers.close(PATIENCE).await;
    assert!(posts.try_recv().is_err(), "it did not ask to hear of a node that joined");
    telling.history.close(PATIENCE).await;
}

#[tokio::test]
async fn within_the_window_the_same_is_told_once_and_counted_with_the_next() {
    let (url, posts) = listener(&[]);
    let mut notifier = webhook(&["*"], &url);
    notifier.window = Duration::from_secs(60);
    let mut telling = NotifierFixture::new(vec![notifier]).await;
    for at in [0, 10, 20, 59_999, 60_000] {
        telling.notify(at, &ALARM);
    }
    telling.notify(60_001, &Event::Elected("j".parse().unwrap()));
    telling.notify(60_002, &Event::Elected("k".parse().unwrap()));
    telling.notifiers.close(PATIENCE).await;
    let told: Vec<(String, u64)> = posts
        .try_iter()
        .map(|said| (said["subject"].as_str().unwrap().into(), said["suppressed"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [("a".into(), 0), ("a".into(), 3), ("j".into(), 0), ("k".into(), 0)]);
}

#[tokio::test]
async fn what_fails_is_tried_again_a_few_times_and_then_said() {
    let (url, posts) = listener(&[500, 503, 204, 500, 500, 500]);
    let mut telling = NotifierFixture::new(vec![webhook(&["*"], &url)]).await;
    telling.notify(0, &Event::Joined);
    for _ in 0..3 {
        assert_eq!(next(&posts)["kind"], "joined");
    }
    telling.notify(1, &Event::Drained);
    let complaint = telling.failure_event().await;
    let host = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/hook")).unwrap();
    let wanted = format!("webhook {host} did not get drained of a: it answers with status 500");
    assert_eq!((complaint.node.as_str(), complaint.text), ("a", wanted));
    assert_eq!(posts.try_iter().count(), 3, "no fourth try");
}

#[tokio::test]
async fn a_command_gets_the_event_on_its_input_and_in_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let (input, names) = (folder.path().join("input"), folder.path().join("names"));
    let script = format!(
        "cat > {}; echo \"$EVENKEEL_EVENT_KIND $EVENKEEL_EVENT_NODE $EVENKEEL_EVENT_HELD $EVENKEEL_EVENT_SUPPRESSED $1\" > {}",
        input.display(),
        names.display()
    );
    let argv = ["/bin/sh", "-c", &script, "sh", "it is"].map(ToOwned::to_owned).to_vec();
    let mut telling = NotifierFixture::new(vec![made(&["alarm"], NotifyChannel::Command(argv))]).await;
    telling.notify(5_000, &ALARM);
    telling.notifiers.close(PATIENCE).await;
    let said: Value = serde_json::from_slice(&std::fs::read(input).unwrap()).unwrap();
    assert_eq!((&said["kind"], &said["facts"]["held"]), (&"alarm".into(), &11.into()));
    assert_eq!(std::fs::read_to_string(names).unwrap(), "alarm a 11 0 it is\n");
}

#[tokio::test]
async fn a_command_that_hangs_is_ended_with_all_it_started() {
    let folder = tempfile::tempdir().unwrap();
    // If the machine stalls, the timeout can end before the command starts; the next timeout is longer.
    let mut begun = None;
    for secs in [1, 4, 16, 64] {
        let pid = folder.path().join(format!("pid-{secs}"));
        let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", pid.display());
        let argv = ["/bin/sh", "-c", &script].map(ToOwned::to_owned).to_vec();
        let mut notifier = made(&["*"], NotifyChannel::Command(argv));
        notifier.timeout = Duration::from_secs(secs);
        let mut telling = NotifierFixture::new(vec![notifier]).await;
        telling.notify(0, &Event::Joined);
        let complaint = telling.failure_event().await;
        assert!(complaint.text.contains(&format!("it did not end within {secs}s")), "{}", complaint.text);
        begun = std::fs::read_to_string(pid).ok();
        if begun.is_some() {
            break;
        }
    }
    let pid = begun.expect("the command begins");
    let gone = |state: String| state.split(") ").nth(1).is_none_or(|rest| rest.starts_with('Z'));
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // It was killed, and dies when it gets to run.
    for _ in 0..PATIENCE.as_millis() / 10 {
        if stat().map_or(true, gone) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it lives: {:?}", stat());
}

/// Takes connections and never answers.
fn mute() -> (TcpListener, String) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", socket.local_addr().unwrap());
    (socket, url)
}

#[tokio::test]
async fn a_webhook_that_hangs_delays_neither_the_driver_nor_another_notifier() {
    let (hangs, hangs_for_ever, (url, posts)) = (mute(), mute(), listener(&[]));
    // A test that waits for one of them waits for an hour, and the test runner ends the test.
    let hanging = [&hangs.1, &hangs_for_ever.1].map(|url| {
        let mut slow = webhook(&["*"], url);
        slow.timeout = Duration::from_secs(3_600);
        slow
    });
    let all = hanging.into_iter().chain([webhook(&["joined"], &url)]);
    let mut telling = NotifierFixture::new(all.collect()).await;
    for n in 0..5_000 {
        let job = format!("j{n}").parse().unwrap();
        telling.notify(n, &Event::Elected(job));
    }
    telling.notify(5_000, &Event::Joined);
    assert_eq!(next(&posts)["kind"], "joined");
    // More came than may wait: that is reported too, in one sentence, once one of them hangs no more.
    drop(hangs);
    telling.failure_event_of("events: too many waited").await;
    // The other one does not delay the end either.
    telling.notifiers.close(Duration::from_millis(200)).await;
}

#[test]
fn nonsense_is_refused_with_the_fix() {
    let hook = |url: &str| NotifyChannel::Webhook(Box::new(Webhook::plain(url.to_owned()).unwrap()));
    let refused =
        |on: &[&str], means| Notifier::new(on.iter().map(ToString::to_string).collect(), means).unwrap_err();
    assert!(refused(&[], hook("http://h/")).contains("on = [\"*\"]"));
    assert!(refused(&["alarms"], hook("http://h/")).contains("no event is called \"alarms\""));
    assert!(Notifier::new(vec!["*".into()], hook("https://h/x")).is_ok());
    for url in ["ftp://h/a-secret", "h:80/a-secret", "a-secret"] {
        let refused = Webhook::plain(url.to_owned()).unwrap_err();
        assert!(refused.contains("http://HOST:PORT/PATH") && !refused.contains("a-secret"), "{refused}");
    }
    assert!(refused(&["*"], NotifyChannel::Command(vec![])).contains("the command is empty"));
    let dotted = Notifier::new(vec!["lease.lost".into()], hook("http://h/")).unwrap();
    assert!(dotted.wants("lease_lost") && !dotted.wants("alarm"));
}

/// Every kind of the table can be wanted, but for the one that is only listed.
#[test]
fn a_notifier_takes_every_kind_that_is_sent_and_no_other() {
    let hook = || NotifyChannel::Webhook(Box::new(Webhook::plain("http://h/".to_owned()).unwrap()));
    for kind in event_kinds() {
        let of_it = Notifier::new(vec![kind.name.to_owned()], hook());
        assert_eq!(of_it.is_ok(), kind.notified, "{kind:?}");
        if let Ok(of_it) = of_it {
            let wanted = event_kinds().filter(|other| of_it.wants(other.name));
            assert_eq!(wanted.collect::<Vec<_>>(), [kind]);
        }
    }
    let refused = Notifier::new(vec!["notify_failed".to_owned()], hook()).unwrap_err();
    assert!(
        refused.contains("joined, upgraded, ") && refused.ends_with(", job.absent, job.lost"),
        "{refused}"
    );
}

mod email;
mod https;
mod shapes;
