//! What happens to the ZooKeeper engine when connections are cut, sessions end and servers are killed or frozen.
//!
//! Most tests play on the server at `EVENKEEL_TEST_ZOOKEEPER`, in namespaces of their own; two start their own.

#![cfg(feature = "zookeeper")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/asks.rs"]
mod asks;
#[path = "common/certificates.rs"]
mod certificates;
#[path = "common/host.rs"]
mod host;
#[path = "common/process.rs"]
mod process;
#[path = "common/proxy.rs"]
mod proxy;
#[path = "zookeeper_faults/server.rs"]
mod server;
#[path = "common/storm.rs"]
mod storm;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use asks::{Engine, commit, connect, entry, key, made, next, put, refused, txn, until};
use certificates::Certificates;
use evenkeel_core::registry::{Class, Guard, Outcome, Revision, Write};
use evenkeel_core::time::Millis;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::conformance::{fresh, server as find};
use evenkeel_registry::{RegistryError, open};
use proxy::{Proxy, Way};
use server::{Ensemble, Server, said};
use storm::{Counter, histories_hold};

const TTL: Millis = Millis::secs(2);

/// How ZooKeeper's protocol calls a transaction, and a listing.
const MULTI: [u8; 4] = 14_u32.to_be_bytes();
const CHILDREN: [u8; 4] = 12_u32.to_be_bytes();

/// The server that all share, and a namespace in it that is nobody's.
struct Place {
    at: SocketAddr,
    namespace: String,
}

impl Place {
    fn find() -> Option<Self> {
        let url = fresh(&find("ZOOKEEPER")?);
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
async fn a_lost_answer_is_unknown_and_settled_by_sending_again() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let at = made(&near, vec![], vec![put("job/a/place", "free", None)]).await;
    let lease = far.open(Millis::secs(30)).await.unwrap().lease;
    let claim = txn(vec![Guard::At(key("job/a/place"), at)], vec![put("job/a/place", "nonce 17", None)]);
    // What the engine looks at before it writes is answered; what it writes is written, and not answered.
    proxy.set(Way::NoAnswersFrom(MULTI));
    assert_eq!(commit(&far, claim.clone()).await, Outcome::Unknown);
    assert!(matches!(far.trouble().as_deref(), Some(RegistryError::Unavailable(_))));
    assert!(matches!(far.renew(lease).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.open(TTL).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.list().await, Err(RegistryError::Unavailable(_))));
    proxy.set(Way::Open);
    let settled = until("an answer", || async {
        Some(commit(&far, claim.clone()).await).filter(|outcome| *outcome != Outcome::Unknown)
    })
    .await;
    let found = entry(&near, "job/a/place").await.unwrap();
    assert_eq!(&*found.value, b"nonce 17");
    let Outcome::Refused(told) = settled else { panic!("made twice: {settled:?}") };
    assert_eq!(told[0].entry, Some(found));
    assert_eq!(far.trouble(), None);
    until("a renewal", || async { far.renew(lease).await.ok().flatten() }).await;
}

/// What was asked arrives and is done; the answer is lost.
#[tokio::test]
async fn lost_answers_about_leases_and_listings_harm_nobody() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let operator = zookeeper_client::Client::connect(&place.at.to_string()).await.unwrap();
    let leases = format!("/{}/lease", place.namespace);
    let count = || async { operator.list_children(&leases).await.unwrap().len() };
    let lease = far.open(Millis::secs(30)).await.unwrap().lease;
    made(&far, vec![], vec![put("node/a@1", "", Some(lease))]).await;

    proxy.set(Way::NoAnswersFrom(CHILDREN));
    assert!(matches!(far.list().await, Err(RegistryError::Unavailable(_))));
    proxy.set(Way::Open);
    let listed = until("a listing", || async { far.list().await.ok() }).await;
    assert_eq!(listed.changes.len(), 1);

    proxy.set(Way::NoAnswersFrom(MULTI));
    assert!(matches!(far.open(Millis::secs(3)).await, Err(RegistryError::Unavailable(_))));
    assert_eq!(count().await, 2, "it was opened all the same");
    proxy.set(Way::Open);
    until("the end of what nobody knows of", || async { (count().await == 1).then_some(()) }).await;
    until("a renewal", || async { far.renew(lease).await.ok().flatten() }).await;
    // Both sessions are back, so what is asked next arrives.
    until("a listing", || async { far.list().await.ok() }).await;

    proxy.set(Way::NoAnswersFrom(MULTI));
    assert!(matches!(far.close(lease).await, Err(RegistryError::Unavailable(_))));
    assert_eq!((count().await, entry(&near, "node/a@1").await), (0, None), "it was closed all the same");
    proxy.set(Way::Open);
    until("the same again", || async { far.close(lease).await.ok() }).await;
    assert_eq!(far.renew(lease).await, Ok(None));
}

/// Connections are cut all the time while transactions are sent until they are answered: each counts once.
///
/// proves: S1-09, I46
#[tokio::test]
async fn a_storm_of_cut_connections_loses_no_increment_and_makes_none_twice() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let counter = Counter::start(&near, &far, 40).await;
    for cut in 0..6 {
        proxy.set(if cut % 2 == 0 { Way::NoAnswersFrom(MULTI) } else { Way::Closed });
        tokio::time::sleep(Duration::from_millis(10)).await;
        proxy.set(Way::Open);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    counter.check(&near).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_in_a_storm_can_have_happened_one_after_the_other() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (place.url(), place.through(proxy.at()));
    let near = [connect(&near).await, connect(&near).await];
    let far = [connect(&far).await, connect(&far).await];
    histories_hold((&near, &far), (&proxy, [Way::NoAnswers, Way::Closed]), 400).await;
}

/// The client loses its watches at a reconnect without a word.
#[tokio::test]
async fn a_cut_connection_loses_no_news_and_its_watches_are_set_again() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let mut feed = far.watch(far.list().await.unwrap().revision).await.unwrap();
    let watched = || async {
        // Two of the near one, two of the far one.
        let list = said(place.at, "wchc");
        let of = |path: &str| list.lines().filter(|line| line.trim() == path).count();
        let (news, leases) = (format!("/{}/news", place.namespace), format!("/{}/lease", place.namespace));
        (of(&news) == 2 && of(&leases) == 2).then_some(())
    };
    until("watches", watched).await;
    for round in 0..3 {
        proxy.set(Way::Closed);
        let name = format!("missed{round}");
        made(&near, vec![], vec![put(&name, "1", None)]).await;
        proxy.set(Way::Open);
        assert_eq!(next(&mut feed).await, Some(vec![name]));
        until("watches, set again", watched).await;
        let name = format!("heard{round}");
        made(&near, vec![], vec![put(&name, "1", None)]).await;
        assert_eq!(next(&mut feed).await, Some(vec![name]));
    }
}

/// A lost connection is not a lost session, and a lost session is one for good.
///
/// proves: I10
#[tokio::test]
async fn a_holder_cut_off_for_less_than_its_term_keeps_its_lease_and_for_more_loses_it() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let lease = far.open(Millis::secs(4)).await.unwrap().lease;
    made(&far, vec![Guard::Open(lease)], vec![put("node/a@1", "", Some(lease)), put("b", "", Some(lease))])
        .await;
    let mut feed = near.watch(near.list().await.unwrap().revision).await.unwrap();
    proxy.set(Way::Closed);
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.set(Way::Open);
    until("a renewal", || async { far.renew(lease).await.ok() }).await.expect("its session lives");
    assert!(entry(&near, "node/a@1").await.is_some());
    proxy.set(Way::Closed);
    let mut gone = next(&mut feed).await.unwrap();
    gone.sort();
    assert_eq!(gone, ["b", "node/a@1"], "both at once");
    made(&near, vec![Guard::Absent(key("node/a@1"))], vec![]).await;
    proxy.set(Way::Open);
    assert_eq!(until("an answer", || async { far.renew(lease).await.ok() }).await, None);
    assert!(!matches!(
        commit(&far, txn(vec![Guard::Open(lease)], vec![put("c", "", None)])).await,
        Outcome::Applied(_)
    ));
    // Life goes on with another lease.
    let again = until("a lease", || async { far.open(TTL).await.ok() }).await;
    assert!(again.lease > lease);
}

/// As when a process is killed: nobody is told, and the term counts from when it was last heard.
#[tokio::test]
async fn what_a_lost_process_held_ends_after_its_term_and_not_before() {
    let Some(place) = Place::find() else { return };
    let (near, lost) = (connect(&place.url()).await, connect(&place.url()).await);
    let granted = lost.open(Millis::secs(3)).await.unwrap();
    made(&lost, vec![], vec![put("node/a@1", "", Some(granted.lease))]).await;
    let mut feed = near.watch(near.list().await.unwrap().revision).await.unwrap();
    let renewed = Stopwatch::start();
    assert!(lost.renew(granted.lease).await.unwrap().is_some());
    drop(lost);
    assert_eq!(next(&mut feed).await, Some(vec!["node/a@1".to_owned()]));
    let facts = near.facts();
    let least = granted.ttl - facts.early;
    let passed = renewed.passed();
    assert!(passed >= Duration::from_millis(least.0.unsigned_abs()), "after {passed:?}");
    // Two ticks, and what a busy machine takes.
    assert!(passed <= Duration::from_millis(3_000 + 2 * 250 + 1_000), "after {passed:?}");
}

/// The session that made the lease's node ends after another one took it over.
#[tokio::test]
async fn a_lease_taken_to_another_session_does_not_end_with_the_first() {
    let Some(place) = Place::find() else { return };
    let (first, second) = (connect(&place.url()).await, connect(&place.url()).await);
    let lease = first.open(TTL).await.unwrap().lease;
    made(&first, vec![], vec![put("node/a@1", "", Some(lease))]).await;
    assert!(second.renew(lease).await.unwrap().is_some());
    drop(first);
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(second.renew(lease).await.unwrap().is_some());
    }
    assert!(entry(&second, "node/a@1").await.is_some());
    second.close(lease).await.unwrap();
    assert_eq!(entry(&second, "node/a@1").await, None);
}

/// Whoever held it before looks after what it was asked to renew, and that is over; the lease is not.
///
/// proves: I10
#[tokio::test]
async fn a_lease_that_another_took_over_is_not_ended_by_who_held_it_before() {
    let Some(place) = Place::find() else { return };
    let (first, second) = (connect(&place.url()).await, connect(&place.url()).await);
    let granted = first.open(TTL).await.unwrap();
    made(&first, vec![], vec![put("node/a@1", "", Some(granted.lease))]).await;
    let opened = Stopwatch::start();
    while opened.passed() < Duration::from_secs(5) {
        assert!(second.renew(granted.lease).await.unwrap().is_some(), "after {:?}", opened.passed());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(entry(&second, "node/a@1").await.is_some());
    // Nobody renews it any more: it ends, as any other.
    until("its end", || async { entry(&first, "node/a@1").await.is_none().then_some(()) }).await;
}

/// Two are overdue at once; while the end of one is under way the other is renewed.
///
/// proves: I10
#[tokio::test]
async fn a_lease_that_is_renewed_at_its_end_is_not_ended_behind_that() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    // Between two of the looks that are taken each second, which would be held as well.
    let ttl = Millis(5_500);
    let opened = Stopwatch::start();
    let [one, other] = [far.open(ttl).await.unwrap().lease, far.open(ttl).await.unwrap().lease];
    made(&far, vec![], vec![put("node/a@1", "", Some(one)), put("node/b@1", "", Some(other))]).await;
    tokio::time::sleep(Duration::from_millis(5_400).saturating_sub(opened.passed())).await;
    proxy.set(Way::Held);
    tokio::time::sleep(Duration::from_millis(320)).await;
    let renewed = tokio::spawn({
        let far = far.clone();
        async move { far.renew(other).await }
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    proxy.set(Way::Open);
    let renewed = renewed.await.unwrap().unwrap();
    until("the end of the one", || async { entry(&near, "node/a@1").await.is_none().then_some(()) }).await;
    // Long enough for all that was to be ended then, and far less than a term.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(renewed.is_some(), entry(&near, "node/b@1").await.is_some(), "renewed: {renewed:?}");
}

/// A node that is made again has the version it had before. Nothing may be taken for what it was.
///
/// proves: S1-09
#[tokio::test]
async fn no_increment_is_lost_though_each_makes_the_node_anew() {
    const ADDERS: u32 = 4;
    const EACH: u32 = 20;
    let Some(place) = Place::find() else { return };
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

async fn add_one(registry: &Engine, nonce: &str) {
    loop {
        let found = registry.read(vec![key("count")]).await.unwrap()[0].entry.clone().unwrap();
        let text = String::from_utf8_lossy(&found.value).into_owned();
        let count: u32 = text.split(' ').next().unwrap().parse().unwrap();
        let next = format!("{} of {nonce}", count + 1);
        let anew = vec![Write::Delete { key: key("count") }, put("count", &next, None)];
        let step = txn(vec![Guard::At(key("count"), found.revision)], anew);
        loop {
            match commit(registry, step.clone()).await {
                Outcome::Applied(_) => return,
                Outcome::Refused(found)
                    if found[0].entry.as_ref().is_some_and(|e| *e.value == *next.as_bytes()) =>
                {
                    return;
                }
                Outcome::Refused(_) => break,
                Outcome::Unknown => {}
            }
        }
    }
}

#[tokio::test]
async fn whoever_is_too_far_behind_must_list_again() {
    let Some(place) = Place::find() else { return };
    let (writer, behind) = (connect(&place.url()).await, connect(&place.url()).await);
    let start = behind.list().await.unwrap().revision;
    for round in 0..11 {
        // All write the same entry besides, so each goes alone and leaves news of its own.
        let writes =
            |nth| [format!("k{nth}"), "last".to_owned()].map(|at| put(&at, &round.to_string(), None));
        let batch = (0..250).map(|nth| txn(vec![], writes(nth).into()));
        let outcomes = writer.commit(batch.collect()).await;
        assert!(
            outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied(_))),
            "{:?}",
            writer.trouble()
        );
    }
    until("the end of a feed from the start", || async {
        let mut feed = behind.watch(start).await.unwrap();
        let told =
            tokio::time::timeout(Duration::from_secs(20), feed.next()).await.expect("an answer in time");
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
async fn what_does_not_fit_in_a_packet_is_refused_and_harms_nobody() {
    let Some(place) = Place::find() else { return };
    let registry = connect(&place.url()).await;
    let half = "x".repeat(600 << 10);
    let both = txn(vec![], vec![put("a", &half, None), put("b", &half, None)]);
    assert!(matches!(commit(&registry, both).await, Outcome::Refused(_)));
    made(&registry, vec![], vec![put("a", &half, None)]).await;
    assert_eq!(entry(&registry, "b").await, None);
}

#[tokio::test]
async fn a_user_is_let_in_and_nobody_else_and_a_password_is_never_shown() {
    let Some(place) = Place::find() else { return };
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
async fn an_encrypted_server_is_spoken_to_and_a_strange_one_is_not() {
    let Some(certificates) = Certificates::make() else { return };
    let Some(mut server) = Server::encrypted(&certificates) else { return };
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

/// proves: I1
#[tokio::test]
async fn a_killed_server_that_starts_again_has_lost_nothing_not_even_a_lease() {
    let Some(mut server) = Server::start() else { return };
    let registry = connect(&server.url()).await;
    let facts = registry.facts();
    assert_eq!((facts.class, facts.early), (Class::A, Millis(500)));
    let lease = registry.open(Millis::secs(20)).await.unwrap().lease;
    let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
    let before = made(&registry, vec![], vec![put("node/a@1", "", Some(lease)), put("a", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(2));
    server.kill();
    assert_eq!(commit(&registry, txn(vec![], vec![put("b", "1", None)])).await, Outcome::Unknown);
    server.again();
    until("a renewal", || async { registry.renew(lease).await.ok() }).await.expect("the lease lives");
    let kept = entry(&registry, "a").await.map(|e| e.revision);
    assert_eq!(kept, Some(before));
    assert!(made(&registry, vec![], vec![put("c", "1", None)]).await > before);
    let mut heard = Vec::new();
    while !heard.contains(&"c".to_owned()) {
        heard.extend(next(&mut feed).await.expect("the feed goes on"));
    }
    assert_eq!(connect(&server.url()).await.facts(), facts);
}

/// The data of yesterday under the same name: only who was there can tell.
#[tokio::test]
async fn zookeeper_that_went_back_in_time_is_noticed_and_begins_a_new_generation() {
    let Some(mut server) = Server::start() else { return };
    let (registry, other) = (connect(&server.url()).await, connect(&server.url()).await);
    assert_eq!(registry.facts().generation, 0);
    let lease = registry.open(Millis::secs(20)).await.unwrap().lease;
    made(&registry, vec![], vec![put("a", "old", None)]).await;
    server.kill();
    server.keep();
    server.again();
    for step in 0..10 {
        let write = txn(vec![], vec![put("a", &step.to_string(), None)]);
        until("it is made", || async {
            matches!(commit(&registry, write.clone()).await, Outcome::Applied(_)).then_some(())
        })
        .await;
    }
    let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
    until("the other knows it too", || async { other.list().await.ok() }).await;
    server.kill();
    server.go_back();
    server.again();

    for noticed in [&registry, &other] {
        let why = until("it is noticed", || async {
            noticed.list().await.err().filter(|why| matches!(why, RegistryError::Fatal(_)))
        })
        .await;
        assert!(why.to_string().contains("has gone back in time"), "{why}");
        assert_eq!(commit(noticed, txn(vec![], vec![put("a", "lost", None)])).await, Outcome::Unknown);
        assert_eq!(noticed.trouble().as_deref(), Some(&why));
        assert_eq!(noticed.renew(lease).await, Err(why.clone()));
        assert_eq!(noticed.watch(Revision(0)).await.err(), Some(why));
    }
    assert_eq!(next(&mut feed).await, None, "whoever listens hears the end");
    // Two noticed it, which is one return.
    let again = connect(&server.url()).await;
    assert_eq!(again.facts().generation, 1);
    assert_eq!(entry(&again, "a").await.map(|it| it.value.to_vec()), Some(b"old".to_vec()));
    made(&again, vec![], vec![put("a", "new", None)]).await;
}

#[tokio::test]
async fn who_finds_a_new_generation_at_its_return_stops() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    proxy.set(Way::Closed);
    let operator = zookeeper_client::Client::connect(&place.at.to_string()).await.unwrap();
    operator.set_data(&format!("/{}", place.namespace), b"1 7", None).await.unwrap();
    proxy.set(Way::Open);
    let why = until("it is noticed", || async {
        far.list().await.err().filter(|why| matches!(why, RegistryError::Fatal(_)))
    })
    .await;
    assert!(why.to_string().contains("new generation"), "{why}");
    assert_eq!(connect(&place.url()).await.facts().generation, 7);
    assert!(near.list().await.is_ok(), "who was not away has heard nothing of it");
}

/// A server that starts again counts all sessions from anew.
///
/// proves: I10
#[tokio::test]
async fn a_lease_whose_holder_died_before_a_restart_ends_a_term_after_it_at_most() {
    let Some(mut server) = Server::start() else { return };
    let (near, lost) = (connect(&server.url()).await, connect(&server.url()).await);
    let granted = lost.open(Millis::secs(4)).await.unwrap();
    let term = Duration::from_millis(granted.ttl.0.unsigned_abs());
    made(&lost, vec![], vec![put("node/a@1", "", Some(granted.lease))]).await;
    let asked = Stopwatch::start();
    assert!(lost.renew(granted.lease).await.unwrap().is_some());
    drop(lost);
    tokio::time::sleep(term / 2).await;
    server.kill();
    server.again();
    let restarted = Stopwatch::start();
    until("its end", || async {
        near.read(vec![key("node/a@1")]).await.ok().filter(|found| found[0].entry.is_none())
    })
    .await;
    let early = Duration::from_millis(near.facts().early.0.unsigned_abs());
    assert!(asked.passed() >= term - early, "ended early, after {:?}", asked.passed());
    // Two ticks, and what a busy machine takes.
    let late = restarted.passed();
    assert!(late <= term + Duration::from_millis(2 * 250 + 2_000), "{late:?} after the restart");
}

/// Terms shorter than two ticks do not say how long a tick is.
///
/// proves: I10
#[tokio::test]
async fn a_server_whose_least_term_is_shorter_than_its_ticks_does_not_pass_for_a_faster_one() {
    let Some(server) = Server::with("tickTime=2000\nminSessionTimeout=500\n") else { return };
    let facts = connect(&server.url()).await.facts();
    assert_eq!((facts.early, facts.ttl_min), (Millis::secs(2), Millis::secs(6)));
}

#[tokio::test]
async fn an_examination_tells_of_one_server_and_of_three_and_of_one_that_is_away() {
    let Some(place) = Place::find() else { return };
    let alone = connect(&place.url()).await.examine().await.unwrap();
    assert_eq!(alone.faults, []);
    assert!(alone.version.as_ref().is_some_and(|version| version.starts_with("3.")), "{alone:?}");
    let told = |name: &str, value: &str| alone.told.iter().any(|it| it.0 == name && it.1.contains(value));
    assert!(told("mode", "standalone") && told("members", "1;") && told("unseen", "forceSync"), "{alone:?}");

    let Some(mut ensemble) = Ensemble::start() else { return };
    let registry = connect(&ensemble.url()).await;
    let three = registry.examine().await.unwrap();
    assert_eq!(three.faults, []);
    let told = |name: &str, value: &str| three.told.iter().any(|it| it.0 == name && it.1.contains(value));
    assert!(told("mode", "leader") && told("mode", "follower"), "{three:?}");
    assert!(told("members", "3, of which 1 may fail"), "{three:?}");
    let away = ensemble.lose_one();
    let two = until("an answer", || async { registry.examine().await.ok() }).await;
    assert_eq!(two.faults.len(), 1, "{two:?}");
    assert!(two.faults[0].what.contains(&format!("{away} does not answer")), "{two:?}");
}

#[tokio::test]
async fn what_a_frozen_server_makes_of_a_lease_is_so_for_everybody() {
    let Some(server) = Server::start() else { return };
    let registry = connect(&server.url()).await;
    let lease = registry.open(Millis::secs(4)).await.unwrap().lease;
    server.freeze();
    assert!(registry.renew(lease).await.is_err(), "nobody answers");
    server.thaw();
    let told = until("an answer", || async { registry.renew(lease).await.ok() }).await;
    // Frozen for its term, the server may count it as over or not; what it says is so for everybody.
    let open = until("an answer", || async {
        match commit(&registry, txn(vec![Guard::Open(lease)], vec![])).await {
            Outcome::Applied(_) => Some(true),
            Outcome::Refused(_) => Some(false),
            Outcome::Unknown => None,
        }
    })
    .await;
    assert_eq!(told.is_some(), open);
}

/// Two write while leaders fall: what was answered is there, in one order for both, and nobody loses a lease.
///
/// proves: S1-09, I46
#[tokio::test]
async fn an_ensemble_that_loses_its_leader_loses_nothing_else() {
    let Some(mut ensemble) = Ensemble::start() else { return };
    let (left, right) = (connect(&ensemble.url()).await, connect(&ensemble.url()).await);
    let lease = left.open(Millis::secs(5)).await.unwrap().lease;
    made(&left, vec![], vec![put("count", "0", None), put("node/a@1", "", Some(lease))]).await;
    let stop = Arc::new(tokio::sync::Notify::new());
    let so_far = Arc::new(AtomicU32::new(0));
    let adders: Vec<_> = [left.clone(), right.clone()]
        .into_iter()
        .enumerate()
        .map(|(adder, registry)| {
            let (stop, so_far) = (stop.clone(), so_far.clone());
            tokio::spawn(async move {
                let mut added = 0;
                let stopped = stop.notified();
                tokio::pin!(stopped);
                while tokio::time::timeout(Duration::from_millis(5), &mut stopped).await.is_err() {
                    if try_to_add_one(&registry, adder, added).await {
                        added += 1;
                        so_far.fetch_add(1, Ordering::Relaxed);
                    }
                }
                added
            })
        })
        .collect();
    let holder = {
        let left = left.clone();
        tokio::spawn(async move {
            loop {
                if let Ok(told) = left.renew(lease).await {
                    assert!(told.is_some(), "the lease was lost");
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
    };
    let ensemble = tokio::task::spawn_blocking(move || {
        ensemble.depose();
        ensemble.depose();
        ensemble
    });
    let _ensemble = ensemble.await.unwrap();
    let fallen = so_far.load(Ordering::Relaxed);
    until("more is added", async || (so_far.load(Ordering::Relaxed) > fallen + 10).then_some(())).await;
    stop.notify_waiters();
    let mut added = 0;
    for adder in adders {
        added += adder.await.unwrap();
    }
    assert!(!holder.is_finished(), "the lease was lost");
    holder.abort();
    for registry in [left, right] {
        let count = until("the count", || async { registry.read(vec![key("count")]).await.ok() }).await;
        let count = count[0].entry.clone().unwrap();
        assert_eq!(String::from_utf8_lossy(&count.value), added.to_string());
        assert!(entry(&registry, "node/a@1").await.is_some());
    }
}

/// Counts one up, sent until it is answered; `false` when somebody was faster. What an adder last did it writes down in
/// the same transaction, so that it knows even when somebody has counted on since.
async fn try_to_add_one(registry: &Engine, adder: usize, nonce: u32) -> bool {
    let Ok(found) = registry.read(vec![key("count")]).await else { return false };
    let found = found[0].entry.clone().unwrap();
    let count: u32 = String::from_utf8_lossy(&found.value).parse().unwrap();
    let (mine, nonce) = (format!("last{adder}"), nonce.to_string());
    let writes = vec![put("count", &(count + 1).to_string(), None), put(&mine, &nonce, None)];
    let step = txn(vec![Guard::At(key("count"), found.revision)], writes);
    loop {
        match commit(registry, step.clone()).await {
            Outcome::Applied(_) => return true,
            Outcome::Unknown => {}
            Outcome::Refused(found) => {
                let last = found.into_iter().find(|change| change.key == key(&mine)).and_then(|it| it.entry);
                return last.is_some_and(|entry| *entry.value == *nonce.as_bytes());
            }
        }
    }
}
