//! Laws 2 and 4 without a node: when a request may not start, and when it is dropped.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};

use evenkeel_core::ids::Token;
use evenkeel_core::job::{LaunchSettings, Priority, RunParameters};
use evenkeel_core::time::Wall;

use super::*;
use crate::trace::ids::TraceIds;

fn run(address: SocketAddr, not_after: Mono) -> (Run, Box<Http>) {
    let http = Box::new(Http::new(&format!("http://{address}/")));
    let run = Run {
        id: "j:1000:0".parse().unwrap(),
        due: Wall(1000),
        priority: Priority::default(),
        again: None,
        shards: 1,
        parameter: String::new(),
        job_parameter: String::new(),
        parameters: RunParameters::default(),
        attempt: 1,
        token: Token::default(),
        sent: String::new(),
        work: evenkeel_core::job::Work::Http(http.clone()),
        shadow: false,
        setting: Box::new(LaunchSettings::default()),
        timeout: None,
        retry: None,
        not_after,
    };
    (run, http)
}

fn runs(folder: &std::path::Path) -> (HttpExecutor, mpsc::UnboundedReceiver<ExecutorEvent>) {
    let (tell, news) = mpsc::unbounded_channel();
    let mut config = Config::new("a".parse().unwrap(), "memory:", folder);
    config.http_allow = vec!["127.0.0.1".parse().unwrap()];
    let environment = RunEnvironment::new(config.name.clone(), TraceIds::new(""));
    (HttpExecutor::new(&config, environment, NodeSecrets::default(), Logs::new(folder.into()), tell), news)
}

fn trust(until: Mono) -> TrustDeadline {
    TrustDeadline { until, kill: until + Millis::secs(1) }
}

/// Waits for a connection; `None` if an event of the run comes first.
fn connected(listener: &TcpListener, news: &mut mpsc::UnboundedReceiver<ExecutorEvent>) -> Option<TcpStream> {
    let until = clock::now().mono + Millis::secs(120);
    listener.set_nonblocking(true).unwrap();
    while clock::now().mono < until {
        if let Ok((wire, _)) = listener.accept() {
            wire.set_nonblocking(false).unwrap();
            return Some(wire);
        }
        if news.try_recv().is_ok() {
            return None;
        }
        thread::yield_now();
    }
    panic!("nobody connected");
}

/// Waits until the requesting node has hung up.
fn hung_up(mut wire: TcpStream) {
    wire.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut said = Vec::new();
    wire.read_to_end(&mut said).unwrap();
    assert!(said.is_empty() || said.starts_with(b"GET / HTTP/1.1\r\n"), "{said:?}");
}

#[test]
fn a_request_that_is_too_late_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (mut runs, mut news) = runs(folder.path());
    let now = clock::now().mono;
    runs.trust(trust(now + Millis::secs(60)));
    let (run, http) = run(listener.local_addr().unwrap(), now);
    runs.start(run.clone(), http);
    assert_eq!(news.blocking_recv(), Some(ExecutorEvent::NotStarted { run: run.id, attempt: 1 }));
    assert!(listener.accept().is_err(), "nobody connected");
}

#[test]
fn a_request_is_dropped_at_the_deadline_though_nobody_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut runs, mut news) = runs(folder.path());
    // If the machine stalls, the deadline can pass before the connection; the next deadline is later.
    let (until, wire) = [1, 4, 16, 64]
        .into_iter()
        .find_map(|secs| {
            let until = clock::now().mono + Millis::secs(secs);
            runs.trust(trust(until));
            let (run, http) = run(listener.local_addr().unwrap(), until);
            runs.start(run, http);
            Some((until, connected(&listener, &mut news)?))
        })
        .expect("a connection before the deadline");
    // Neither fence() nor stop() is called.
    hung_up(wire);
    let Some(ExecutorEvent::Ended(finish)) = news.blocking_recv() else { panic!("it started") };
    assert!(clock::now().mono >= until, "not before it");
    assert_eq!(finish.ended, RunOutcome::Stopped(StopReason::Fenced));
    assert!(finish.reason.contains("the server may go on"), "{}", finish.reason);
}

#[test]
fn the_driver_drops_what_is_under_way_once_the_deadline_has_passed() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut runs, mut news) = runs(folder.path());
    let now = clock::now().mono;
    runs.trust(trust(now + Millis::secs(60)));
    let (run, http) = run(listener.local_addr().unwrap(), now + Millis::secs(60));
    runs.start(run, http);
    let wire = connected(&listener, &mut news).expect("its time has not come");
    runs.fence(now);
    assert!(news.try_recv().is_err(), "its time has not come");
    runs.fence(now + Millis::secs(60));
    hung_up(wire);
    let Some(ExecutorEvent::Ended(finish)) = news.blocking_recv() else { panic!("it started") };
    assert_eq!(finish.ended, RunOutcome::Stopped(StopReason::Fenced));
}
