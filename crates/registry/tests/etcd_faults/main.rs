//! What etcd and the way to it do to us: killed, frozen, cut, compacted, restored, without a leader.
#![cfg(feature = "etcd")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/asks.rs"]
#[expect(dead_code, reason = "these tests have words of their own for the rest")]
mod asks;
#[path = "../common/certificates.rs"]
mod certificates;
#[path = "../common/host.rs"]
mod host;
mod limits;
#[path = "../common/process.rs"]
mod process;
#[path = "../common/proxy.rs"]
#[expect(
    dead_code,
    reason = "etcd's connections answer before anything is asked, so a first answer says nothing"
)]
mod proxy;
mod server;
#[path = "../common/storm.rs"]
mod storm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use certificates::Certificates;
use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Guard, LeaseId, Outcome, Revision, Txn, Write};
use evenkeel_core::time::Millis;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::{Feed, Registry, RegistryError, open};
use proxy::{Proxy, Way};
use server::Etcd;
use storm::{Counter, histories_hold};

/// How long anything may take before the test gives up.
const LONG: Duration = Duration::from_secs(60);

fn key(text: &str) -> Key {
    Key::from_stored(text)
}

fn put(at: &str, value: &str, owner: Option<LeaseId>) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner }
}

fn txn(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Txn {
    Txn { guards: guards.into(), writes: writes.into() }
}

async fn commit(registry: &Arc<dyn Registry>, txn: &Txn) -> Outcome {
    registry.commit(vec![txn.clone()]).await.remove(0)
}

async fn made(registry: &Arc<dyn Registry>, writes: impl Into<Vec<Write>>) -> Revision {
    match commit(registry, &txn([], writes)).await {
        Outcome::Applied(revision) => revision,
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
async fn heard(feed: &mut Feed, until: Revision) -> Vec<Change> {
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
            Outcome::Applied(revision) => last = Some((revision, next)),
            Outcome::Refused(found) => {
                // The only writer finds its own: the first try was made.
                let entry = found[0].entry.clone().expect("a counter is not deleted");
                assert_eq!(*entry.value, *next.to_string().as_bytes(), "an answered write was lost");
                last = Some((entry.revision, next));
            }
            Outcome::Unknown => {
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
async fn killed_under_writes_it_loses_nothing_that_was_answered() {
    let Some(mut etcd) = Etcd::start(1) else { return };
    let registry = connect(&etcd.url()).await;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(count(registry.clone(), stop.clone()));
    let mut leases = vec![registry.open(Millis::secs(60)).await.unwrap().lease];
    for round in 0..3_u32 {
        let before = value(&registry, "count").await;
        until("more was counted", || async { value(&registry, "count").await > before }).await;
        etcd.members[0].kill();
        etcd.members[0].start();
        until("a lease is granted", || async { registry.renew(leases[0]).await.is_ok() }).await;
        let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
        assert!(lease > leases[leases.len() - 1], "round {round}: lease numbers grow across a restart");
        leases.push(lease);
    }
    stop.store(true, Ordering::Relaxed);
    let counted = writer.await.unwrap();
    let listed = registry.list().await.unwrap();
    assert_eq!(value(&registry, "count").await, Some(counted.to_string()));
    // One listener heard all of it, whatever was cut meanwhile: each number once, in order.
    let told = heard(&mut feed, listed.revision).await;
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
async fn a_lost_answer_is_settled_by_sending_again() {
    let Some(etcd) = Etcd::start(1) else { return };
    let (direct, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let registry = through(&proxy).await;
    let free = made(&registry, [put("job/a/place", "free", None)]).await;
    let claim = txn([Guard::At(key("job/a/place"), free)], [put("job/a/place", "a@1 nonce", None)]);

    proxy.set(Way::Deaf);
    assert_eq!(commit(&registry, &claim).await, Outcome::Unknown);
    assert!(registry.trouble().is_some(), "somebody can ask why");
    assert_eq!(value(&direct, "job/a/place").await.as_deref(), Some("a@1 nonce"), "it was made all the same");
    proxy.set(Way::Open);
    until("an answer comes", || async { commit(&registry, &txn([], [])).await != Outcome::Unknown }).await;
    assert_eq!(registry.trouble(), None);
    let settled = commit(&registry, &claim).await;
    let Outcome::Refused(found) = settled else { panic!("should have been refused: {settled:?}") };
    assert_eq!(found[0].entry.as_ref().map(|e| &*e.value), Some(&b"a@1 nonce"[..]));

    // A question that never arrived is made by being sent again.
    let next = txn(
        [Guard::At(key("job/a/place"), found[0].entry.as_ref().unwrap().revision)],
        [put("job/a/place", "b@2 nonce", None)],
    );
    proxy.set(Way::Closed);
    assert_eq!(commit(&registry, &next).await, Outcome::Unknown);
    assert_eq!(value(&direct, "job/a/place").await.as_deref(), Some("a@1 nonce"));
    proxy.set(Way::Open);
    until("it is made", || async { matches!(commit(&registry, &next).await, Outcome::Applied(_)) }).await;
}

/// Half of the clients are behind a way on which answers are lost and connections cut.
///
/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_in_a_storm_can_have_happened_one_after_the_other() {
    let Some(etcd) = Etcd::start(1) else { return };
    let proxy = Proxy::start(etcd.members[0].at()).await;
    let near = [connect(&etcd.url()).await, connect(&etcd.url()).await];
    let far = [through(&proxy).await, through(&proxy).await];
    histories_hold((&near, &far), (&proxy, [Way::Deaf, Way::Closed]), 1_000).await;
}

/// The verbs of leases whose answers are lost can be asked again as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_about_leases_harm_nobody() {
    let Some(etcd) = Etcd::start(1) else { return };
    let (direct, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let registry = through(&proxy).await;
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    made(&registry, [put("node/a@1", "", Some(lease))]).await;

    proxy.set(Way::Deaf);
    let (opened, renewed) = tokio::join!(registry.open(Millis::secs(2)), registry.renew(lease));
    assert!(matches!(opened, Err(RegistryError::Unavailable(_))), "{opened:?}");
    assert!(matches!(renewed, Err(RegistryError::Unavailable(_))), "an unheard renewal is none: {renewed:?}");
    let closed = registry.close(lease).await;
    assert!(matches!(closed, Err(RegistryError::Unavailable(_))), "{closed:?}");
    assert_eq!(value(&direct, "node/a@1").await, None, "it was closed all the same");
    proxy.set(Way::Open);
    until("it can be closed again", || async { registry.close(lease).await.is_ok() }).await;
    assert_eq!(registry.renew(lease).await, Ok(None));
    let again = registry.open(Millis::secs(60)).await.unwrap().lease;
    assert!(again > lease);
}

/// Whatever is only looked at can be looked at again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_about_entries_are_asked_for_again() {
    let Some(etcd) = Etcd::start(1) else { return };
    let proxy = Proxy::start(etcd.members[0].at()).await;
    let registry = through(&proxy).await;
    made(&registry, [put("a", "1", None)]).await;
    let listed = registry.list().await.unwrap();
    proxy.set(Way::Deaf);
    let (list, read) = tokio::join!(registry.list(), registry.read(vec![key("a")]));
    assert!(matches!(list, Err(RegistryError::Unavailable(_))), "{list:?}");
    assert!(matches!(read, Err(RegistryError::Unavailable(_))), "{read:?}");
    proxy.set(Way::Open);
    until("it can be read again", || async { value(&registry, "a").await.is_some() }).await;
    assert_eq!(registry.list().await, Ok(listed));
}

/// Connections are cut all the time while transactions are sent until they are answered: each counts once.
///
/// proves: S1-09, I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_cut_connections_loses_no_increment_and_makes_none_twice() {
    let Some(etcd) = Etcd::start(1) else { return };
    let (near, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let far = through(&proxy).await;
    let counter = Counter::start(&near, &far, 40).await;
    for cut in 0..8 {
        proxy.set(if cut % 2 == 0 { Way::Deaf } else { Way::Closed });
        tokio::time::sleep(Duration::from_millis(20)).await;
        proxy.set(Way::Open);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    counter.check(&near).await;
}

/// Whoever becomes leader gives each lease its whole term again.
///
/// proves: I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_nobody_renews_while_leaders_change_ends_late_and_not_early() {
    let Some(mut etcd) = Etcd::start(3) else { return };
    let registry = connect(&etcd.url()).await;
    let granted = registry.open(Millis::secs(4)).await.unwrap();
    let term = Duration::from_millis(granted.ttl.0.unsigned_abs());
    made(&registry, [put("node/a@1", "", Some(granted.lease))]).await;
    let asked = Stopwatch::start();
    assert!(registry.renew(granted.lease).await.unwrap().is_some());
    // Half of its term has passed when the leader falls.
    tokio::time::sleep(term / 2).await;
    let leader = etcd.members.iter().position(server::Member::leads).expect("a leader");
    etcd.members[leader].kill();
    let fallen = Stopwatch::start();
    until("its end", || async {
        registry.read(vec![key("node/a@1")]).await.is_ok_and(|found| found[0].entry.is_none())
    })
    .await;
    assert!(asked.passed() >= term, "ended early, after {:?}", asked.passed());
    // The term, an election, etcd's looks each half a second; and what a busy machine takes.
    let late = fallen.passed();
    assert!(late <= term + Duration::from_millis(2 * 1_000 + 500 + 2_000), "{late:?} after the leader fell");
    assert_eq!(registry.renew(granted.lease).await, Ok(None));
}

/// A holder that is cut off learns of its end as soon as it is heard again, and others saw it before.
///
/// proves: I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_ends_while_its_holder_is_cut_off() {
    let Some(etcd) = Etcd::start(1) else { return };
    let (others, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let holder = through(&proxy).await;
    let lease = holder.open(Millis::secs(2)).await.unwrap().lease;
    let joined = made(&holder, [put("node/a@1", "", Some(lease))]).await;
    let mut feed = holder.watch(joined).await.unwrap();

    proxy.set(Way::Held);
    let late = txn([Guard::Open(lease)], [put("job/a/place", "late", None)]);
    let (frozen, sent) = (holder.clone(), late.clone());
    let sent = tokio::spawn(async move { commit(&frozen, &sent).await });
    let gone = txn([Guard::Absent(key("node/a@1"))], [put("job/a/place", "taken over", None)]);
    until("it is taken over", || async { matches!(commit(&others, &gone).await, Outcome::Applied(_)) }).await;

    proxy.set(Way::Open);
    // Whatever was on its way arrives now, and comes to nothing.
    assert!(!matches!(sent.await.unwrap(), Outcome::Applied(_)), "a write of a holder whose lease had ended");
    until("it can ask again", || async { holder.renew(lease).await.is_ok() }).await;
    assert_eq!(holder.renew(lease).await, Ok(None));
    assert!(matches!(commit(&holder, &late).await, Outcome::Refused(_)));
    assert_eq!(value(&others, "job/a/place").await.as_deref(), Some("taken over"));
    let told = heard(&mut feed, others.list().await.unwrap().revision).await;
    assert!(told.iter().any(|it| it.key == key("node/a@1") && it.entry.is_none()), "{told:?}");
}

/// proves: I10, I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_frozen_past_a_lease_goes_on_rightly() {
    let Some(etcd) = Etcd::start(1) else { return };
    let registry = connect(&etcd.url()).await;
    let lease = registry.open(Millis::secs(2)).await.unwrap().lease;
    let joined = made(&registry, [put("node/a@1", "", Some(lease))]).await;
    let mut feed = registry.watch(joined).await.unwrap();

    etcd.members[0].freeze();
    let claim = txn([Guard::Absent(key("job/a/place"))], [put("job/a/place", "mine", None)]);
    assert_eq!(commit(&registry, &claim).await, Outcome::Unknown);
    assert!(matches!(registry.renew(lease).await, Err(RegistryError::Unavailable(_))));
    etcd.members[0].thaw();

    until("it is settled", || async { commit(&registry, &claim).await != Outcome::Unknown }).await;
    assert_eq!(value(&registry, "job/a/place").await.as_deref(), Some("mine"));
    // The lease was over by etcd's clock. Once its end was told nobody can bring it back.
    until("the member is gone", || async { value(&registry, "node/a@1").await.is_none() }).await;
    assert_eq!(registry.renew(lease).await, Ok(None));
    let told = heard(&mut feed, registry.list().await.unwrap().revision).await;
    assert!(told.iter().any(|it| it.key == key("node/a@1") && it.entry.is_none()), "{told:?}");
}

/// proves: S1-10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_survives_cuts_without_a_gap() {
    let Some(etcd) = Etcd::start(1) else { return };
    let (writer, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let listener = through(&proxy).await;
    let mut feed = listener.watch(listener.list().await.unwrap().revision).await.unwrap();
    let (mut told, mut last) = (Vec::new(), Revision(0));
    for round in 0..5_u32 {
        for step in 0..20 {
            last = made(&writer, [put("count", &(round * 20 + step).to_string(), None)]).await;
            if step == 10 {
                proxy.set(Way::Closed);
            }
        }
        proxy.set(Way::Open);
        told.extend(heard(&mut feed, last).await);
    }
    assert_eq!(told.iter().map(number).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

/// proves: S1-10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_ends_where_etcd_has_forgotten() {
    let Some(etcd) = Etcd::start(1) else { return };
    let (writer, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let listener = through(&proxy).await;
    let start = made(&writer, [put("a", "0", None)]).await;
    let mut feed = listener.watch(start).await.unwrap();
    proxy.set(Way::Closed);
    for step in 1..5 {
        made(&writer, [put("a", &step.to_string(), None)]).await;
    }
    let last = made(&writer, [put("b", "1", None)]).await;
    let answer = etcd.members[0].says("POST", "/v3/kv/compaction", &format!("{{\"revision\":\"{last}\"}}"));
    assert!(answer.is_some_and(|answer| answer.contains("header")), "compacted");
    proxy.set(Way::Open);
    let told = tokio::time::timeout(LONG, feed.next()).await.expect("an answer in time");
    assert_eq!(told, None, "a gap must be told");

    let mut late = listener.watch(start).await.unwrap();
    assert_eq!(tokio::time::timeout(LONG, late.next()).await.expect("in time"), None, "and told to the next");
    let listed = listener.list().await.unwrap();
    let mut feed = listener.watch(listed.revision).await.unwrap();
    let after = made(&writer, [put("a", "9", None)]).await;
    assert_eq!(heard(&mut feed, after).await.len(), 1);
}

/// The data of yesterday under the same names: only who was there can tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_that_went_back_in_time_is_noticed_and_begins_a_new_generation() {
    let Some(mut etcd) = Etcd::start(1) else { return };
    let registry = connect(&etcd.url()).await;
    assert_eq!(registry.facts().generation, 0);
    made(&registry, [put("a", "old", None)]).await;
    let data = etcd.members[0].folder.clone();
    let copy = data.with_extension("copy");
    etcd.members[0].kill();
    server::copy(&data, &copy);
    etcd.members[0].start();
    for step in 0..10 {
        let write = txn([], [put("a", &step.to_string(), None)]);
        until("it is made", || async { matches!(commit(&registry, &write).await, Outcome::Applied(_)) })
            .await;
    }
    etcd.members[0].kill();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    etcd.members[0].start();

    until("it is noticed", || async { matches!(registry.list().await, Err(RegistryError::Fatal(_))) }).await;
    assert_eq!(commit(&registry, &txn([], [put("a", "lost", None)])).await, Outcome::Unknown);
    let again = connect(&etcd.url()).await;
    assert_eq!(again.facts().generation, 1, "it was written before anybody was told");
    assert_eq!(value(&again, "a").await.as_deref(), Some("old"));
}

/// When it is back, etcd has gone on past what it knew, and only the generation tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_away_when_etcd_went_back_in_time_stops_at_its_return() {
    let Some(mut etcd) = Etcd::start(1) else { return };
    let (registry, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let away = through(&proxy).await;
    let lease = away.open(Millis::secs(600)).await.unwrap().lease;
    let data = etcd.members[0].folder.clone();
    let copy = data.with_extension("copy");
    etcd.members[0].kill();
    server::copy(&data, &copy);
    etcd.members[0].start();
    let write = txn([], [put("a", "1", None)]);
    let made = |registry: Arc<dyn Registry>| {
        let write = write.clone();
        async move { matches!(commit(&registry, &write).await, Outcome::Applied(_)) }
    };
    until("it is made", || made(registry.clone())).await;
    until("it is back", || made(away.clone())).await;
    proxy.set(Way::Closed);
    etcd.members[0].kill();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    etcd.members[0].start();
    until("it is noticed", || async { matches!(registry.list().await, Err(RegistryError::Fatal(_))) }).await;
    let again = connect(&etcd.url()).await;
    for _ in 0..20 {
        assert!(made(again.clone()).await);
    }
    proxy.set(Way::Open);
    let ended = |told: &Result<_, RegistryError>| matches!(told, Err(RegistryError::Fatal(why)) if why.contains("new generation"));
    until("it stops", || async { ended(&away.renew(lease).await.map(drop)) }).await;
    assert!(!made(away.clone()).await);
    assert_eq!(connect(&etcd.url()).await.facts().generation, again.facts().generation, "and raises nothing");
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_members_lose_their_leaders_and_nothing_else() {
    let Some(mut etcd) = Etcd::start(3) else { return };
    let registry = connect(&etcd.url()).await;
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(count(registry.clone(), stop.clone()));
    for round in 0..4 {
        let leader = etcd.members.iter().position(server::Member::leads).expect("a leader");
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
        heard(&mut feed, listed.revision).await.into_iter().map(|it| (it.revision, it)).collect();
    let told: Vec<u32> = told.values().filter(|it| it.key == key("count")).map(number).collect();
    assert_eq!(told, (1..=counted).collect::<Vec<_>>());
}

/// What a leader was to propose is lost with it, and etcd says nothing for seven seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_leader_that_is_gone_is_told_when_there_is_another_one() {
    let Some(etcd) = Etcd::start(3) else { return };
    let registry = connect(&etcd.url()).await;
    made(&registry, [put("a", "1", None)]).await;
    let leader = etcd.members.iter().position(server::Member::leads).expect("a leader");
    etcd.members[leader].freeze();
    let mut troubles = Vec::new();
    while !matches!(commit(&registry, &txn([], [put("a", "2", None)])).await, Outcome::Applied(_)) {
        troubles.extend(registry.trouble().map(|trouble| trouble.to_string()));
    }
    etcd.members[leader].thaw();
    let hopeless = ["its leader went while it was asked", "it does not say how it is"];
    assert!(troubles.iter().any(|told| hopeless.iter().any(|why| told.contains(why))), "{troubles:?}");
    assert!(!troubles.iter().any(|told| told.contains("no answer within")), "{troubles:?}");
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
async fn an_encrypted_server_is_spoken_to_and_a_strange_one_is_not() {
    let Some(certificates) = Certificates::make() else { return };
    let Some(mut etcd) = Etcd::encrypted(&certificates) else { return };
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
    assert_eq!(heard(&mut feed, first).await.len(), 1);
    etcd.members[0].kill();
    etcd.members[0].start();
    until("it is served again", || async { value(&registry, "a").await.is_some() }).await;
    let after = made(&registry, [put("a", "2", None)]).await;
    assert_eq!(heard(&mut feed, after).await.len(), 1);
}

/// A user who may do what we need below the namespace and nothing else; its token is lost when etcd is started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_one_role_suffices_and_its_token_is_renewed() {
    let Some(mut etcd) = Etcd::start(1) else { return };
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
        let answer = etcd.members[0].says("POST", &format!("/v3/auth/{path}"), body).unwrap();
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
    let examined = registry.examine().await.unwrap();
    assert_eq!(examined.faults, [], "whoever is kept from some of it is told the rest");
    assert!(examined.told.iter().any(|(name, _)| *name == "size"), "{examined:?}");
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
    let joined = made(&registry, [put("node/a@1", "", Some(lease))]).await;
    assert_eq!(heard(&mut feed, joined).await.len(), 1);

    etcd.members[0].kill();
    etcd.members[0].start();
    until("it is served again", || async { registry.renew(lease).await.is_ok_and(|it| it.is_some()) }).await;
    let after = made(&registry, [put("a", "1", None)]).await;
    assert_eq!(heard(&mut feed, after).await.len(), 1);
}
