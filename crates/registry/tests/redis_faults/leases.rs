//! Leases where the server is frozen, its clock is set, or its memory is full.

use super::*;

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_frozen_server_takes_no_lease_with_it() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    with_a_term(Millis::secs(2), async |ttl| {
        let (term, opened) = (LeaseTerm::open(&registry, ttl).await, Stopwatch::start());
        server.freeze();
        let before = opened.elapsed();
        tokio::time::sleep(Duration::from_millis(ttl.0.unsigned_abs()) * 3 / 2).await;
        let thawed = Stopwatch::start();
        server.thaw();
        let renewed = until("a renewal", || async { registry.renew(term.lease).await.ok() }).await;
        // While it was frozen no renewal was possible, so that time does not count.
        let counted = before + thawed.elapsed();
        assert!(renewed.is_some() || counted >= term.least, "its term went on while the server was frozen");
        renewed.map(drop).ok_or(MachineStall)
    })
    .await;
}

/// To the registry, a server's clock that is set is the same as its own note of the time being set the other way.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_clock_that_is_set_ends_no_lease_and_keeps_none_alive() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
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
async fn lived_through_a_step(
    server: &RedisServer,
    registry: &SharedRegistry,
    by: i64,
) -> Result<Duration, MachineStall> {
    let mut term = LeaseTerm::open(registry, Millis::secs(4)).await;
    server.command("HINCRBY", &["{evenkeel}:meta", "wall", &i64::to_string(&-by)]);
    term.renew(registry).await?;
    let renewed = Stopwatch::start();
    let open = || async { commit(registry, txn(vec![Guard::Open(term.lease)], vec![])).await };
    until("the end of the lease", || async { matches!(open().await, TxnOutcome::Refused(_)).then_some(()) })
        .await;
    assert!(term.may_be_over(), "set by {by} ms: ended early, after {:?}", renewed.elapsed());
    Ok(renewed.elapsed())
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_full_memory_is_told_and_got_over() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    made(&registry, vec![], vec![put("a", "1", None)]).await;
    server.command("CONFIG", &["SET", "maxmemory", "1"]);
    let both = txn(vec![], vec![put("a", "2", None), put("b", "2", None)]);
    assert_eq!(commit(&registry, both).await, TxnOutcome::Unknown);
    let why = registry.last_error().unwrap().to_string();
    assert!(why.contains("raise its maxmemory"), "{why}");
    assert_eq!(entry(&registry, "a").await.map(|e| e.value), Some((*b"1").into()));
    assert_eq!(entry(&registry, "b").await, None, "nothing is half done");
    server.command("CONFIG", &["SET", "maxmemory", "0"]);
    made(&registry, vec![], vec![put("a", "3", None)]).await;
    assert_eq!(registry.last_error(), None);
}

/// Redis still deletes when it takes nothing more: half of a lease's end must not be left.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_lease_that_ends_while_the_memory_is_full_ends_whole_afterwards() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    made(&registry, vec![], vec![put("a", "1", Some(lease))]).await;
    let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
    server.end_in_full_memory(lease);
    assert!(registry.renew(lease).await.is_err(), "the memory is full");
    assert!(entry(&registry, "a").await.is_some(), "its end cannot be told yet");
    server.command("CONFIG", &["SET", "maxmemory", "0"]);
    made(&registry, vec![], vec![put("b", "1", None)]).await;
    let gone = |batch: &ChangeBatch| batch.changes.iter().any(|it| it.key == key("a") && it.entry.is_none());
    while !gone(&feed.next().await.expect("the feed goes on")) {}
    assert_eq!(entry(&registry, "a").await, None);
}
