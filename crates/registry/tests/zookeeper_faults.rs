//! What happens to the ZooKeeper engine when connections are cut, sessions end and servers are killed or frozen.
//!
//! Most tests play on the server at `EVENKEEL_TEST_ZOOKEEPER`, in namespaces of their own; two start their own.

#![cfg(feature = "zookeeper")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/certificates.rs"]
mod certificates;
#[path = "common/counting.rs"]
mod counting;
#[path = "zookeeper_faults/foreign_changes.rs"]
mod foreign_changes;
#[path = "common/host.rs"]
mod host;
#[path = "common/lease_terms.rs"]
mod lease_terms;
#[path = "zookeeper_faults/leases.rs"]
mod leases;
#[path = "common/listening.rs"]
mod listening;
#[path = "zookeeper_faults/memory.rs"]
mod memory;
#[path = "common/process.rs"]
mod process;
#[path = "common/proxy.rs"]
mod proxy;
#[path = "common/requests.rs"]
mod requests;
#[path = "zookeeper_faults/restarts.rs"]
mod restarts;
#[path = "zookeeper_faults/server.rs"]
mod server;
#[path = "common/still.rs"]
mod still;
#[path = "common/until.rs"]
mod until;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use certificates::Certificates;
use counting::{CountingClient, histories_hold};
use evenkeel_core::registry::{DurabilityClass, Guard, Revision, TxnOutcome, Write};
use evenkeel_core::time::Millis;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::conformance::MachineStall;
use evenkeel_registry::conformance::{server_url as find, with_fresh_namespace};
use evenkeel_registry::{RegistryError, open};
use host::free_ports;
use lease_terms::{LeaseTerm, with_a_term};
use proxy::{Proxy, ProxyMode};
use requests::{SharedRegistry, commit, connect, entry, key, made, next, put, refused, txn};
use server::{Ensemble, ZookeeperServer, four_letter_reply};
use until::until;

/// A term that no test waits for.
const TTL: Millis = Millis::secs(60);

/// How ZooKeeper's protocol calls a transaction, and a listing.
const MULTI: [u8; 4] = 14_u32.to_be_bytes();
const CHILDREN: [u8; 4] = 12_u32.to_be_bytes();
const SET_DATA: [u8; 4] = 5_u32.to_be_bytes();

/// The server that all share, and a namespace in it that is nobody's.
struct ZookeeperNamespace {
    at: SocketAddr,
    namespace: String,
}

impl ZookeeperNamespace {
    fn find() -> Option<Self> {
        let url = with_fresh_namespace(&find("ZOOKEEPER")?);
        let (host, namespace) = url.strip_prefix("zookeeper://").unwrap().split_once('/').unwrap();
        let at = host.to_socket_addrs().unwrap().next().unwrap();
        Some(Self { at, namespace: namespace.to_owned() })
    }

    fn url(&self) -> String {
        self.through(self.at)
    }

    fn through(&self, at: SocketAddr) -> String {
        format!("zookeeper://{at}/{}", self.namespace)
    }
}

/// proves: I46
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_lost_answer_is_unknown_and_settled_by_sending_again() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let at = made(&near, vec![], vec![put("job/a/assignment", "free", None)]).await;
    let lease = far.open(TTL).await.unwrap().lease;
    let claim =
        txn(vec![Guard::At(key("job/a/assignment"), at)], vec![put("job/a/assignment", "nonce 17", None)]);
    // What the engine looks at before it writes is answered; what it writes is written, and not answered.
    proxy.set(ProxyMode::NoAnswersFrom(MULTI));
    assert_eq!(commit(&far, claim.clone()).await, TxnOutcome::Unknown);
    assert!(matches!(far.last_error().as_deref(), Some(RegistryError::Unavailable(_))));
    assert!(matches!(far.renew(lease).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.open(TTL).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.list().await, Err(RegistryError::Unavailable(_))));
    proxy.set(ProxyMode::Open);
    let settled = until("an answer", || async {
        Some(commit(&far, claim.clone()).await).filter(|outcome| *outcome != TxnOutcome::Unknown)
    })
    .await;
    let found = entry(&near, "job/a/assignment").await.unwrap();
    assert_eq!(&*found.value, b"nonce 17");
    let TxnOutcome::Refused(told) = settled else { panic!("made twice: {settled:?}") };
    assert_eq!(told[0].entry, Some(found));
    assert_eq!(far.last_error(), None);
    until("a renewal", || async { far.renew(lease).await.ok().flatten() }).await;
}

/// What was asked arrives and is done; the answer is lost.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn lost_answers_about_leases_and_listings_harm_nobody() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let operator = zookeeper_client::Client::connect(&place.at.to_string()).await.unwrap();
    let leases = format!("/{}/lease", place.namespace);
    let count = || async { operator.list_children(&leases).await.unwrap().len() };
    let lease = far.open(TTL).await.unwrap().lease;
    made(&far, vec![], vec![put("node/a@1", "", Some(lease))]).await;

    proxy.set(ProxyMode::NoAnswersFrom(CHILDREN));
    assert!(matches!(far.list().await, Err(RegistryError::Unavailable(_))));
    proxy.set(ProxyMode::Open);
    let listed = until("a listing", || async { far.list().await.ok() }).await;
    assert_eq!(listed.changes.len(), 1);

    proxy.set(ProxyMode::NoAnswersFrom(MULTI));
    // A term that is long enough for the look at what was opened.
    assert!(matches!(far.open(Millis::secs(20)).await, Err(RegistryError::Unavailable(_))));
    assert_eq!(count().await, 2, "it was opened all the same");
    proxy.set(ProxyMode::Open);
    until("the end of what nobody knows of", || async { (count().await == 1).then_some(()) }).await;
    until("a renewal", || async { far.renew(lease).await.ok().flatten() }).await;
    // Both sessions are back, so what is asked next arrives.
    until("a listing", || async { far.list().await.ok() }).await;

    proxy.set(ProxyMode::NoAnswersFrom(MULTI));
    assert!(matches!(far.close(lease).await, Err(RegistryError::Unavailable(_))));
    assert_eq!((count().await, entry(&near, "node/a@1").await), (0, None), "it was closed all the same");
    proxy.set(ProxyMode::Open);
    until("the same again", || async { far.close(lease).await.ok() }).await;
    assert_eq!(far.renew(lease).await, Ok(None));
}

/// Connections are cut all the time while transactions are sent until they are answered: each counts once.
///
/// proves: S1-09, I46
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_storm_of_cut_connections_loses_no_increment_and_makes_none_twice() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let counter = CountingClient::start(&near, &far, 40).await;
    for cut in 0..6 {
        proxy.set(if cut % 2 == 0 { ProxyMode::NoAnswersFrom(MULTI) } else { ProxyMode::Closed });
        tokio::time::sleep(Duration::from_millis(10)).await;
        proxy.set(ProxyMode::Open);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    counter.check(&near).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_history_in_a_storm_can_have_happened_one_after_the_other() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (place.url(), place.through(proxy.at()));
    let near = [connect(&near).await, connect(&near).await];
    let far = [connect(&far).await, connect(&far).await];
    histories_hold((&near, &far), (&proxy, [ProxyMode::NoAnswers, ProxyMode::Closed]), 400).await;
}

/// The client loses its watches at a reconnect without a word.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_cut_connection_loses_no_news_and_its_watches_are_set_again() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let mut feed = far.watch(far.list().await.unwrap().revision).await.unwrap();
    let watched = || async {
        // Two of the near one, two of the far one.
        let list = four_letter_reply(place.at, "wchc");
        let of = |path: &str| list.lines().filter(|line| line.trim() == path).count();
        let (news, leases) = (format!("/{}/news", place.namespace), format!("/{}/lease", place.namespace));
        (of(&news) == 2 && of(&leases) == 2).then_some(())
    };
    until("watches", watched).await;
    for round in 0..3 {
        proxy.set(ProxyMode::Closed);
        let name = format!("missed{round}");
        made(&near, vec![], vec![put(&name, "1", None)]).await;
        proxy.set(ProxyMode::Open);
        assert_eq!(next(&mut feed).await, Some(vec![name]));
        until("watches, set again", watched).await;
        let name = format!("heard{round}");
        made(&near, vec![], vec![put(&name, "1", None)]).await;
        assert_eq!(next(&mut feed).await, Some(vec![name]));
    }
}

/// A node that is made again has the version it had before. Nothing may be taken for what it was.
///
/// proves: S1-09
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn no_increment_is_lost_though_each_makes_the_node_anew() {
    const ADDERS: u32 = 4;
    const EACH: u32 = 20;
    let Some(place) = ZookeeperNamespace::find() else { return };
    let registry = connect(&place.url()).await;
    let other = connect(&place.url()).await;
    made(&registry, vec![], vec![put("count", "0 of nobody", None)]).await;
    let adders: Vec<_> = (0..ADDERS)
        .map(|adder| {
            let registry = if adder % 2 == 0 { registry.clone() } else { other.clone() };
            tokio::spawn(async move {
                for nth in 0..EACH {
                    add_one(&registry, &format!("{adder}-{nth}")).await;
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.unwrap();
    }
    let count = entry(&registry, "count").await.unwrap();
    assert!(count.value.starts_with(format!("{} of", ADDERS * EACH).as_bytes()), "{count:?}");
}

async fn add_one(registry: &SharedRegistry, nonce: &str) {
    loop {
        let found = registry.read(vec![key("count")]).await.unwrap()[0].entry.clone().unwrap();
        let text = String::from_utf8_lossy(&found.value).into_owned();
        let count: u32 = text.split(' ').next().unwrap().parse().unwrap();
        let next = format!("{} of {nonce}", count + 1);
        let anew = vec![Write::Delete { key: key("count") }, put("count", &next, None)];
        let step = txn(vec![Guard::At(key("count"), found.revision)], anew);
        loop {
            match commit(registry, step.clone()).await {
                TxnOutcome::Applied(_) => return,
                TxnOutcome::Refused(found)
                    if found[0].entry.as_ref().is_some_and(|e| *e.value == *next.as_bytes()) =>
                {
                    return;
                }
                TxnOutcome::Refused(_) => break,
                TxnOutcome::Unknown => {}
            }
        }
    }
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn whoever_is_too_far_behind_must_list_again() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let (writer, behind) = (connect(&place.url()).await, connect(&place.url()).await);
    let start = behind.list().await.unwrap().revision;
    for round in 0..11 {
        // All write the same entry besides, so each goes alone and leaves news of its own.
        let writes =
            |nth| [format!("k{nth}"), "last".to_owned()].map(|at| put(&at, &round.to_string(), None));
        let batch = (0..250).map(|nth| txn(vec![], writes(nth).into()));
        let outcomes = writer.commit(batch.collect()).await;
        assert!(
            outcomes.iter().all(|outcome| matches!(outcome, TxnOutcome::Applied(_))),
            "{:?}",
            writer.last_error()
        );
    }
    until("the end of a feed from the start", || async {
        let mut feed = behind.watch(start).await.unwrap();
        let told =
            tokio::time::timeout(Duration::from_secs(120), feed.next()).await.expect("an answer in time");
        told.is_none().then_some(())
    })
    .await;
    let listed = behind.list().await.unwrap();
    assert_eq!(listed.changes.len(), 251);
    let mut feed = behind.watch(listed.revision).await.unwrap();
    made(&writer, vec![], vec![put("after", "1", None)]).await;
    assert_eq!(next(&mut feed).await, Some(vec!["after".to_owned()]));
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_does_not_fit_in_a_packet_is_refused_and_harms_nobody() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let registry = connect(&place.url()).await;
    let half = "x".repeat(600 << 10);
    let both = txn(vec![], vec![put("a", &half, None), put("b", &half, None)]);
    assert!(matches!(commit(&registry, both).await, TxnOutcome::Refused(_)));
    made(&registry, vec![], vec![put("a", &half, None)]).await;
    assert_eq!(entry(&registry, "b").await, None);
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_user_is_let_in_and_nobody_else_and_a_password_is_never_shown() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let url = |login: &str| format!("zookeeper://{login}{}/{}", place.at, place.namespace);
    let registry = connect(&url("evenkeel:hunter2@")).await;
    let lease = registry.open(TTL).await.unwrap().lease;
    made(&registry, vec![], vec![put("a", "1", Some(lease))]).await;
    for login in ["", "evenkeel:hunter3@", "other:hunter2@"] {
        let why = refused(&url(login)).await;
        assert!(why.contains("check user and password") && !why.contains("hunter"), "{login}: {why}");
    }
    for half in ["evenkeel@", ":hunter2@"] {
        refused(&url(half)).await;
    }
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_encrypted_server_is_spoken_to_and_a_strange_one_is_not() {
    let Some(certificates) = Certificates::make() else { return };
    let Some(mut server) = ZookeeperServer::encrypted(&certificates) else { return };
    let url = |ca: &str, ours: &str| {
        let [ca, cert, key] = [ca, ours, "key.pem"].map(|name| certificates.at(name));
        format!("zookeeper://localhost:{}/test?tls=on&ca={ca}&cert={cert}&key={key}", server.secure_port())
    };
    let good = url("ca.pem", "cert.pem");
    let stranger = url("stranger.pem", "cert.pem");
    match open(&stranger).await.map(drop) {
        Err(RegistryError::Unavailable(why)) => assert!(why.contains("vouches"), "{why}"),
        other => panic!("it should be out of reach: {other:?}"),
    }
    for not_ours in ["names", "stranger.pem"] {
        assert!(refused(&url("ca.pem", not_ours)).await.contains("cannot be used"), "{not_ours}");
    }
    assert!(refused(&url("names", "cert.pem")).await.contains("cannot be used"));
    assert!(refused(&url("nobody.pem", "cert.pem")).await.contains("cannot be read"));
    let elsewhere = |host: &str| good.replace(&format!("localhost:{}", server.secure_port()), host);
    assert!(refused(&elsewhere("localhost")).await.contains("secureClientPort"));
    assert!(refused(&elsewhere("127.1:2281")).await.contains("in full"));
    let without_ours = good.split_once("&cert").unwrap().0;
    assert!(open(without_ours).await.is_err(), "the server wants to know who speaks");

    let registry = connect(&good).await;
    // A server that has just been started takes its time for the first handshakes.
    let lease = registry.open(TTL).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    made(&registry, vec![], vec![put("a", "1", Some(lease))]).await;
    assert_eq!(next(&mut feed).await, Some(vec!["a".to_owned()]));
    // Larger than a record of the encryption.
    made(&registry, vec![], vec![put("b", &"x".repeat(500_000), None)]).await;
    assert_eq!(next(&mut feed).await, Some(vec!["b".to_owned()]));

    server.kill();
    server.launch();
    until("it is served again", || async { registry.renew(lease).await.ok().flatten() }).await;
    assert_eq!(entry(&registry, "b").await.unwrap().value.len(), 500_000);
    made(&registry, vec![], vec![put("c", "1", None)]).await;
}

/// Terms shorter than two ticks do not say how long a tick is.
///
/// proves: I10
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_whose_least_term_is_shorter_than_its_ticks_does_not_pass_for_a_faster_one() {
    let Some(server) = ZookeeperServer::with("tickTime=2000\nminSessionTimeout=500\n") else { return };
    let facts = connect(&server.url()).await.facts();
    assert_eq!((facts.early, facts.ttl_min), (Millis::secs(2), Millis::secs(6)));
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_examination_tells_of_one_server_and_of_three_and_of_one_that_is_away() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let alone = connect(&place.url()).await.check_health().await.unwrap();
    assert_eq!(alone.problems, []);
    assert!(alone.version.as_ref().is_some_and(|version| version.starts_with("3.")), "{alone:?}");
    let told = |name: &str, value: &str| alone.checks.iter().any(|it| it.0 == name && it.1.contains(value));
    assert!(told("mode", "standalone") && told("members", "1;") && told("unseen", "forceSync"), "{alone:?}");

    let Some(mut ensemble) = Ensemble::start() else { return };
    let registry = connect(&ensemble.url()).await;
    let three = registry.check_health().await.unwrap();
    assert_eq!(three.problems, []);
    let told = |name: &str, value: &str| three.checks.iter().any(|it| it.0 == name && it.1.contains(value));
    assert!(told("mode", "leader") && told("mode", "follower"), "{three:?}");
    assert!(told("members", "3, of which 1 may fail"), "{three:?}");
    let away = ensemble.lose_one();
    let two = until("an answer", || async { registry.check_health().await.ok() }).await;
    assert_eq!(two.problems.len(), 1, "{two:?}");
    assert!(two.problems[0].detail.contains(&format!("{away} does not answer")), "{two:?}");
}
