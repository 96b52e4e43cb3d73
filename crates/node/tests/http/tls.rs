//! Whom a request believes to be the server.

use evenkeel::{AttemptState, Http};

use super::server::TestAuthority;
use super::{TestServer, job, log, node, run};

#[tokio::test]
async fn a_server_is_believed_by_its_certificate_unless_the_job_says_otherwise() {
    let Some(authority) = TestAuthority::new() else { return };
    let mut server = TestServer::secure(&authority).await;
    let (node, _data) = node(&["127.0.0.0/8", "::1"]).await;
    let port = server.address.port();
    let ask = |host: &str| Http::new(&format!("https://{host}:{port}/ok"));

    let stranger = run(&node, job("stranger", ask("localhost"))).await;
    assert_eq!(stranger.state, AttemptState::Failed);
    assert!(
        stranger.reason.contains("no TLS: its certificate is signed by no authority"),
        "{}",
        stranger.reason
    );
    assert!(server.is_quiet(), "nothing was said to a stranger");

    for host in ["localhost", "127.0.0.1"] {
        let known = run(&node, job(host, Http { ca: authority.file(), ..ask(host) })).await;
        assert_eq!((known.state, known.reason.as_str()), (AttemptState::Succeeded, "HTTP 200"), "{host}");
        assert_eq!(log(&node, &known).await, "fine\n");
        assert_eq!(server.next_request().await.header("host"), Some(format!("{host}:{port}").as_str()));
    }
    let other = run(&node, job("other", Http { ca: authority.file(), ..ask("127.0.0.2") })).await;
    assert!(other.reason.contains("no connection") || other.reason.contains("no TLS"), "{}", other.reason);

    let anybody = run(&node, job("anybody", Http { verify: false, ..ask("localhost") })).await;
    assert_eq!((anybody.state, anybody.reason.as_str()), (AttemptState::Succeeded, "HTTP 200"));

    for (name, file, says) in [("missing", "/nowhere/ca.pem", "No such file"), ("empty", "/etc/hosts", "PEM")]
    {
        let record = run(&node, job(name, Http { ca: file.into(), ..ask("localhost") })).await;
        assert_eq!(record.state, AttemptState::Failed, "{name}");
        assert!(record.reason.contains(file) && record.reason.contains(says), "{name}: {}", record.reason);
    }
}

#[tokio::test]
async fn a_server_that_signed_its_certificate_itself_is_believed_where_ca_names_it() {
    let (Some(own), Some(other), Some(named), Some(old)) = (
        TestAuthority::of_itself("localhost"),
        TestAuthority::of_itself("localhost"),
        TestAuthority::of_itself("elsewhere"),
        TestAuthority::out_of_date(),
    ) else {
        return;
    };
    let (node, _data) = node(&["127.0.0.0/8", "::1"]).await;
    for (name, server, ca, says) in [
        ("own", &own, &own, "HTTP 200"),
        ("other", &own, &other, "no TLS: its certificate signed itself"),
        ("named", &named, &named, "no TLS: its certificate is not for localhost, but for elsewhere"),
        ("old", &old, &old, "no TLS: its certificate has expired"),
    ] {
        let server = TestServer::secure(server).await;
        let http = Http::new(&format!("https://localhost:{}/ok", server.address.port()));
        let record = run(&node, job(name, Http { ca: ca.file(), ..http })).await;
        assert!(record.reason.contains(says), "{name}: {}", record.reason);
    }
}

#[tokio::test]
async fn nobody_is_sent_on_from_https_to_http() {
    let Some(authority) = TestAuthority::new() else { return };
    let (secure, plain) = (TestServer::secure(&authority).await, TestServer::start().await);
    let (node, _data) = node(&["127.0.0.0/8", "::1"]).await;
    let mut http = Http::new(&format!("https://{}/moved?{}", secure.address, plain.url("/ok")));
    (http.ca, http.redirects) = (authority.file(), 1);
    let record = run(&node, job("j", http)).await;
    assert_eq!(record.state, AttemptState::Failed);
    assert!(record.reason.contains("leaves https for http"), "{}", record.reason);
    assert_eq!(plain.connections(), 0);
}
