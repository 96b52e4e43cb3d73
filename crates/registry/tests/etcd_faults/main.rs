//! What etcd and the way to it do to us: killed, frozen, cut, compacted, restored, without a leader.
#![cfg(feature = "etcd")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod back;
#[path = "../common/certificates.rs"]
mod certificates;
#[path = "../common/counting.rs"]
mod counting;
mod feeds;
mod foreign_changes;
#[path = "../common/host.rs"]
mod host;
#[path = "../common/lease_terms.rs"]
#[expect(dead_code, reason = "these tests renew what they wait for in one way")]
mod lease_terms;
mod leases;
mod limits;
#[path = "../common/listening.rs"]
mod listening;
#[path = "../common/process.rs"]
mod process;
#[path = "../common/proxy.rs"]
#[expect(
    dead_code,
    reason = "etcd's connections answer before anything is asked, so a first answer says nothing"
)]
mod proxy;
#[path = "../common/requests.rs"]
#[expect(dead_code, reason = "these tests have words of their own for the rest")]
mod requests;
mod server;
#[path = "../common/still.rs"]
mod still;
#[path = "../common/until.rs"]
mod until;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use certificates::Certificates;
use counting::{CountingClient, histories_hold};
use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Guard, LeaseId, Revision, Txn, TxnOutcome, Write};
use evenkeel_core::time::Millis;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::{Feed, Registry, RegistryError, open};
use proxy::{Proxy, ProxyMode};
use server::EtcdCluster;

/// How long anything may take before the test gives up.
const LONG: Duration = Duration::from_secs(120);

fn key(text: &str) -> Key {
    Key::from_stored(text)
}

fn put(at: &str, value: &str, owner: Option<LeaseId>) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner }
}

fn txn(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Txn {
    Txn { guards: guards.into(), writes: writes.into() }
}

async fn commit(registry: &Arc<dyn Registry>, txn: &Txn) -> TxnOutcome {
    registry.commit(vec![txn.clone()]).await.remove(0)
}

async fn made(registry: &Arc<dyn Registry>, writes: impl Into<Vec<Write>>) -> Revision {
    match commit(registry, &txn([], writes)).await {
        TxnOutcome::Applied(revision) => revision,
        other => panic!("should have been made: {other:?}"),
    }
}

async fn value(registry: &Arc<dyn Registry>, at: &str) -> Option<String> {
    let found = registry.read(vec![key(at)]).await.ok()?.remove(0).entry?;
    Some(String::from_utf8_lossy(&found.value).into_owned())
}

/// Tries again until it is so.
async fn until<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    let wait = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn connect(url: &str) -> Arc<dyn Registry> {
    open(url).await.expect("etcd is connected to")
}

async fn through(proxy: &Proxy) -> Arc<dyn Registry> {
    connect(&format!("etcd://{}/test", proxy.at())).await
}

/// Everything that is told up to a revision.
async fn changes_until(feed: &mut Feed, until: Revision) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let batch = tokio::time::timeout(LONG, feed.next()).await.expect("news in time").expect("no gap");
        changes.extend(batch.changes);
        if batch.revision >= until {
            return changes;
        }
    }
}

/// Adds one to a counter again and again, as a node does: guarded, and sent again where the answer was lost. Returns how
/// often it was told that it did.
async fn count(registry: Arc<dyn Registry>, stop: Arc<AtomicBool>) -> u32 {
    let (mut own, mut last) = (0_u32, None::<(Revision, u32)>);
    while !stop.load(Ordering::Relaxed) {
        let (guard, next) = match last {
            None => (Guard::Absent(key("count")), 1),
            Some((revision, count)) => (Guard::At(key("count"), revision), count + 1),
        };
        let add = txn([guard], [put("count", &next.to_string(), None)]);
        match commit(&registry, &add).await {
            TxnOutcome::Applied(revision) => last = Some((revision, next)),
            TxnOutcome::Refused(found) => {
                // The only writer finds its own: the first try was made.
                let entry = found[0].entry.clone().expect("a counter is not deleted");
                assert_eq!(*entry.value, *next.to_string().as_bytes(), "an answered write was lost");
                last = Some((entry.revision, next));
            }
            TxnOutcome::Unknown => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        }
        own = next;
    }
    own
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn killed_under_writes_it_loses_nothing_that_was_answered() {
    let Some(mut etcd) = EtcdCluster::start(1) else { return };
    let registry = connect(&etcd.url()).await;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(count(registry.clone(), stop.clone()));
    let mut leases = vec![registry.open(Millis::secs(600)).await.unwrap().lease];
    for round in 0..3_u32 {
        let before = value(&registry, "count").await;
        until("more was counted", || async { value(&registry, "count").await > before }).await;
        etcd.members[0].kill();
        etcd.members[0].start();
        until("a lease is granted", || async { registry.renew(leases[0]).await.is_ok() }).await;
        let lease = registry.open(Millis::secs(600)).await.unwrap().lease;
        assert!(lease > leases[leases.len() - 1], "round {round}: lease numbers grow across a restart");
        leases.push(lease);
    }
    stop.store(true, Ordering::Relaxed);
    let counted = writer.await.unwrap();
    let listed = registry.list().await.unwrap();
    assert_eq!(value(&registry, "count").await, Some(counted.to_string()));
    // One listener heard all of it, whatever was cut meanwhile: each number once, in order.
    let told = changes_until(&mut feed, listed.revision).await;
    let told: Vec<u32> = told.into_iter().filter(|it| it.key == key("count")).map(|it| number(&it)).collect();
    assert_eq!(told, (1..=counted).collect::<Vec<_>>());
    for lease in leases {
        assert!(registry.renew(lease).await.unwrap().is_some(), "{lease} survives");
    }
}

fn number(change: &Change) -> u32 {
    let entry = change.entry.as_ref().expect("a counter is not deleted");
    String::from_utf8_lossy(&entry.value).parse().expect("a number")
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_lost_answer_is_settled_by_sending_again() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let (direct, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let registry = through(&proxy).await;
    let free = made(&registry, [put("job/a/assignment", "free", None)]).await;
    let claim = txn([Guard::At(key("job/a/assignment"), free)], [put("job/a/assignment", "a@1 nonce", None)]);

    proxy.set(ProxyMode::Deaf);
    assert_eq!(commit(&registry, &claim).await, TxnOutcome::Unknown);
    assert!(registry.last_error().is_some(), "somebody can ask why");
    assert_eq!(
        value(&direct, "job/a/assignment").await.as_deref(),
        Some("a@1 nonce"),
        "it was made all the same"
    );
    proxy.set(ProxyMode::Open);
    until("an answer comes", || async { commit(&registry, &txn([], [])).await != TxnOutcome::Unknown }).await;
    assert_eq!(registry.last_error(), None);
    let settled = commit(&registry, &claim).await;
    let TxnOutcome::Refused(found) = settled else { panic!("should have been refused: {settled:?}") };
    assert_eq!(found[0].entry.as_ref().map(|e| &*e.value), Some(&b"a@1 nonce"[..]));

    // A question that never arrived is made by being sent again.
    let next = txn(
        [Guard::At(key("job/a/assignment"), found[0].entry.as_ref().unwrap().revision)],
        [put("job/a/assignment", "b@2 nonce", None)],
    );
    proxy.set(ProxyMode::Closed);
    assert_eq!(commit(&registry, &next).await, TxnOutcome::Unknown);
    assert_eq!(value(&direct, "job/a/assignment").await.as_deref(), Some("a@1 nonce"));
    proxy.set(ProxyMode::Open);
    until("it is made", || async { matches!(commit(&registry, &next).await, TxnOutcome::Applied(_)) }).await;
}

/// Half of the clients are behind a way on which answers are lost and connections cut.
///
/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_history_in_a_storm_can_have_happened_one_after_the_other() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let proxy = Proxy::start(etcd.members[0].at()).await;
    let near = [connect(&etcd.url()).await, connect(&etcd.url()).await];
    let far = [through(&proxy).await, through(&proxy).await];
    histories_hold((&near, &far), (&proxy, [ProxyMode::Deaf, ProxyMode::Closed]), 1_000).await;
}

/// Whatever is only looked at can be looked at again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn lost_answers_about_entries_are_asked_for_again() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let proxy = Proxy::start(etcd.members[0].at()).await;
    let registry = through(&proxy).await;
    made(&registry, [put("a", "1", None)]).await;
    let listed = registry.list().await.unwrap();
    proxy.set(ProxyMode::Deaf);
    let (list, read) = tokio::join!(registry.list(), registry.read(vec![key("a")]));
    assert!(matches!(list, Err(RegistryError::Unavailable(_))), "{list:?}");
    assert!(matches!(read, Err(RegistryError::Unavailable(_))), "{read:?}");
    proxy.set(ProxyMode::Open);
    until("it can be read again", || async { value(&registry, "a").await.is_some() }).await;
    assert_eq!(registry.list().await, Ok(listed));
}

/// Connections are cut all the time while transactions are sent until they are answered: each counts once.
///
/// proves: S1-09, I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_storm_of_cut_connections_loses_no_increment_and_makes_none_twice() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let (near, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let far = through(&proxy).await;
    let counter = CountingClient::start(&near, &far, 40).await;
    for cut in 0..8 {
        proxy.set(if cut % 2 == 0 { ProxyMode::Deaf } else { ProxyMode::Closed });
        tokio::time::sleep(Duration::from_millis(20)).await;
        proxy.set(ProxyMode::Open);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    counter.check(&near).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn three_members_lose_their_leaders_and_nothing_else() {
    let Some(mut etcd) = EtcdCluster::start(3) else { return };
    let registry = connect(&etcd.url()).await;
    let lease = registry.open(Millis::secs(600)).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(count(registry.clone(), stop.clone()));
    for round in 0..4 {
        let leader = etcd.leader().await;
        if round % 2 == 0 {
            etcd.members[leader].kill();
        } else {
            etcd.members[leader].freeze();
        }
        let before = value_soon(&registry).await;
        until("the others go on", || async { value(&registry, "count").await > before }).await;
        until("the lease lives on", || async {
            let renewed = registry.renew(lease).await;
            assert_ne!(renewed, Ok(None), "ended early");
            renewed.is_ok()
        })
        .await;
        if round % 2 == 0 {
            etcd.members[leader].start();
        } else {
            etcd.members[leader].thaw();
        }
        until("there is one leader", || async { etcd.members.iter().filter(|it| it.leads()).count() == 1 })
            .await;
    }
    stop.store(true, Ordering::Relaxed);
    let counted = writer.await.unwrap();
    let listed = registry.list().await.unwrap();
    let told: BTreeMap<_, _> =
        changes_until(&mut feed, listed.revision).await.into_iter().map(|it| (it.revision, it)).collect();
    let told: Vec<u32> = told.values().filter(|it| it.key == key("count")).map(number).collect();
    assert_eq!(told, (1..=counted).collect::<Vec<_>>());
}

/// What a leader was to propose is lost with it, and etcd says nothing for seven seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn who_waits_for_a_leader_that_is_gone_is_told_when_there_is_another_one() {
    let Some(etcd) = EtcdCluster::start(3) else { return };
    let registry = connect(&etcd.url()).await;
    made(&registry, [put("a", "1", None)]).await;
    // What else the machine does may make an answer come too late to be the first, so the best of several tries counts.
    let mut tries = Vec::new();
    loop {
        until("there is one leader", || async { etcd.members.iter().filter(|it| it.leads()).count() == 1 })
            .await;
        let leader = etcd.leader().await;
        etcd.members[leader].freeze();
        let mut troubles = Vec::new();
        while !matches!(commit(&registry, &txn([], [put("a", "2", None)])).await, TxnOutcome::Applied(_)) {
            troubles.extend(registry.last_error().map(|trouble| trouble.to_string()));
        }
        etcd.members[leader].thaw();
        let hopeless = ["its leader went while it was asked", "it does not say how it is"];
        if troubles.iter().any(|told| hopeless.iter().any(|why| told.contains(why)))
            && !troubles.iter().any(|told| told.contains("no answer within"))
        {
            return;
        }
        tries.push(troubles);
        assert!(tries.len() < 6, "{tries:?}");
    }
}

async fn value_soon(registry: &Arc<dyn Registry>) -> Option<String> {
    let found = std::cell::RefCell::new(None);
    until("it can be read", || async {
        let read = value(registry, "count").await;
        let there = read.is_some();
        *found.borrow_mut() = read;
        there
    })
    .await;
    found.into_inner()
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_encrypted_server_is_spoken_to_and_a_strange_one_is_not() {
    let Some(certificates) = Certificates::make() else { return };
    let Some(mut etcd) = EtcdCluster::encrypted(&certificates) else { return };
    let url = |ca: &str, ours: &str| {
        let [ca, cert, key] = [ca, ours, "key.pem"].map(|name| certificates.at(name));
        format!("etcd://localhost:{}/test?tls=on&ca={ca}&cert={cert}&key={key}", etcd.members[0].port)
    };
    let good = url("ca.pem", "cert.pem");
    let (stranger, nobody) = (url("stranger.pem", "cert.pem"), url("nobody.pem", "cert.pem"));
    match open(&stranger).await.map(drop) {
        Err(RegistryError::Refused(why)) => assert!(why.contains("do not trust each other"), "{why}"),
        other => panic!("it should have been refused: {other:?}"),
    }
    assert!(
        matches!(open(&nobody).await.map(drop), Err(RegistryError::Refused(why)) if why.contains("read"))
    );
    let without_ours = good.split_once("&cert").expect("it has one").0;
    assert!(open(without_ours).await.is_err(), "the server wants to know who speaks");

    let registry = connect(&good).await;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let first = made(&registry, [put("a", "1", None)]).await;
    assert_eq!(changes_until(&mut feed, first).await.len(), 1);
    etcd.members[0].kill();
    etcd.members[0].start();
    until("it is served again", || async { value(&registry, "a").await.is_some() }).await;
    let after = made(&registry, [put("a", "2", None)]).await;
    assert_eq!(changes_until(&mut feed, after).await.len(), 1);
}

/// A user who may do what we need below the namespace and nothing else; its token is lost when etcd is started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_user_with_one_role_suffices_and_its_token_is_renewed() {
    let Some(mut etcd) = EtcdCluster::start(1) else { return };
    // Base64 of `test/` and of `test0`, the name behind the last that begins with it.
    let role = r#"{"name":"ours","perm":{"permType":"READWRITE","key":"dGVzdC8=","range_end":"dGVzdDA="}}"#;
    for (path, body) in [
        ("user/add", r#"{"name":"root","password":"secret0"}"#),
        ("role/add", r#"{"name":"root"}"#),
        ("user/grant", r#"{"user":"root","role":"root"}"#),
        ("user/add", r#"{"name":"evenkeel","password":"secret1"}"#),
        ("role/add", r#"{"name":"ours"}"#),
        ("role/grant", role),
        ("user/grant", r#"{"user":"evenkeel","role":"ours"}"#),
        ("enable", "{}"),
    ] {
        let answer = etcd.members[0].http("POST", &format!("/v3/auth/{path}"), body).unwrap();
        assert!(answer.contains("header"), "{path}: {answer}");
    }
    let port = etcd.members[0].port;
    let url = |login: &str, namespace: &str| format!("etcd://{login}127.0.0.1:{port}/{namespace}");
    for (login, namespace) in [("", "test"), ("evenkeel:wrong@", "test"), ("evenkeel:secret1@", "other")] {
        match open(&url(login, namespace)).await.map(drop) {
            Err(RegistryError::Refused(why)) => assert!(!why.contains("secret"), "{why}"),
            other => panic!("{login:?} should have been refused: {other:?}"),
        }
    }
    let registry = connect(&url("evenkeel:secret1@", "test")).await;
    let examined = registry.check_health().await.unwrap();
    assert_eq!(examined.problems, [], "whoever is kept from some of it is told the rest");
    assert!(examined.checks.iter().any(|(name, _)| *name == "size"), "{examined:?}");
    let lease = registry.open(Millis::secs(600)).await.unwrap().lease;
    let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
    let joined = made(&registry, [put("node/a@1", "", Some(lease))]).await;
    assert_eq!(changes_until(&mut feed, joined).await.len(), 1);

    etcd.members[0].kill();
    etcd.members[0].start();
    until("it is served again", || async { registry.renew(lease).await.is_ok_and(|it| it.is_some()) }).await;
    let after = made(&registry, [put("a", "1", None)]).await;
    assert_eq!(changes_until(&mut feed, after).await.len(), 1);
}
