//! What happens to the Redis engine when its server is killed, frozen, emptied, promoted, cut off or full.
//!
//! Each test starts servers of its own. Where `redis-server` is missing it says so and is skipped.

#![cfg(feature = "redis")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/asks.rs"]
mod asks;
#[path = "common/certificates.rs"]
mod certificates;
#[path = "sql_faults/cut.rs"]
mod cut;
#[path = "common/host.rs"]
mod host;
#[path = "common/listening.rs"]
mod listening;
#[path = "common/process.rs"]
mod process;
#[path = "common/proxy.rs"]
#[expect(dead_code, reason = "Redis' requests have no kinds by which to hold them")]
mod proxy;
#[path = "redis_faults/server.rs"]
mod server;
#[path = "common/still.rs"]
mod still;
#[path = "common/storm.rs"]
mod storm;
#[path = "common/terms.rs"]
#[expect(dead_code, reason = "these tests write nothing that needs an open lease")]
mod terms;
#[path = "common/until.rs"]
mod until;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asks::{Engine, commit, connect, entry, key, made, next, put, refused, txn};
use certificates::Certificates;
use cut::{Cutter, Fault};
use evenkeel_core::registry::{Batch, Class, Guard, Outcome, Revision, Write};
use evenkeel_core::time::Millis;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::conformance::Stalled;
use evenkeel_registry::{RegistryError, open};
use proxy::{Proxy, Way};
use server::{ALWAYS, Server};
use storm::{Counter, histories_hold};
use terms::{Term, with_a_term};
use until::until;

/// A term that no test waits for.
const TTL: Millis = Millis::secs(600);

async fn is_over(registry: &Engine) -> String {
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
    let Some(server) = Server::start(ALWAYS) else { return };
    let cutter = Cutter::start(server.at().port()).await;
    let (near, far) =
        (connect(&server.url()).await, connect(&format!("redis://127.0.0.1:{}/0", cutter.port)).await);
    let place = made(&near, vec![], vec![put("job/a/place", "free", None)]).await;
    let claim = txn(vec![Guard::At(key("job/a/place"), place)], vec![put("job/a/place", "nonce 17", None)]);
    cutter.set("nonce 17", Fault::Cut);
    assert_eq!(commit(&far, claim.clone()).await, Outcome::Unknown);
    cutter.sprung(1).await;
    assert!(matches!(far.trouble().as_deref(), Some(RegistryError::Unavailable(_))));
    let settled = commit(&far, claim).await;
    let Outcome::Refused(found) = settled else { panic!("made twice: {settled:?}") };
    assert_eq!(found[0].entry.as_ref().map(|e| &*e.value), Some(&b"nonce 17"[..]));
    assert_eq!(entry(&near, "job/a/place").await, found[0].entry);
    assert_eq!(far.trouble(), None);

    let lease = far.open(TTL).await.unwrap().lease;
    cutter.set("\r\n77777\r\n", Fault::Cut);
    assert!(matches!(far.open(Millis(77_777)).await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(2).await;
    let next = far.open(Millis(77_777)).await.unwrap().lease;
    assert_eq!(next.0, lease.0 + 2, "the one that nobody heard of has its number for ever");

    cutter.set("\r\nR\r\n", Fault::Cut);
    assert!(matches!(far.renew(next).await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(3).await;
    assert_eq!(far.renew(next).await.unwrap().map(|granted| granted.lease), Some(next));

    cutter.set("\r\nread\r\n", Fault::Cut);
    assert!(matches!(far.read(vec![key("job/a/place")]).await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(4).await;
    assert_eq!(entry(&far, "job/a/place").await, found[0].entry);

    cutter.set("\r\npage\r\n", Fault::Cut);
    assert!(matches!(far.list().await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(5).await;
    assert_eq!(far.list().await.unwrap().changes[0].entry, found[0].entry);

    cutter.set("\r\nC\r\n", Fault::Cut);
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
    let Some(server) = Server::start(ALWAYS) else { return };
    let proxy = Proxy::start(server.at()).await;
    let far = connect(&format!("redis://{}/0", proxy.at())).await;
    let lease = far.open(TTL).await.unwrap().lease;
    let claim = txn(vec![Guard::Absent(key("a"))], vec![put("a", "nonce 17", None)]);
    // A call of a script passes, its answer does not, nor what comes after it.
    proxy.set(Way::NoAnswersFrom(*b"\nEVA"));
    assert_eq!(commit(&far, claim.clone()).await, Outcome::Unknown);
    assert!(matches!(far.open(TTL).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.renew(lease).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.close(lease).await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.list().await, Err(RegistryError::Unavailable(_))));
    assert!(matches!(far.read(vec![key("a")]).await, Err(RegistryError::Unavailable(_))));
    proxy.set(Way::Open);
    let settled = until("an answer", || async {
        Some(commit(&far, claim.clone()).await).filter(|outcome| *outcome != Outcome::Unknown)
    })
    .await;
    assert!(matches!(settled, Outcome::Refused(_)), "made twice: {settled:?}");
    until("the close", || async { far.close(lease).await.ok() }).await;
    assert_eq!(far.renew(lease).await, Ok(None));
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let proxy = Proxy::start(server.at()).await;
    let registry = connect(&format!("redis://{}/0", proxy.at())).await;
    let lease = registry.open(TTL).await.unwrap().lease;
    best_within(Duration::from_secs(9), async || {
        proxy.set(Way::Held);
        let asked = Stopwatch::start();
        let told = registry.renew(lease).await;
        let took = asked.passed();
        assert!(matches!(told, Err(RegistryError::Unavailable(_))), "{told:?}");
        proxy.set(Way::Open);
        until("a renewal", || async { registry.renew(lease).await.ok().flatten() }).await;
        took
    })
    .await;
}

/// proves: I1
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_keeps_all_is_killed_and_started_again_and_nothing_is_lost() {
    let Some(mut server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    assert_eq!(registry.facts().class, Class::B);
    let lease = registry.open(TTL).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let before = made(&registry, vec![], vec![put("node/a@1", "", Some(lease)), put("a", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(2));
    server.kill();
    assert_eq!(commit(&registry, txn(vec![], vec![put("b", "1", None)])).await, Outcome::Unknown);
    server.again();
    until("a renewal", || async { registry.renew(lease).await.ok().flatten() }).await;
    assert_eq!(entry(&registry, "a").await.map(|e| e.revision), Some(before));
    let after = made(&registry, vec![], vec![put("c", "1", None)]).await;
    assert!(after > before);
    // Either it went on or it ended; it never skips.
    if let Some(keys) = next(&mut feed).await {
        assert!(keys.contains(&"c".to_owned()), "{keys:?}");
    }
    assert_eq!(
        connect(&server.url()).await.facts(),
        registry.facts(),
        "nothing was lost: the same generation"
    );
}

/// proves: I1
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_lost_its_data_is_noticed_and_never_taken_for_an_empty_registry() {
    let Some(mut server) = Server::start(&[]) else { return };
    let registry = connect(&server.url()).await;
    let facts = registry.facts();
    assert_eq!(facts.class, Class::C);
    let lease = registry.open(TTL).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let before = made(&registry, vec![], vec![put("job/a/place", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(1));
    server.kill();
    server.again();
    let why = is_over(&registry).await;
    assert!(why.contains("lost") && why.contains("start this node again"), "{why}");
    assert!(matches!(registry.renew(lease).await, Err(RegistryError::Fatal(_))));
    assert!(matches!(registry.open(TTL).await, Err(RegistryError::Fatal(_))));
    assert_eq!(commit(&registry, txn(vec![], vec![put("x", "1", None)])).await, Outcome::Unknown);
    assert_eq!(next(&mut feed).await, None);
    let anew = connect(&server.url()).await;
    assert!(anew.facts().generation > facts.generation);
    // No number is ever given twice: what guarded on the old ones can never hold.
    assert!(anew.open(TTL).await.unwrap().lease > lease);
    assert!(made(&anew, vec![], vec![put("job/a/place", "1", None)]).await > before);
}

/// What the documentation tells to do after a restore.
///
/// proves: I1
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_restored_backup_is_a_new_generation() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let before = registry.facts().generation;
    drop(registry);
    let documented = include_str!("../../../docs/engines.md");
    assert!(documented.replace("\n  ", " ").contains("HSET {NAMESPACE}:meta run restored safe 0"));
    server.say("HSET", &["{evenkeel}:meta", "run", "restored", "safe", "0"]);
    assert_eq!(connect(&server.url()).await.facts().generation, before + 1);
    assert_eq!(connect(&server.url()).await.facts().generation, before + 1, "once");
}

/// It syncs its log less often than when everybody connected, and nobody is left who could know how far the history had gone.
///
/// proves: I1
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_ceased_to_keep_all_and_died_is_another_generation_to_whoever_comes_next() {
    let Some(mut server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let (before, lease) = (registry.facts(), registry.open(Millis::secs(60)).await.unwrap().lease);
    assert_eq!(before.class, Class::B);
    server.say("CONFIG", &["SET", "appendfsync", "everysec"]);
    until("a note of it", || async {
        (server.say("HGET", &["{evenkeel}:meta", "safe"]) == "0").then_some(())
    })
    .await;
    // Nobody is stopped by it.
    assert!(registry.renew(lease).await.unwrap().is_some());
    drop(registry);
    server.kill();
    server.again();
    assert_eq!(connect(&server.url()).await.facts().generation, before.generation + 1);
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_emptied_database_ends_its_users() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    made(&registry, vec![], vec![put("a", "1", None)]).await;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    assert!(next(&mut feed).await.is_some());
    server.say("FLUSHALL", &[]);
    is_over(&registry).await;
    assert_eq!(next(&mut feed).await, None);
    assert!(connect(&server.url()).await.facts().generation > registry.facts().generation);
}

/// The replica lacks the last writes, as replicas do.
///
/// proves: I1
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_promoted_replica_is_another_generation() {
    let (Some(mut primary), Some(replica)) = (Server::start(ALWAYS), Server::start(ALWAYS)) else { return };
    let (host, port) = (primary.at().ip().to_string(), primary.at().port().to_string());
    replica.say("REPLICAOF", &[&host, &port]);
    until("a replica", || async {
        replica.say("INFO", &["replication"]).contains("master_link_status:up").then_some(())
    })
    .await;
    let url = format!("redis://{},{}/0", primary.at(), replica.at());
    let registry = connect(&url).await;
    assert_eq!(registry.facts().class, Class::C, "what a replica may lack is lost with its primary");
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    let kept = made(&registry, vec![], vec![put("job/a/place", "1", None)]).await;
    let copied = || async {
        let length: u32 = replica.say("HLEN", &["{evenkeel}:cold"]).parse().unwrap();
        (length == 1).then_some(())
    };
    until("the copy", copied).await;
    replica.say("REPLICAOF", &["NO", "ONE"]);
    let lost =
        made(&registry, vec![Guard::At(key("job/a/place"), kept)], vec![put("job/a/place", "2", None)]).await;
    primary.kill();
    is_over(&registry).await;
    let after = connect(&url).await;
    assert_eq!(after.facts().generation, registry.facts().generation + 1);
    assert_eq!(entry(&after, "job/a/place").await.map(|e| e.revision), Some(kept), "it went back");
    assert!(after.renew(lease).await.unwrap().is_some());
    // The revision that was lost is not given to anything else.
    let next =
        made(&after, vec![Guard::At(key("job/a/place"), kept)], vec![put("job/a/place", "3", None)]).await;
    assert!(next > lost);
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_replica_is_no_place_for_a_registry() {
    let (Some(primary), Some(replica)) = (Server::start(ALWAYS), Server::start(ALWAYS)) else { return };
    let (host, port) = (primary.at().ip().to_string(), primary.at().port().to_string());
    replica.say("REPLICAOF", &[&host, &port]);
    let told = open(&replica.url()).await.map(drop);
    assert!(
        matches!(&told, Err(RegistryError::Unavailable(why)) if why.contains("name the primary")),
        "{told:?}"
    );
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_frozen_server_takes_no_lease_with_it() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    with_a_term(Millis::secs(2), async |ttl| {
        let (term, opened) = (Term::open(&registry, ttl).await, Stopwatch::start());
        server.freeze();
        let before = opened.passed();
        tokio::time::sleep(Duration::from_millis(ttl.0.unsigned_abs()) * 3 / 2).await;
        let thawed = Stopwatch::start();
        server.thaw();
        let renewed = until("a renewal", || async { registry.renew(term.lease).await.ok() }).await;
        // While it was frozen no renewal was possible, so that time does not count.
        let counted = before + thawed.passed();
        assert!(renewed.is_some() || counted >= term.least, "its term went on while the server was frozen");
        renewed.map(drop).ok_or(Stalled)
    })
    .await;
}

/// To the registry, a server's clock that is set is the same as its own note of the time being set the other way.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_clock_that_is_set_ends_no_lease_and_keeps_none_alive() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    for by in [3_600_000, -3_600_000] {
        best_within(Duration::from_millis(4_000 + 1_500), async || {
            loop {
                if let Ok(lived) = lived_through_a_step(&server, &registry, by).await {
                    break lived;
                }
            }
        })
        .await;
    }
}

/// Sets the clock while there is a lease, which is renewed once after that. Returns how long the lease lived from then on.
async fn lived_through_a_step(server: &Server, registry: &Engine, by: i64) -> Result<Duration, Stalled> {
    let mut term = Term::open(registry, Millis::secs(4)).await;
    server.say("HINCRBY", &["{evenkeel}:meta", "wall", &i64::to_string(&-by)]);
    term.renew(registry).await?;
    let renewed = Stopwatch::start();
    let open = || async { commit(registry, txn(vec![Guard::Open(term.lease)], vec![])).await };
    until("the end of the lease", || async { matches!(open().await, Outcome::Refused(_)).then_some(()) })
        .await;
    assert!(term.may_be_over(), "set by {by} ms: ended early, after {:?}", renewed.passed());
    Ok(renewed.passed())
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn forgotten_scripts_are_sent_again() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    for i in 0..5 {
        server.say("SCRIPT", &["FLUSH"]);
        made(&registry, vec![], vec![put("a", &i.to_string(), None)]).await;
        assert_eq!(registry.list().await.unwrap().changes.len(), 1);
    }
}

/// The client's own limit of half a second would cut each read that blocks.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_listener_blocks_for_long_on_one_connection() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let blocked = || {
        let list = server.say("CLIENT", &["LIST"]);
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
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let counter = Counter::start(&registry, &registry, 200).await;
    for _ in 0..20 {
        server.say("CLIENT", &["KILL", "TYPE", "normal"]);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    counter.check(&registry).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_history_in_a_storm_can_have_happened_one_after_the_other() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let proxy = Proxy::start(server.at()).await;
    let (near, far) = (server.url(), format!("redis://{}/0", proxy.at()));
    let near = [connect(&near).await, connect(&near).await];
    let far = [connect(&far).await, connect(&far).await];
    histories_hold((&near, &far), (&proxy, [Way::NoAnswers, Way::Closed]), 2_000).await;
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_full_memory_is_told_and_got_over() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    made(&registry, vec![], vec![put("a", "1", None)]).await;
    server.say("CONFIG", &["SET", "maxmemory", "1"]);
    let both = txn(vec![], vec![put("a", "2", None), put("b", "2", None)]);
    assert_eq!(commit(&registry, both).await, Outcome::Unknown);
    let why = registry.trouble().unwrap().to_string();
    assert!(why.contains("raise its maxmemory"), "{why}");
    assert_eq!(entry(&registry, "a").await.map(|e| e.value), Some((*b"1").into()));
    assert_eq!(entry(&registry, "b").await, None, "nothing is half done");
    server.say("CONFIG", &["SET", "maxmemory", "0"]);
    made(&registry, vec![], vec![put("a", "3", None)]).await;
    assert_eq!(registry.trouble(), None);
}

/// Redis still deletes when it takes nothing more: half of a lease's end must not be left.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_lease_that_ends_while_the_memory_is_full_ends_whole_afterwards() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    made(&registry, vec![], vec![put("a", "1", Some(lease))]).await;
    let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
    server.end_in_full_memory(lease);
    assert!(registry.renew(lease).await.is_err(), "the memory is full");
    assert!(entry(&registry, "a").await.is_some(), "its end cannot be told yet");
    server.say("CONFIG", &["SET", "maxmemory", "0"]);
    made(&registry, vec![], vec![put("b", "1", None)]).await;
    let gone = |batch: &Batch| batch.changes.iter().any(|it| it.key == key("a") && it.entry.is_none());
    while !gone(&feed.next().await.expect("the feed goes on")) {}
    assert_eq!(entry(&registry, "a").await, None);
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_may_throw_keys_away_is_refused() {
    let Some(server) = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]) else {
        return;
    };
    let why = refused(&server.url()).await;
    assert!(why.contains("noeviction"), "{why}");
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn the_facts_are_those_of_the_running_server() {
    for (settings, class) in [
        (ALWAYS, Class::B),
        (&["--appendonly", "yes", "--appendfsync", "everysec"], Class::C),
        (&["--appendonly", "no", "--appendfsync", "always"], Class::C),
        (&["--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"], Class::C),
    ] {
        let Some(server) = Server::start(settings) else { return };
        assert_eq!(connect(&server.url()).await.facts().class, class, "{settings:?}");
    }
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_examination_finds_what_is_not_kept() {
    let (Some(safe), Some(unsafe_one)) = (Server::start(ALWAYS), Server::start(&[])) else { return };
    let found = connect(&safe.url()).await.examine().await.unwrap();
    assert!(found.faults.is_empty() && found.version.is_some(), "{found:?}");
    let found = connect(&unsafe_one.url()).await.examine().await.unwrap();
    assert!(found.faults.iter().any(|fault| fault.fix.contains("appendfsync always")), "{found:?}");
}

/// Jobs were accepted on what the server promised when the node started.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_promises_less_than_before_ends_its_users() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    server.say("CONFIG", &["SET", "appendonly", "no"]);
    server.say("CLIENT", &["KILL", "TYPE", "normal"]);
    let why = is_over(&registry).await;
    assert!(why.contains("promises less"), "{why}");
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_user_with_the_documented_rights_is_enough_and_a_password_is_never_shown() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let documented = include_str!("../../../docs/engines.md");
    let rule = documented.lines().find_map(|line| line.trim().strip_prefix("ACL SETUSER evenkeel "));
    let rule = rule.expect("the rule is documented").replace("PASSWORD", "hunter2");
    let rights: Vec<_> = ["SETUSER", "evenkeel"].into_iter().chain(rule.split(' ')).collect();
    server.say("ACL", &rights);
    let url = |password: &str, namespace: &str| {
        format!("redis://evenkeel:{password}@{}/0/{namespace}", server.at())
    };
    let registry = connect(&url("hunter2", "evenkeel")).await;
    assert_eq!(registry.facts().class, Class::B);
    let lease = registry.open(TTL).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    made(&registry, vec![], vec![put("a", "1", Some(lease)), put("lane/j/claim", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(1));
    registry.list().await.unwrap();
    registry.close(lease).await.unwrap();
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(1));
    let why = refused(&url("hunter3", "evenkeel")).await;
    assert!(why.contains("user or password") && !why.contains("hunter3"), "{why}");
    let why = refused(&url("hunter2", "another")).await;
    assert!(why.contains("rights of docs/engines.md") && !why.contains("hunter2"), "{why}");
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_refuses_to_tell_is_taken_for_the_least() {
    let Some(server) = Server::start(ALWAYS) else { return };
    server.say("ACL", &["SETUSER", "mute", "on", ">hunter2", "~*", "&*", "+@all", "-config"]);
    let mute = connect(&format!("redis://mute:hunter2@{}/0", server.at())).await;
    assert_eq!(mute.facts().class, Class::C);
    let Some(without) = Server::start(&[ALWAYS, &["--rename-command", "CONFIG", ""]].concat()) else {
        return;
    };
    assert_eq!(connect(&without.url()).await.facts().class, Class::C);
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn two_clusters_share_a_server_and_each_keeps_to_its_slot() {
    let Some(server) = Server::start(ALWAYS) else { return };
    let (blue, green) =
        (connect(&format!("{}/blue", server.url())).await, connect(&format!("{}/green", server.url())).await);
    let lease = blue.open(TTL).await.unwrap().lease;
    made(&blue, vec![], vec![put("a", "1", Some(lease)), put("lane/j/claim", "1", None)]).await;
    assert_eq!(entry(&green, "a").await, None);
    assert_eq!(green.renew(lease).await, Ok(None));
    for name in server.say("KEYS", &["*"]).lines() {
        assert!(name.starts_with("{blue}:") || name.starts_with("{green}:"), "{name}");
    }
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_encrypted_server_is_spoken_to_and_a_strange_one_is_not() {
    let Some(certificates) = Certificates::make() else { return };
    let at = |name: &str| certificates.at(name);
    let (ca, cert, key) = (at("ca.pem"), at("cert.pem"), at("key.pem"));
    let settings = ["--tls-ca-cert-file", &ca, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let Some(server) = Server::start_encrypted(&settings) else { return };
    let port = server.secure_port();
    let url = format!("redis://localhost:{port}/0?tls=on&ca={ca}&cert={cert}&key={key}");
    let registry = connect(&url).await;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    made(&registry, vec![], vec![put("a", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(1));
    let stranger = at("stranger.pem");
    let url = format!("redis://localhost:{port}/0?tls=on&ca={stranger}&cert={cert}&key={key}");
    assert!(open(&url).await.is_err());
}

/// Pages are read one after the other while two entries, on different pages, are always written together.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_listing_of_many_pages_is_of_one_moment() {
    let Some(server) = Server::start(ALWAYS) else { return };
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
