//! What happens to the engines on SQL servers when these are killed, frozen, cut off, full of strangers or out of date.
//!
//! Each test starts servers of its own. Where one is not installed it says so and is skipped.

#![cfg(all(feature = "postgres", feature = "mysql"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

/// Plays a case on both servers, one after another.
macro_rules! both {
    ($($case:ident;)+) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "soak: kills, freezes or cuts off real servers"]
            async fn $case() {
                super::$case(super::SqlServerKind::Postgres).await;
            })+
        }
        mod mysql {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "soak: kills, freezes or cuts off real servers"]
            async fn $case() {
                super::$case(super::SqlServerKind::MySql).await;
            })+
        }
    };
}

#[path = "sql_faults/access.rs"]
mod access;
#[path = "sql_faults/answers.rs"]
mod answers;
#[path = "sql_faults/connections.rs"]
mod connections;
#[path = "sql_faults/fault_proxy.rs"]
mod fault_proxy;
#[path = "sql_faults/generations.rs"]
mod generations;
#[path = "common/host.rs"]
mod host;
#[path = "sql_faults/hot.rs"]
mod hot;
#[path = "sql_faults/layouts.rs"]
mod layouts;
#[path = "common/lease_terms.rs"]
#[expect(dead_code, reason = "these tests wait for few terms")]
mod lease_terms;
#[path = "common/listening.rs"]
mod listening;
#[path = "sql_faults/lost.rs"]
mod lost;
#[path = "sql_faults/server.rs"]
mod server;
#[path = "common/still.rs"]
mod still;
#[path = "common/until.rs"]
mod until;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{
    DurabilityClass, Entry, FeedKind, Guard, LeaseId, Revision, Txn, TxnOutcome, Write,
};
use evenkeel_core::time::Millis;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::conformance::MachineStall;
use evenkeel_registry::mysql::MySql;
use evenkeel_registry::postgres::Postgres;
use evenkeel_registry::sql::{SqlConnection, SqlTarget, TableLayout};
use evenkeel_registry::{EngineUrl, Registry, RegistryError};
use fault_proxy::{AnswerFault, FaultProxy};
use lease_terms::LeaseTerm;
use server::{SqlServer, SqlServerKind};
use until::until;

both! {
    what_was_cut_before_its_commit_is_done_again;
    a_server_that_is_frozen_leaves_nobody_waiting;
    a_writer_that_is_frozen_holds_up_nobody_for_long;
    nothing_is_lost_or_doubled_while_connections_die;
    the_facts_are_those_of_the_server;
    absence_prolongs_leases_and_a_clock_set_back_takes_them_along;
    keys_that_no_server_takes_are_refused_alone;
}

/// How long anything may take before a test gives up. No promise: the limit of a wait that hangs.
const LONG: Duration = Duration::from_secs(120);

/// Checks that something takes no longer than promised. What else the machine does makes it seem longer, so the best of several
/// tries counts.
async fn best_within(promised: Duration, attempt: impl AsyncFn(u32) -> Duration) {
    let mut took = Vec::new();
    for nth in 0..6 {
        took.push(attempt(nth).await);
        if took[took.len() - 1] <= promised {
            return;
        }
    }
    panic!("not once within {promised:?}, but {took:?}");
}

type SqlRegistry = Arc<dyn Registry>;

async fn connect(url: &EngineUrl) -> Result<SqlRegistry, RegistryError> {
    match url.scheme() {
        "postgres" => Ok(Arc::new(Postgres::connect(url).await?)),
        _ => Ok(Arc::new(MySql::connect(url).await?)),
    }
}

async fn refused(url: &EngineUrl) -> String {
    match connect(url).await.map(drop) {
        Err(RegistryError::Refused(why)) => why,
        other => panic!("should have been refused: {other:?}"),
    }
}

fn key(text: &str) -> Key {
    Key::from_stored(text)
}

fn put(at: &str, value: &str) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner: None }
}

fn put_by(lease: LeaseId, at: &str) -> Write {
    Write::Put { key: key(at), value: b"1".as_slice().into(), owner: Some(lease) }
}

/// Puts what is not there yet: sent twice it is made once.
fn once(at: &str) -> Txn {
    Txn { guards: vec![Guard::Absent(key(at))], writes: vec![put(at, "1")] }
}

async fn commit(registry: &SqlRegistry, txn: Txn) -> TxnOutcome {
    registry.commit(vec![txn]).await.remove(0)
}

async fn made(registry: &SqlRegistry, writes: Vec<Write>) -> Revision {
    match commit(registry, Txn { guards: vec![], writes }).await {
        TxnOutcome::Applied(revision) => revision,
        other => panic!("should have been made: {other:?} {:?}", registry.last_error()),
    }
}

/// Sends the same until it is known what became of it.
async fn settled(registry: &SqlRegistry, txn: &Txn) -> TxnOutcome {
    until("an answer", async || {
        Some(commit(registry, txn.clone()).await).filter(|outcome| *outcome != TxnOutcome::Unknown)
    })
    .await
}

async fn entry(registry: &SqlRegistry, at: &str) -> Option<Entry> {
    registry.read(vec![key(at)]).await.unwrap().remove(0).entry
}

async fn is_open(registry: &SqlRegistry, lease: LeaseId) -> bool {
    match commit(registry, Txn { guards: vec![Guard::Open(lease)], writes: vec![] }).await {
        TxnOutcome::Applied(_) => true,
        TxnOutcome::Refused(_) => false,
        TxnOutcome::Unknown => panic!("should have been answered: {:?}", registry.last_error()),
    }
}

async fn what_was_cut_before_its_commit_is_done_again(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let cutter = FaultProxy::start(server.port).await;
    for (i, word) in ["FOR UPDATE", "again_entry"].into_iter().enumerate() {
        let registry = connect(&server.url_at(cutter.port, "again")).await.unwrap();
        cutter.set(word, AnswerFault::Cut);
        let outcome = commit(&registry, once(&format!("k{i}"))).await;
        assert!(matches!(outcome, TxnOutcome::Applied(_)), "{word}: {outcome:?} {:?}", registry.last_error());
        cutter.sprung(u32::try_from(i).unwrap() + 1).await;
    }
    let registry = connect(&server.url("again")).await.unwrap();
    assert_eq!(registry.list().await.unwrap().changes.len(), 2);
}

async fn a_server_that_is_frozen_leaves_nobody_waiting(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("frozen")).await.unwrap();
    let lease = registry.open(Millis::secs(600)).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    best_within(Duration::from_secs(20), async |nth| {
        let name = format!("a{nth}");
        server.freeze();
        let watch = Stopwatch::start();
        let (outcome, renewed, read, examined) = tokio::join!(
            commit(&registry, once(&name)),
            registry.renew(lease),
            registry.read(vec![key(&name)]),
            registry.check_health()
        );
        let took = watch.elapsed();
        server.thaw();
        assert_eq!(outcome, TxnOutcome::Unknown);
        assert!(matches!(renewed, Err(RegistryError::Unavailable(_))), "{renewed:?}");
        assert!(matches!(read, Err(RegistryError::Unavailable(_))), "{read:?}");
        assert!(matches!(examined, Err(RegistryError::Unavailable(_))), "{examined:?}");
        settled(&registry, &once(&name)).await;
        took
    })
    .await;
    assert!(entry(&registry, "a0").await.is_some());
    let told = tokio::time::timeout(LONG, feed.next()).await.expect("news or an end");
    assert!(told.is_none_or(|batch| batch.changes.iter().any(|change| change.key == key("a0"))));
}

async fn a_writer_that_is_frozen_holds_up_nobody_for_long(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let cutter = FaultProxy::start(server.port).await;
    let other = connect(&server.url("held")).await.unwrap();
    best_within(Duration::from_secs(5), async |nth| {
        let frozen = connect(&server.url_at(cutter.port, "held")).await.unwrap();
        // Its request to lock the counter has arrived, and then it says nothing more.
        cutter.set("FOR UPDATE", AnswerFault::Hold);
        let stuck = tokio::spawn(async move { commit(&frozen, once(&format!("a{nth}"))).await });
        cutter.sprung(nth + 1).await;
        let watch = Stopwatch::start();
        let outcome = settled(&other, &once(&format!("b{nth}"))).await;
        let took = watch.elapsed();
        assert!(matches!(outcome, TxnOutcome::Applied(_)), "{outcome:?}");
        assert_eq!(stuck.await.unwrap(), TxnOutcome::Unknown);
        took
    })
    .await;
}

async fn nothing_is_lost_or_doubled_while_connections_die(kind: SqlServerKind) {
    const WRITERS: usize = 6;
    const EACH: usize = 30;
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let registries =
        [connect(&server.url("storm")).await.unwrap(), connect(&server.url("storm")).await.unwrap()];
    let listener = tokio::spawn(follow(registries[0].clone(), WRITERS * EACH));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let registry = registries[writer % 2].clone();
            tokio::spawn(async move {
                for i in 0..EACH {
                    settled(&registry, &once(&format!("k{writer}/{i}"))).await;
                    // Readers are in the storm too; what they cannot get now they ask for again.
                    let _ = registry.read(vec![key("k0/0")]).await;
                }
            })
        })
        .collect();
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        server.disconnect_clients().await;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let listed = registries[1].list().await.unwrap();
    assert_eq!(listed.changes.len(), WRITERS * EACH);
    let revisions: BTreeSet<_> =
        listed.changes.iter().filter_map(|c| c.entry.as_ref().map(|e| e.revision)).collect();
    assert_eq!(revisions.len(), WRITERS * EACH, "one revision each");
    let followed = tokio::time::timeout(LONG, listener).await.expect("the listener hears all");
    assert_eq!(followed.unwrap(), listed.changes.iter().map(|change| change.key.clone()).collect());
}

/// Lists and listens, and does so again where the feed ends, until so many keys are known.
async fn follow(registry: SqlRegistry, enough: usize) -> BTreeSet<Key> {
    loop {
        let Ok(listed) = registry.list().await else { continue };
        let mut known: BTreeSet<_> = listed.changes.into_iter().map(|change| change.key).collect();
        let Ok(mut feed) = registry.watch(listed.revision).await else { continue };
        while known.len() < enough {
            let Some(batch) = feed.next().await else { break };
            known.extend(batch.changes.into_iter().map(|change| change.key));
        }
        if known.len() >= enough {
            return known;
        }
    }
}

async fn the_facts_are_those_of_the_server(kind: SqlServerKind) {
    let (weak, class) = match kind {
        SqlServerKind::Postgres => ("fsync=off", DurabilityClass::C),
        SqlServerKind::MySql => ("innodb-flush-log-at-trx-commit=2", DurabilityClass::B),
    };
    let Some(good) = SqlServer::start(kind, &[]).await else { return };
    let facts = connect(&good.url("facts")).await.unwrap().facts();
    let feed = match kind {
        SqlServerKind::Postgres => FeedKind::Pushed,
        SqlServerKind::MySql => FeedKind::Polled(Millis(100)),
    };
    assert_eq!((facts.class, facts.feed, facts.generation), (DurabilityClass::A, feed, 0));
    assert_eq!(
        (facts.early, facts.ttl_min),
        (Millis(600), Millis::secs(2)),
        "what a clock set forward may take"
    );
    if kind == SqlServerKind::Postgres {
        // What copies the server is no standby.
        let mut copy = good.copied().await;
        assert_eq!(connect(&good.url("facts")).await.unwrap().facts().class, DurabilityClass::A);
        copy.kill().unwrap();
        copy.wait().unwrap();
    }
    let found = connect(&good.url("facts")).await.unwrap().check_health().await.unwrap();
    let told: Vec<_> = found.checks.iter().map(|(name, _)| *name).collect();
    assert_eq!((found.problems, told), (vec![], vec!["durability", "isolation"]));
    drop(good);
    let Some(poor) = SqlServer::start(kind, &[weak]).await else { return };
    let registry = connect(&poor.url("facts")).await.unwrap();
    assert_eq!(registry.facts().class, class);
    let faults = registry.check_health().await.unwrap().problems;
    let lacks = weak.split('=').next().unwrap().replace('-', "_");
    assert!(
        matches!(&faults[..], [fault] if fault.name == "durability" && fault.detail.contains(&lacks)),
        "{faults:?}"
    );
    if kind == SqlServerKind::MySql {
        // What guards its users against their slips is switched off for ours.
        let Some(wary) = SqlServer::start(kind, &["autocommit=0", "sql-safe-updates=1"]).await else {
            return;
        };
        let first = connect(&wary.url("wary")).await.unwrap();
        let lease = first.open(Millis::secs(20)).await.unwrap().lease;
        made(&first, vec![put_by(lease, "a")]).await;
        let second = connect(&wary.url("wary")).await.unwrap();
        assert!(second.renew(lease).await.unwrap().is_some() && entry(&second, "a").await.is_some());
        drop((first, second, wary));
        let Some(torn) = SqlServer::start(kind, &["innodb-doublewrite=0"]).await else { return };
        assert_eq!(connect(&torn.url("facts")).await.unwrap().facts().class, DurabilityClass::C);
    }
    if kind == SqlServerKind::Postgres {
        // What a session may set for itself the engine sets.
        let Some(lazy) = SqlServer::start(kind, &["synchronous_commit=off"]).await else { return };
        assert_eq!(connect(&lazy.url("facts")).await.unwrap().facts().class, DurabilityClass::A);
    }
}

async fn absence_prolongs_leases_and_a_clock_set_back_takes_them_along(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("time")).await.unwrap();
    let lease = registry.open(Millis::secs(20)).await.unwrap().lease;
    made(&registry, vec![put_by(lease, "a")]).await;
    // As if nobody had acted for half a minute: nobody could have renewed.
    server.sql("UPDATE time_meta SET clock = clock - 30000").await;
    server.sql("UPDATE time_lease SET ends = ends - 30000").await;
    assert!(is_open(&registry, lease).await && entry(&registry, "a").await.is_some());
    let granted = registry.renew(lease).await.unwrap().unwrap();
    assert_eq!(granted.next_end, Some(Millis(20_000 / 3)));
    // As if the server's clock had been an hour ahead and was set right: the lease must not live an hour.
    server.sql("UPDATE time_meta SET clock = clock + 3600000").await;
    server.sql("UPDATE time_lease SET ends = ends + 3600000").await;
    assert!(is_open(&registry, lease).await);
    server.sql("DELETE FROM time_lease WHERE ends > (SELECT clock + 20000 FROM time_meta)").await;
    assert!(is_open(&registry, lease).await, "it ends with its term at the latest");
    // And without an absence a lease ends, whoever acts.
    server.sql("UPDATE time_lease SET ends = 1").await;
    assert!(!is_open(&registry, lease).await && entry(&registry, "a").await.is_none());
    assert!(registry.renew(lease).await.unwrap().is_none());
}

/// A clock of PostgreSQL's that can be set: its own function is found behind ours of that name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_clock_of_postgres_set_forward_ends_no_lease() {
    const TTL: Millis = Millis::secs(3);
    let Some(server) = SqlServer::start(SqlServerKind::Postgres, &[]).await else { return };
    server
        .sql(
            "CREATE TABLE step AS SELECT 0 AS secs; \
             CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS \
             'SELECT pg_catalog.clock_timestamp() + secs * interval ''1s'' FROM public.step'; \
             ALTER ROLE evenkeel SET search_path = public, pg_catalog",
        )
        .await;
    let url = server.url("step");
    let secs = AtomicU32::new(0);
    for step in [6, 60] {
        best_within(Duration::from_millis(4_500), async |_| {
            let set = secs.fetch_add(step, Ordering::Relaxed) + step;
            loop {
                if let Ok(lived) = lived_through_a_step(&server, &url, TTL, set).await {
                    break lived;
                }
            }
        })
        .await;
    }
}

/// Sets the clock to so many seconds ahead while two leases are renewed and a third one is not. Returns how long that one lived.
async fn lived_through_a_step(
    server: &SqlServer,
    url: &EngineUrl,
    ttl: Millis,
    secs: u32,
) -> Result<Duration, MachineStall> {
    let [first, second] = [connect(url).await.unwrap(), connect(url).await.unwrap()];
    let [mut one, mut two] = [LeaseTerm::open(&first, ttl).await, LeaseTerm::open(&second, ttl).await];
    let (dead, opened) = (LeaseTerm::open(&first, ttl).await, Stopwatch::start());
    let told = first.renew(one.lease).await.unwrap().and_then(|renewed| renewed.clock);
    let Some(told) = told else { return Err(one.ended()) };
    server.sql(&format!("UPDATE step SET secs = {secs}")).await;
    // Who comes right behind the step ends nothing.
    let late = connect(url).await.unwrap();
    for term in [&one, &two, &dead] {
        term.lives(is_open(&late, term.lease).await)?;
    }
    while is_open(&second, dead.lease).await {
        one.renew(&first).await?;
        let renewed = two.renew(&second).await?;
        assert!(renewed.clock.unwrap() - told >= Millis::secs(6), "the clock was set");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(dead.may_be_over(), "{secs}: ended after {:?}", opened.elapsed());
    Ok(opened.elapsed())
}

async fn keys_that_no_server_takes_are_refused_alone(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("keys")).await.unwrap();
    for odd in ["a\0b".to_owned(), "k".repeat(701)] {
        let batch = vec![once(&format!("l{}", odd.len())), once(&odd), once(&format!("r{}", odd.len()))];
        let outcomes = registry.commit(batch).await;
        assert!(
            matches!(&outcomes[..], [TxnOutcome::Applied(_), TxnOutcome::Refused(_), TxnOutcome::Applied(_)]),
            "{outcomes:?} {:?}",
            registry.last_error()
        );
        assert_eq!(entry(&registry, &odd).await, None);
    }
    let longest = "k".repeat(700);
    assert!(matches!(commit(&registry, once(&longest)).await, TxnOutcome::Applied(_)));
    assert!(entry(&registry, &longest).await.is_some());
}
