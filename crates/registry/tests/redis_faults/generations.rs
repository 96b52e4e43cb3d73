//! What the server keeps and what it loses: kills, restores, replicas, and the generation that follows.

use super::*;

/// proves: I1
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_keeps_all_is_killed_and_started_again_and_nothing_is_lost() {
    let Some(mut server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    assert_eq!(registry.facts().class, DurabilityClass::B);
    let lease = registry.open(TTL).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let before = made(&registry, vec![], vec![put("node/a@1", "", Some(lease)), put("a", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(2));
    server.kill();
    assert_eq!(commit(&registry, txn(vec![], vec![put("b", "1", None)])).await, TxnOutcome::Unknown);
    server.restart();
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
    let Some(mut server) = RedisServer::start(&[]) else { return };
    let registry = connect(&server.url()).await;
    let facts = registry.facts();
    assert_eq!(facts.class, DurabilityClass::C);
    let lease = registry.open(TTL).await.unwrap().lease;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    let before = made(&registry, vec![], vec![put("job/a/assignment", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(1));
    server.kill();
    server.restart();
    let why = is_over(&registry).await;
    assert!(why.contains("lost") && why.contains("start this node again"), "{why}");
    assert!(matches!(registry.renew(lease).await, Err(RegistryError::Fatal(_))));
    assert!(matches!(registry.open(TTL).await, Err(RegistryError::Fatal(_))));
    assert_eq!(commit(&registry, txn(vec![], vec![put("x", "1", None)])).await, TxnOutcome::Unknown);
    assert_eq!(next(&mut feed).await, None);
    let anew = connect(&server.url()).await;
    assert!(anew.facts().generation > facts.generation);
    // No number is ever given twice: what guarded on the old ones can never hold.
    assert!(anew.open(TTL).await.unwrap().lease > lease);
    assert!(made(&anew, vec![], vec![put("job/a/assignment", "1", None)]).await > before);
}

/// What the documentation tells to do after a restore.
///
/// proves: I1
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_restored_backup_is_a_new_generation() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let before = registry.facts().generation;
    drop(registry);
    let documented = include_str!("../../../../docs/engines.md");
    assert!(documented.replace("\n  ", " ").contains("HSET {NAMESPACE}:meta run restored safe 0"));
    server.command("HSET", &["{evenkeel}:meta", "run", "restored", "safe", "0"]);
    assert_eq!(connect(&server.url()).await.facts().generation, before + 1);
    assert_eq!(connect(&server.url()).await.facts().generation, before + 1, "once");
}

/// It syncs its log less often than when everybody connected, and nobody is left who could know how far the history had gone.
///
/// proves: I1
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_ceased_to_keep_all_and_died_is_another_generation_to_whoever_comes_next() {
    let Some(mut server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    let (before, lease) = (registry.facts(), registry.open(Millis::secs(60)).await.unwrap().lease);
    assert_eq!(before.class, DurabilityClass::B);
    server.command("CONFIG", &["SET", "appendfsync", "everysec"]);
    until("a note of it", || async {
        (server.command("HGET", &["{evenkeel}:meta", "safe"]) == "0").then_some(())
    })
    .await;
    // Nobody is stopped by it.
    assert!(registry.renew(lease).await.unwrap().is_some());
    drop(registry);
    server.kill();
    server.restart();
    assert_eq!(connect(&server.url()).await.facts().generation, before.generation + 1);
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_emptied_database_ends_its_users() {
    let Some(server) = RedisServer::start(ALWAYS) else { return };
    let registry = connect(&server.url()).await;
    made(&registry, vec![], vec![put("a", "1", None)]).await;
    let mut feed = registry.watch(Revision(0)).await.unwrap();
    assert!(next(&mut feed).await.is_some());
    server.command("FLUSHALL", &[]);
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
    let (Some(mut primary), Some(replica)) = (RedisServer::start(ALWAYS), RedisServer::start(ALWAYS)) else {
        return;
    };
    let (host, port) = (primary.at().ip().to_string(), primary.at().port().to_string());
    replica.command("REPLICAOF", &[&host, &port]);
    until("a replica", || async {
        replica.command("INFO", &["replication"]).contains("master_link_status:up").then_some(())
    })
    .await;
    let url = format!("redis://{},{}/0", primary.at(), replica.at());
    let registry = connect(&url).await;
    assert_eq!(
        registry.facts().class,
        DurabilityClass::C,
        "what a replica may lack is lost with its primary"
    );
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    let kept = made(&registry, vec![], vec![put("job/a/assignment", "1", None)]).await;
    let copied = || async {
        let length: u32 = replica.command("HLEN", &["{evenkeel}:cold"]).parse().unwrap();
        (length == 1).then_some(())
    };
    until("the copy", copied).await;
    replica.command("REPLICAOF", &["NO", "ONE"]);
    let lost = made(
        &registry,
        vec![Guard::At(key("job/a/assignment"), kept)],
        vec![put("job/a/assignment", "2", None)],
    )
    .await;
    primary.kill();
    is_over(&registry).await;
    let after = connect(&url).await;
    assert_eq!(after.facts().generation, registry.facts().generation + 1);
    assert_eq!(entry(&after, "job/a/assignment").await.map(|e| e.revision), Some(kept), "it went back");
    assert!(after.renew(lease).await.unwrap().is_some());
    // The revision that was lost is not given to anything else.
    let next = made(
        &after,
        vec![Guard::At(key("job/a/assignment"), kept)],
        vec![put("job/a/assignment", "3", None)],
    )
    .await;
    assert!(next > lost);
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_replica_is_no_place_for_a_registry() {
    let (Some(primary), Some(replica)) = (RedisServer::start(ALWAYS), RedisServer::start(ALWAYS)) else {
        return;
    };
    let (host, port) = (primary.at().ip().to_string(), primary.at().port().to_string());
    replica.command("REPLICAOF", &[&host, &port]);
    let told = open(&replica.url()).await.map(drop);
    assert!(
        matches!(&told, Err(RegistryError::Unavailable(why)) if why.contains("name the primary")),
        "{told:?}"
    );
}
