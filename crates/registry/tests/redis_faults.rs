//! What happens to the Redis engine when its server is killed, frozen, emptied, promoted, cut off or full.
//!
//! Each test starts servers of its own. Where `redis-server` is missing it says so and is skipped.

#![cfg(feature = "redis")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "redis_faults/access.rs"]
mod access;
#[path = "common/certificates.rs"]
mod certificates;
#[path = "common/counting.rs"]
mod counting;
#[path = "sql_faults/fault_proxy.rs"]
mod fault_proxy;
#[path = "redis_faults/generations.rs"]
mod generations;
#[path = "common/host.rs"]
mod host;
#[path = "common/lease_terms.rs"]
#[expect(dead_code, reason = "these tests write nothing that needs an open lease")]
mod lease_terms;
#[path = "redis_faults/leases.rs"]
mod leases;
#[path = "common/listening.rs"]
mod listening;
#[path = "common/process.rs"]
mod process;
#[path = "common/proxy.rs"]
#[expect(dead_code, reason = "Redis' requests have no kinds by which to hold them")]
mod proxy;
#[path = "common/requests.rs"]
mod requests;
#[path = "redis_faults/server.rs"]
mod server;
#[path = "common/still.rs"]
mod still;
#[path = "common/until.rs"]
mod until;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use certificates::Certificates;
use counting::{CountingClient, histories_hold};
use evenkeel_core::registry::{ChangeBatch, DurabilityClass, Guard, Revision, TxnOutcome, Write};
use evenkeel_core::time::Millis;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::conformance::MachineStall;
use evenkeel_registry::{RegistryError, open};
use fault_proxy::{AnswerFault, FaultProxy};
use lease_terms::{LeaseTerm, with_a_term};
use proxy::{Proxy, ProxyMode};
use requests::{SharedRegistry, commit, connect, entry, key, made, next, put, refused, txn};
use server::{ALWAYS, RedisServer};
use until::until;

/// A term that no test waits for.
const TTL: Millis = Millis::secs(600);

async fn is_over(registry: &SharedRegistry) -> String {
    until("the end of this registry", || async {
        match registry.list().await {
            Err(RegistryError::Fatal(why)) => Some(why),
            _ => None,
        }
    })
    .await
}

/// Checks that something takes no longer than promised. What else the machine does makes it seem longer, so the best of several
/// tries counts.
async fn best_within(promised: Duration, attempt: impl AsyncFn() -> Duration) {
    let mut took = Vec::new();
    while took.len() < 6 {
        took.push(attempt().await);
        if took[took.len() - 1] <= promised {
            return;
        }
    }
    panic!("not once within {promised:?}, but {took:?}");
}

/// Each verb reaches the server, which does it, and the connection is cut instead of the answer.
///
/// proves: I46
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_lost_answer_is_unknown_and_settled_by_sending_again() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let cutter = FaultProxy::start(server.at().port()).await;
    let (near, far) =
        (connect(&server.url()).await, connect(&format!("redis://127.0.0.1:{}/0", cutter.port)).await);
    let place = made(&near, vec![], vec![put("job/a/assignment", "free", None)]).await;
    let claim =
        txn(vec![Guard::At(key("job/a/assignment"), place)], vec![put("job/a/assignment", "nonce 17", None)]);
    cutter.set("nonce 17", AnswerFault::Cut);
    assert_eq!(commit(&far, claim.clone()).await, TxnOutcome::Unknown);
    cutter.sprung(1).await;
    assert!(matches!(far.last_error().as_deref(), Some(RegistryError::Unavailable(_))));
    let settled = commit(&far, claim).await;
    let TxnOutcome::Refused(found) = settled else { panic!("made twice: {settled:?}") };
    assert_eq!(found[0].entry.as_ref().map(|e| &*e.value), Some(&b"nonce 17"[..]));
    assert_eq!(entry(&near, "job/a/assignment").await, found[0].entry);
    assert_eq!(far.last_error(), None);

    let lease = far.open(TTL).await.unwrap().lease;
    cutter.set("\r\n77777\r\n", AnswerFault::Cut);
    assert!(matches!(far.open(Millis(77_777)).await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(2).await;
    let next = far.open(Millis(77_777)).await.unwrap().lease;
    assert_eq!(next.0, lease.0 + 2, "the one that nobody heard of has its number for ever");

    cutter.set("\r\nR\r\n", AnswerFault::Cut);
    assert!(matches!(far.renew(next).await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(3).await;
    assert_eq!(far.renew(next).await.unwrap().map(|granted| granted.lease), Some(next));

    cutter.set("\r\nread\r\n", AnswerFault::Cut);
    assert!(matches!(far.read(vec![key("job/a/assignment")]).await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(4).await;
    assert_eq!(entry(&far, "job/a/assignment").await, found[0].entry);

    cutter.set("\r\npage\r\n", AnswerFault::Cut);
    assert!(matches!(far.list().await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(5).await;
    assert_eq!(far.list().await.unwrap().changes[0].entry, found[0].entry);

    cutter.set("\r\nC\r\n", AnswerFault::Cut);
    assert!(matches!(far.close(next).await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(6).await;
    assert_eq!(near.renew(next).await, Ok(None), "it was closed");
    assert_eq!(far.close(next).await, Ok(()));
}

/// Nobody is let in meanwhile either: each verb says so at once, and works when the way is good again.
///
/// proves: I46
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_way_on_which_no_answer_comes_back_is_told_of_until_it_is_good() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let proxy = Proxy::start(server.at()).await;
    let far = connect(&format!("redis://{}/0", proxy.at())).await;
    let lease = far.open(TTL).await.unwrap().lease;
    let claim = txn(vec![Guard::Absent(key("a"))], vec![put("a", "nonce 17", None)]);
    // A call of a script passes, its answer does not, nor what comes after it.
    proxy.set(ProxyMode::NoAnswersFrom(*b"\nEVA"));
    assert_eq!(commit(&far, claim.clone()).await, TxnOutcome::Unknown);
    assert!(matches!(far.open(TTL).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.renew(lease).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.close(lease).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.list().await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.read(vec![key("a")]).await, Err(RegistryError::Unavailable(_))));
    proxy.set(ProxyMode::Open);
    let settled = until("an answer", || async {
        Some(commit(&far, claim.clone()).await).filter(|outcome| *outcome != TxnOutcome::Unknown)
    })
    .await;
    assert!(matches!(settled, TxnOutcome::Refused(_)), "made twice: {settled:?}");
    until("the close", || async { far.close(lease).await.ok() }).await;
    assert_eq!(far.renew(lease).await, Ok(None));
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let proxy = Proxy::start(server.at()).await;
    let registry = connect(&format!("redis://{}/0", proxy.at())).await;
    let lease = registry.open(TTL).await.unwrap().lease;
    best_within(Duration::from_secs(9), async || {
        proxy.set(ProxyMode::Held);
        let asked = Stopwatch::start();
        let told = registry.renew(lease).await;
        let took = asked.elapsed();
        assert!(matches!(told, Err(RegistryError::Unavailable(_))), "{told:?}");
        proxy.set(ProxyMode::Open);
        until("a renewal", || async { registry.renew(lease).await.ok().flatten() }).await;
        took
    })
    .await;
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn forgotten_scripts_are_sent_again() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    for i in 0..5 {
        server.command("SCRIPT", &["FLUSH"]);
        made(&registry, vec![], vec![put("a", &i.to_string(), None)]).await;
        assert_eq!(registry.list().await.unwrap().changes.len(), 1);
    }
}

/// The client's own limit of half a second would cut each read that blocks.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_listener_blocks_for_long_on_one_connection() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let blocked = || {
        let list = server.command("CLIENT", &["LIST"]);
        let line = list.lines().find(|line| line.contains("cmd=xread"))?;
        line.split(' ').next().map(str::to_owned)
    };
    // On a machine that stands still the client may take a connection for lost, so one of several tries counts.
    let mut tries = 0;
    loop {
        let first = until("a reader that blocks", || async { blocked() }).await;
        // Longer than the client's own limit, and than one block.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        if until("the reader", || async { blocked() }).await == first {
            break;
        }
        tries += 1;
        assert!(tries < 6, "no connection is kept for as long as a reader blocks");
    }
    made(&registry, vec![], vec![put("a", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(1));
}

/// proves: S1-09
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_storm_of_cut_connections_loses_no_increment() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let counter = CountingClient::start(&registry, &registry, 200).await;
    for _ in 0..20 {
        server.command("CLIENT", &["KILL", "TYPE", "normal"]);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    counter.check(&registry).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_history_in_a_storm_can_have_happened_one_after_the_other() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let proxy = Proxy::start(server.at()).await;
    let (near, far) = (server.url(), format!("redis://{}/0", proxy.at()));
    let near = [connect(&near).await, connect(&near).await];
    let far = [connect(&far).await, connect(&far).await];
    histories_hold((&near, &far), (&proxy, [ProxyMode::NoAnswers, ProxyMode::Closed]), 2_000).await;
}

/// Pages are read one after the other while two entries, on different pages, are always written together.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_listing_of_many_pages_is_of_one_moment() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let many: Vec<_> = (0..4_000).map(|i| put(&format!("k{i}"), "x", None)).collect();
    made(&registry, vec![], many).await;
    let pair = |value: &str| vec![put("left", value, None), put("right", value, None)];
    made(&registry, vec![], pair("0")).await;
    let over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (registry, over) = (registry.clone(), over.clone());
        tokio::spawn(async move {
            for i in 0.. {
                made(&registry, vec![], pair(&i.to_string())).await;
                if i < 100 {
                    made(&registry, vec![], vec![Write::Delete { key: key(&format!("k{i}")) }]).await;
                } else if over.load(Ordering::Relaxed) {
                    return;
                }
            }
        })
    };
    let mut listings = 0;
    while !writer.is_finished() {
        let listed = registry.list().await.unwrap();
        let of =
            |name: &str| listed.changes.iter().find(|change| change.key == key(name)).unwrap().entry.clone();
        let (left, right) = (of("left").unwrap(), of("right").unwrap());
        assert_eq!((left.value, left.revision), (right.value, right.revision));
        assert!(left.revision <= listed.revision);
        listings += 1;
        over.store(listings >= 5, Ordering::Relaxed);
    }
    writer.await.unwrap();
    assert_eq!(registry.list().await.unwrap().changes.len(), 4_002 - 100);
}
