//! Calls to nodes that answer as they should, and to those that are not what was called.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::identity::{ClusterIdentity, LeafNames, RotationStep};
use crate::tls::{self, PEER_HOST, PresentNode};

const DAY: i64 = 24 * 3_600_000;

fn identity() -> Arc<ClusterIdentity> {
    Arc::new(ClusterIdentity::create(evenkeel::clock::now().wall).expect("an identity"))
}

fn member(text: &str) -> Member {
    text.parse().expect("a member")
}

/// The TLS of this life in cluster `c`.
fn tls_of(identity: &Arc<ClusterIdentity>, life: &str) -> Arc<NodeTls> {
    let tls = NodeTls::new(identity.clone(), vec!["127.0.0.1".to_owned()], None).expect("certificates");
    let (cluster, member) = (Some("c".to_owned()), Some(member(life)));
    tls.follow(move || PresentNode { cluster: cluster.clone(), member: member.clone() });
    Arc::new(tls)
}

fn client(identity: &Arc<ClusterIdentity>) -> PeerHttpClient {
    PeerHttpClient::new(tls_of(identity, "a@1"))
}

/// Answers every request alike; returns its number of connections and its address.
async fn canned_server(tls: Arc<ServerConfig>, answer: &'static str) -> (Arc<AtomicUsize>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let acceptor = TlsAcceptor::from(tls.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let (mut asked, mut byte) = (Vec::new(), [0]);
                while stream.read(&mut byte).await.is_ok_and(|n| n > 0) {
                    asked.extend_from_slice(&byte);
                    if asked.ends_with(b"\r\n\r\n") {
                        let written = stream.write_all(answer.as_bytes()).await;
                        if written.is_err() || stream.flush().await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (taken, address)
}

fn call(to: &str, address: &str) -> PeerCall {
    let (from, to) = (member("a@1"), member(to));
    PeerCall { from, to, address: address.to_owned(), patience: Duration::from_secs(120) }
}

async fn ask_role(line: &PeerHttpClient, call: &PeerCall) -> Result<PeerResponse, PeerCallError> {
    line.ask(call, Method::GET, "/peer/v1/role", Vec::new()).await
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\nevenkeel-from: b@2\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn a_call_of_a_node_that_is_just_starting_waits_until_its_process_knows_the_node() {
    let identity = identity();
    let (_, address) = canned_server(tls_of(&identity, "b@2").server(), WHOLE).await;
    let own = Arc::new(NodeTls::new(identity, vec!["127.0.0.1".to_owned()], None).expect("certificates"));
    let line = PeerHttpClient::new(own.clone());
    let called = tokio::spawn(async move { ask_role(&line, &call("b@2", &address)).await });
    // The call goes as far as it can.
    tokio::task::yield_now().await;
    assert!(!called.is_finished(), "it has no certificate yet");
    own.follow(|| PresentNode { cluster: Some("c".to_owned()), member: Some(member("a@1")) });
    let reply = called.await.expect("it does not panic").expect("it is answered");
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn one_connection_serves_many_requests_to_one_life() {
    let identity = identity();
    let (taken, address) = canned_server(tls_of(&identity, "b@2").server(), WHOLE).await;
    let line = client(&identity);
    for _ in 0..3 {
        let heard = ask_role(&line, &call("b@2", &address)).await.expect("it answers");
        assert_eq!((heard.status, &heard.body[..]), (StatusCode::OK, &b"{}"[..]));
    }
    assert_eq!(taken.load(Ordering::SeqCst), 1);
    for to in ["b@3", "c@2"] {
        let other = ask_role(&line.clone(), &call(to, &address)).await.map(|heard| heard.status);
        assert_eq!(other, Err(PeerCallError::Another(member("b@2"))), "{to} is called");
    }
    assert_eq!(taken.load(Ordering::SeqCst), 3, "another life is asked on a connection of its own");
}

#[tokio::test]
async fn a_life_that_began_after_the_connection_is_another_one() {
    let identity = identity();
    let later = "HTTP/1.1 200 OK\r\nevenkeel-from: b@3\r\ncontent-length: 2\r\n\r\n{}";
    let (_, address) = canned_server(tls_of(&identity, "b@2").server(), later).await;
    let heard = ask_role(&client(&identity), &call("b@2", &address)).await.map(|heard| heard.status);
    assert_eq!(heard, Err(PeerCallError::Another(member("b@3"))));
}

/// A certificate for these names, issued so long ago.
#[derive(Debug)]
struct OneLeaf(crate::identity::LeafCertificate);

impl OneLeaf {
    fn new(identity: &ClusterIdentity, life: &str, ago: i64) -> Arc<Self> {
        let names = LeafNames { life: Some(life.to_owned()), hosts: vec![PEER_HOST.to_owned()] };
        let mut at = evenkeel::clock::now().wall;
        at.0 -= ago;
        Arc::new(Self(identity.issue(&names, at).expect("a certificate")))
    }
}

impl ResolvesServerCert for OneLeaf {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<crate::identity::LeafCertificate> {
        Some(self.0.clone())
    }
}

fn server(leaf: Arc<OneLeaf>) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions();
    let builder =
        builder.expect("versions").with_client_cert_verifier(WebPkiClientVerifier::no_client_auth());
    Arc::new(builder.with_cert_resolver(leaf))
}

#[tokio::test]
async fn what_does_not_prove_itself_is_a_stranger() {
    let (own, other) = (identity(), identity());
    let life = "evenkeel://c/node/b/2";
    for (server, why) in [
        (tls_of(&other, "b@2").server(), "another authority"),
        (server(OneLeaf::new(&own, life, 9 * DAY)), "a certificate that has ended"),
        (server(OneLeaf::new(&own, life, -2 * DAY)), "a certificate that has not begun"),
        (server(OneLeaf::new(&own, "evenkeel://d/node/b/2", 0)), "another cluster"),
        (server(OneLeaf::new(&own, "https://b/2", 0)), "no life"),
    ] {
        let (_, address) = canned_server(server, WHOLE).await;
        let heard = ask_role(&client(&own), &call("b@2", &address)).await;
        assert!(matches!(heard, Err(PeerCallError::Stranger(_))), "{why}: {heard:?}");
    }
    let (_, address) = canned_server(server(OneLeaf::new(&own, life, 6 * DAY)), WHOLE).await;
    assert!(ask_role(&client(&own), &call("b@2", &address)).await.is_ok(), "it is valid for a week");
}

#[tokio::test]
async fn a_node_that_is_taken_for_a_stranger_has_sent_nothing() {
    let (own, other) = (identity(), identity());
    let names =
        LeafNames { life: Some("evenkeel://c/node/b/2".to_owned()), hosts: vec![PEER_HOST.to_owned()] };
    let leaf = own.issue(&names, evenkeel::clock::now().wall).expect("a certificate");
    // It shows what the caller expects, and trusts another authority.
    let mut roots = rustls::RootCertStore::empty();
    other.trusted().for_each(|it| roots.add(it.clone()).expect("a certificate"));
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), tls::provider());
    let builder = ServerConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_client_cert_verifier(verifier.build().expect("a verifier"));
    let (_, address) =
        canned_server(Arc::new(builder.with_cert_resolver(Arc::new(OneLeaf(leaf)))), WHOLE).await;
    let heard = ask_role(&client(&own), &call("b@2", &address)).await;
    assert!(matches!(heard, Err(PeerCallError::Stranger(_))), "{heard:?}");
}

#[tokio::test]
async fn a_new_authority_comes_without_a_failed_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("identity.json");
    let now = evenkeel::clock::now().wall;
    let node = |life: &str| {
        let (identity, path) = ClusterIdentity::open(Some(&path), now).expect("an identity");
        let tls = NodeTls::new(Arc::new(identity), Vec::new(), None).expect("certificates").kept_in(path);
        let (cluster, member) = (Some("c".to_owned()), Some(member(life)));
        tls.follow(move || PresentNode { cluster: cluster.clone(), member: member.clone() });
        Arc::new(tls)
    };
    let (called, calling, idle) = (node("b@2"), node("a@1"), node("a@1"));
    let line = PeerHttpClient::new(calling.clone());
    let ask = async |line: &PeerHttpClient| {
        let (_, address) = canned_server(called.server(), WHOLE).await;
        ask_role(line, &call("b@2", &address)).await.map(|heard| heard.status)
    };
    let first = calling.authority();
    for step in [RotationStep::Trust, RotationStep::Sign, RotationStep::Finish] {
        let identity = ClusterIdentity::read(&path).expect("an identity");
        identity.rotated(step, now).and_then(|next| next.replace(&path)).expect("the next step");
        assert_eq!(ask(&line).await, Ok(StatusCode::OK), "{step:?}: neither has read it");
        called.refresh();
        assert_eq!(ask(&line).await, Ok(StatusCode::OK), "{step:?}: the called node has read it");
        calling.refresh();
        assert_eq!(ask(&line).await, Ok(StatusCode::OK), "{step:?}: both have read it");
    }
    assert_eq!(calling.changes(), 3);
    assert_ne!(calling.authority(), first);
    let stale = ask(&PeerHttpClient::new(idle.clone())).await;
    assert!(matches!(stale, Err(PeerCallError::Stranger(_))), "a node that has read nothing: {stale:?}");
    idle.refresh();
    assert_eq!(ask(&PeerHttpClient::new(idle)).await, Ok(StatusCode::OK));

    let kept = ClusterIdentity::read(&path).expect("an identity");
    assert!(kept.rotated(RotationStep::Sign, now).is_err() && calling.changes() == 3);
    ClusterIdentity::create(now).and_then(|other| other.replace(&path)).expect("another identity");
    calling.refresh();
    assert_eq!(calling.changes(), 3, "another cluster's identity is not taken");
    assert_eq!(ask(&line).await, Ok(StatusCode::OK));
}

#[tokio::test]
async fn silence_ends_with_patience() {
    let identity = identity();
    let (taken, address) = canned_server(tls_of(&identity, "b@2").server(), "").await;
    let line = client(&identity);
    // If the machine stalls, the time can run out before the request is sent; the next limit is longer.
    for (millis, said) in [(300, "300ms"), (3_000, "3s"), (30_000, "30s")] {
        let silent = PeerCall { patience: Duration::from_millis(millis), ..call("b@2", &address) };
        let heard = ask_role(&line, &silent).await.map(|heard| heard.status);
        assert_eq!(heard, Err(PeerCallError::Silent(format!("no answer within {said}"))));
        if taken.load(Ordering::SeqCst) > 0 {
            break;
        }
    }
    assert!(taken.load(Ordering::SeqCst) > 0, "it was asked");
    // No program listens on the first port.
    let gone = ask_role(&line, &call("b@2", "127.0.0.1:1")).await;
    assert!(matches!(&gone, Err(PeerCallError::Unreached(why)) if why.contains("refused")), "{gone:?}");
    let odd = ask_role(&line, &call("b@2", "no address")).await;
    assert!(matches!(odd, Err(PeerCallError::Unreached(_))), "{odd:?}");
}
