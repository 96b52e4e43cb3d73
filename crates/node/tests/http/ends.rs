//! What is sent, and how each end is told.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::core::job::http::StatusCodes;
use evenkeel::core::job::{JobParameter, Retry};
use evenkeel::{Answer, AttemptState, Command, Http};

use super::alone::is_alone;
use super::{TestServer, ask_to_run, job, log, node, run, within};

const LOOPBACK: &[&str] = &["127.0.0.1"];

#[tokio::test]
async fn a_good_answer_is_a_run_that_succeeded_and_the_server_knows_whose_request_it_was() {
    let mut server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    let mut http = Http::new(&server.url("/ok?x=1"));
    http.headers = BTreeMap::from([
        ("X-Own".to_owned(), "mine".to_owned()),
        ("content-type".to_owned(), "application/json".to_owned()),
    ]);
    http.body = r#"{"run":{{run|json}},"due":"{{due}}","shard":{{shard}},"of":{{shards}},"all":{{job_parameter|json}},"job":"{{job}}","try":{{attempt}},"fence":{{fence}},"key":"{{idempotency_key}}","node":"{{node}}","day":{{parameter:day|json}}}"#.into();
    let mut declared = job("j", http);
    declared.parameter = "say \"hi\"".into();
    let day = JobParameter { default: Some("2026-01-31".into()), ..JobParameter::default() };
    declared.parameters.insert("day".into(), day);
    let record = run(&node, declared).await;
    assert_eq!(
        (record.state, record.reason.as_str(), record.code),
        (AttemptState::Succeeded, "HTTP 200", None)
    );
    assert_eq!((log(&node, &record).await.as_str(), record.output), ("fine\n", 5));
    let seen = server.next_request().await;
    assert_eq!(seen.line, "POST /ok?x=1 HTTP/1.1");
    let (id, due, token) =
        (record.run.to_string(), record.due.to_string(), record.token.unwrap().to_string());
    for (name, value) in [
        ("host", server.address.to_string().as_str()),
        ("idempotency-key", &id),
        ("evenkeel-fence", &token),
        ("evenkeel-job", "j"),
        ("evenkeel-run", &id),
        ("evenkeel-due", &due),
        ("evenkeel-shard", "0"),
        ("evenkeel-shards", "1"),
        ("evenkeel-attempt", "1"),
        ("x-own", "mine"),
        ("content-type", "application/json"),
        ("connection", "close"),
        ("content-length", &seen.body.len().to_string()),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}: {seen:?}");
    }
    assert_eq!(
        seen.body,
        format!(
            r#"{{"run":"{id}","due":"{due}","shard":0,"of":1,"all":"say \"hi\"","job":"j","try":1,"fence":{token},"key":"{id}","node":"a","day":"2026-01-31"}}"#
        )
    );
    assert!(server.is_quiet(), "it was asked once");
}

#[tokio::test]
async fn the_status_decides_and_stands_in_the_history() {
    let server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    let busy = run(&node, job("busy", Http::new(&server.url("/busy")))).await;
    assert_eq!((busy.state, busy.reason.as_str()), (AttemptState::Failed, "HTTP 503"));
    assert_eq!(log(&node, &busy).await, "later\n", "what it said is kept all the same");
    let mut gone = Http::new(&server.url("/gone"));
    gone.success = StatusCodes::new(vec![(200, 204), (404, 404)]);
    gone.method = "DELETE".into();
    let gone = run(&node, job("gone", gone)).await;
    assert_eq!((gone.state, gone.reason.as_str()), (AttemptState::Succeeded, "HTTP 404"));
    let mut ok = Http::new(&server.url("/ok"));
    ok.success = StatusCodes::new(vec![(201, 201)]);
    let ok = run(&node, job("ok", ok)).await;
    assert_eq!((ok.state, ok.reason.as_str()), (AttemptState::Failed, "HTTP 200"));
}

/// proves: I20
#[tokio::test]
async fn a_second_attempt_has_the_same_key_and_a_higher_fence() {
    let mut server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    let mut busy = job("busy", Http::new(&server.url("/busy")));
    busy.retry =
        Some(Retry { max_retries: 1, delay: "1s".into(), max_delay: String::new(), exit_codes: Vec::new() });
    let run = ask_to_run(&node, busy).await.to_string();
    let (first, second) = (server.next_request().await, server.next_request().await);
    for (seen, attempt) in [(&first, "1"), (&second, "2")] {
        assert_eq!(seen.header("evenkeel-attempt"), Some(attempt));
        assert_eq!(seen.header("idempotency-key"), Some(run.as_str()));
    }
    let fence = |seen: &super::server::RecordedRequest| {
        seen.header("evenkeel-fence").unwrap().parse::<u64>().unwrap()
    };
    assert!(fence(&first) < fence(&second), "{first:?}, {second:?}");
}

/// proves: I47
#[tokio::test]
async fn an_answer_is_kept_up_to_the_nodes_bound() {
    let server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    let long = run(&node, job("long", Http::new(&server.url("/long")))).await;
    assert_eq!((long.state, long.output), (AttemptState::Succeeded, 1000));
    let kept = log(&node, &long).await;
    let (first, rest) = kept.split_once("\n[").unwrap();
    let (mark, last) = rest.split_once("]\n").unwrap();
    assert_eq!((first, last), ("x".repeat(500).as_str(), "x".repeat(500).as_str()));
    assert!(mark.ends_with(" bytes in the middle are not kept"), "{mark}");
}

#[tokio::test]
async fn what_keeps_an_answer_from_coming_is_told() {
    let server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    for (name, url, says) in [
        ("closed", "http://127.0.0.1:1/".to_owned(), "no connection to 127.0.0.1: Connection refused"),
        ("silent", server.url("/silent"), "no whole answer: connection closed"),
        ("nonsense", server.url("/nonsense"), "no whole answer: invalid HTTP"),
        ("broken", server.url("/broken"), "HTTP 200, but its body broke off"),
        ("nowhere", "http://nowhere.invalid/".to_owned(), "no address of nowhere.invalid"),
        ("plain", format!("https://{}/", server.address), "no TLS: "),
    ] {
        let record = run(&node, job(name, Http::new(&url))).await;
        assert_eq!(record.state, AttemptState::Failed, "{name}");
        assert!(record.reason.contains(says), "{name}: {}", record.reason);
    }
}

#[tokio::test]
async fn a_request_that_is_stopped_is_dropped_at_once() {
    let mut server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    let was_asked = async |timeout: u64| {
        let mut other = TestServer::start().await;
        let mut slow = job(&format!("slow-{timeout}"), Http::new(&other.url("/wait")));
        slow.timeout = Some(timeout);
        let slow = run(&node, slow).await;
        assert_eq!(slow.state, AttemptState::TimedOut);
        assert!(slow.reason.starts_with(&format!("no whole answer within {timeout}")), "{}", slow.reason);
        if tokio::time::timeout(Duration::from_secs(timeout), other.next_request()).await.is_err() {
            return false;
        }
        other.hung_up().await;
        true
    };
    // If the machine stalls, the timeout can end before the request is sent; the next timeout is longer.
    assert!(was_asked(1).await || was_asked(5).await || was_asked(30).await, "no request was sent in time");
    let killed = ask_to_run(&node, job("killed", Http::new(&server.url("/wait")))).await;
    server.next_request().await;
    assert_eq!(node.ask(Command::Kill(killed.clone())).await, Answer::Done);
    server.hung_up().await;
    let killed = within(node.wait(&killed)).await.unwrap();
    assert_eq!(killed.state, AttemptState::Killed);
    assert!(killed.reason.contains("the server may go on"), "{}", killed.reason);
}

#[tokio::test]
async fn a_node_that_stops_drops_its_requests() {
    let mut server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    ask_to_run(&node, job("j", Http::new(&server.url("/wait")))).await;
    server.next_request().await;
    within(node.stop_now()).await;
    server.hung_up().await;
}

/// proves: I47
#[tokio::test]
async fn many_requests_wait_together() {
    // Threads are counted, and other tests have threads of their own.
    if !is_alone("ends::many_requests_wait_together") {
        return;
    }
    let mut server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    ask_to_run(&node, job("first", Http::new(&server.url("/wait")))).await;
    server.next_request().await;
    let before = threads();
    for n in 0..40 {
        ask_to_run(&node, job(&format!("j{n}"), Http::new(&server.url("/wait")))).await;
        server.next_request().await;
    }
    assert_eq!(server.connections(), 41);
    assert!(threads() < before + 40, "a request has no thread of its own: {before}, {}", threads());
}
