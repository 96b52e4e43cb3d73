//! Where requests may go.

use evenkeel::{AttemptState, Http};

use super::{TestServer, job, log, node, run};

#[tokio::test]
async fn what_is_not_public_is_refused_unless_the_node_allows_it() {
    let server = TestServer::start().await;
    let (strict, _data) = node(&[]).await;
    let port = server.address.port();
    for (name, host, says) in [
        ("loopback", "127.0.0.1", "it is a loopback address"),
        ("number", "2130706433", "it is a loopback address"),
        ("short", "127.1", "it is a loopback address"),
        ("octal", "0177.0.0.1", "it is a loopback address"),
        ("mapped", "[::ffff:127.0.0.1]", "it is a loopback address"),
        ("six", "[::1]", "it is a loopback address"),
        ("any", "0.0.0.0", "it is an address of this host itself"),
        ("name", "localhost", "localhost is 127.0.0.1, a loopback address"),
        ("metadata", "169.254.169.254", "it is a cloud metadata address"),
        ("private", "10.0.0.1", "it is a private address"),
    ] {
        let record = run(&strict, job(name, Http::new(&format!("http://{host}:{port}/ok")))).await;
        assert_eq!(record.state, AttemptState::Failed, "{name}");
        assert!(record.reason.contains(says), "{name}: {}", record.reason);
        assert!(record.reason.contains("can allow it with --http-allow "), "{name}: {}", record.reason);
        assert_eq!(log(&strict, &record).await, "", "{name}");
    }
    assert_eq!(server.connections(), 0, "nobody was even connected to");
}

#[tokio::test]
async fn a_name_is_reached_where_every_address_of_it_is_allowed_and_stays_the_name() {
    let mut server = TestServer::start().await;
    let (node, _data) = node(&["127.0.0.0/8", "::1"]).await;
    let host = format!("localhost:{}", server.address.port());
    let record = run(&node, job("name", Http::new(&format!("http://{host}/ok")))).await;
    assert_eq!((record.state, record.reason.as_str()), (AttemptState::Succeeded, "HTTP 200"));
    let seen = server.next_request().await;
    assert_eq!((seen.line.as_str(), seen.header("host")), ("GET /ok HTTP/1.1", Some(host.as_str())));
}
