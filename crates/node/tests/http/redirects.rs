//! Whom a server may send a request on to.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use evenkeel::{AttemptState, Http};

use super::{TestServer, job, log, node, run};

const LOOPBACK: &[&str] = &["127.0.0.1"];

fn sent_on(url: &str, redirects: u32) -> Http {
    let mut http = Http::new(url);
    http.redirects = redirects;
    http.headers = BTreeMap::from([
        ("Authorization".to_owned(), "Bearer secret".to_owned()),
        ("X-Key".to_owned(), "secret".to_owned()),
        ("Accept".to_owned(), "text/plain".to_owned()),
    ]);
    http
}

#[tokio::test]
async fn redirects_are_followed_only_as_far_as_the_job_says() {
    let mut server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    let off = run(&node, job("off", sent_on(&server.url("/moved?/ok"), 0))).await;
    assert_eq!(off.state, AttemptState::Failed);
    assert!(off.reason.starts_with("HTTP 302: sent on to 127.0.0.1:"), "{}", off.reason);
    assert!(off.reason.contains("http.redirects says how many"), "{}", off.reason);
    assert_eq!(log(&node, &off).await, "elsewhere\n");
    server.next_request().await;
    assert!(server.is_quiet());

    let followed = run(&node, job("followed", sent_on(&server.url("/moved?/moved?/ok"), 2))).await;
    assert_eq!((followed.state, followed.reason.as_str()), (AttemptState::Succeeded, "HTTP 200"));
    assert_eq!(log(&node, &followed).await, "fine\n", "only the last answer is kept");
    for line in ["/moved?/moved?/ok", "/moved?/ok", "/ok"] {
        let seen = server.next_request().await;
        assert_eq!(seen.line, format!("GET {line} HTTP/1.1"));
        assert_eq!(seen.header("authorization"), Some("Bearer secret"), "it is the same server");
    }

    let further = run(&node, job("further", sent_on(&server.url("/moved?/moved?/ok"), 1))).await;
    assert_eq!(further.state, AttemptState::Failed);
    assert!(further.reason.contains("one more than the 1 of http.redirects"), "{}", further.reason);
}

#[tokio::test]
async fn what_is_carried_goes_on_only_where_the_answer_says_so() {
    let mut server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    for (name, path, line, body) in [
        ("moved", "/moved?/ok", "GET /ok HTTP/1.1", ""),
        ("kept", "/kept?/ok", "POST /ok HTTP/1.1", "carried"),
    ] {
        let mut http = sent_on(&server.url(path), 1);
        http.body = "carried".into();
        assert_eq!(run(&node, job(name, http)).await.state, AttemptState::Succeeded);
        assert_eq!(server.next_request().await.body, "carried");
        let seen = server.next_request().await;
        assert_eq!((seen.line.as_str(), seen.body.as_str()), (line, body), "{name}");
        assert_eq!(seen.header("content-type").is_some(), !body.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn another_server_hears_whose_request_it_is_and_no_secret() {
    let (mut first, mut second) = (TestServer::start().await, TestServer::start().await);
    let (node, _data) = node(LOOPBACK).await;
    let record = run(&node, job("j", sent_on(&first.url(&format!("/moved?{}", second.url("/ok"))), 1))).await;
    assert_eq!(record.state, AttemptState::Succeeded, "{}", record.reason);
    let (before, after) = (first.next_request().await, second.next_request().await);
    assert_eq!((before.header("x-key"), after.header("x-key")), (Some("secret"), None));
    assert_eq!(after.header("authorization"), None);
    assert_eq!(after.header("accept"), Some("text/plain"));
    assert_eq!(after.header("host"), Some(second.address.to_string().as_str()));
    for name in ["evenkeel-fence", "idempotency-key", "evenkeel-run"] {
        assert!(after.header(name).is_some() && after.header(name) == before.header(name), "{name}");
    }
}

#[tokio::test]
async fn a_redirect_leads_nowhere_that_the_job_could_not_go() {
    let server = TestServer::start().await;
    let (node, _data) = node(LOOPBACK).await;
    let port = server.address.port();
    for (name, to, says) in [
        ("metadata", "http://169.254.169.254/latest/".to_owned(), "it is a cloud metadata address"),
        ("neighbour", format!("http://127.0.0.2:{port}/ok"), "it is a loopback address"),
        ("six", format!("http://[::1]:{port}/ok"), "it is a loopback address"),
        ("relative", format!("//127.0.0.2:{port}/ok"), "it is a loopback address"),
        ("file", "file:///etc/passwd".to_owned(), "another protocol than HTTP"),
        ("gopher", "gopher://127.0.0.1/".to_owned(), "another protocol than HTTP"),
        ("user", format!("http://u:p@127.0.0.1:{port}/ok"), "with a user or a password"),
        ("nonsense", "http://[".to_owned(), "sent on to what is no address"),
    ] {
        let before = server.connections();
        let record = run(&node, job(name, sent_on(&server.url(&format!("/moved?{to}")), 5))).await;
        assert_eq!(record.state, AttemptState::Failed, "{name}");
        assert!(record.reason.contains(says), "{name}: {}", record.reason);
        assert_eq!(server.connections(), before + 1, "{name}: only the first was connected to");
    }
}

/// proves: I52
#[tokio::test]
async fn a_secret_is_sent_to_the_server_that_the_job_names_and_to_no_other() {
    let (mut server, mut other) = (TestServer::start().await, TestServer::start().await);
    let (node, data) = node(LOOPBACK).await;
    let file = data.path().join("token");
    std::fs::write(&file, "hunter2\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let with = |name: &str, url: String, body: &str| {
        let mut http = Http::new(&url);
        http.redirects = 1;
        // What is said of every server, were it not for what it holds.
        http.headers = BTreeMap::from([("Accept".to_owned(), "text/{{secret:token}}".to_owned())]);
        http.body = body.to_owned();
        job(name, http)
    };
    let here = run(&node, with("here", server.url("/kept?/ok"), "{{secret:token}}")).await;
    assert_eq!(here.state, AttemptState::Succeeded, "{}", here.reason);
    for _ in 0..2 {
        let seen = server.next_request().await;
        assert_eq!((seen.header("accept"), seen.body.as_str()), (Some("text/hunter2"), "hunter2"));
    }
    let away = run(&node, with("away", server.url(&format!("/moved?{}", other.url("/ok"))), "plain")).await;
    assert_eq!(away.state, AttemptState::Succeeded, "{}", away.reason);
    assert_eq!(other.next_request().await.header("accept"), None);
    let taken =
        run(&node, with("taken", server.url(&format!("/kept?{}", other.url("/ok"))), "{{secret:token}}"))
            .await;
    assert_eq!(taken.state, AttemptState::Failed);
    assert!(taken.reason.contains("another server, and the body holds a secret"), "{}", taken.reason);
    assert!(other.is_quiet() && !taken.reason.contains("hunter2"), "{}", taken.reason);
}
