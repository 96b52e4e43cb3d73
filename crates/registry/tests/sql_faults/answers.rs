//! Answers of an SQL server that are lost, and a server that is killed after it has answered.

use super::*;

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_answer_lost_by_postgres_is_settled_by_sending_again() {
    a_commit_whose_answer_is_lost_is_unknown_and_settled_by_sending_again(SqlServerKind::Postgres).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_answer_lost_by_mysql_is_settled_by_sending_again() {
    a_commit_whose_answer_is_lost_is_unknown_and_settled_by_sending_again(SqlServerKind::MySql).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_postgres_answered_survives_a_kill() {
    what_was_answered_survives_a_kill(SqlServerKind::Postgres).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_mysql_answered_survives_a_kill() {
    what_was_answered_survives_a_kill(SqlServerKind::MySql).await;
}

async fn a_commit_whose_answer_is_lost_is_unknown_and_settled_by_sending_again(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let cutter = FaultProxy::start(server.port).await;
    let registry = connect(&server.url_at(cutter.port, "cut")).await.unwrap();
    // PostgreSQL's requests end with a zero, and its `BEGIN` says COMMITTED.
    let word = if kind == SqlServerKind::Postgres { "COMMIT\0" } else { "COMMIT" };
    cutter.set(word, AnswerFault::Cut);
    assert_eq!(commit(&registry, once("a")).await, TxnOutcome::Unknown);
    assert!(matches!(registry.last_error().as_deref(), Some(RegistryError::Unavailable(_))));
    // It was made, and whoever sends it again learns so.
    let TxnOutcome::Refused(found) = settled(&registry, &once("a")).await else { panic!("made twice") };
    assert!(found[0].entry.as_ref().is_some_and(|entry| entry.born == entry.revision));
    assert_eq!(registry.last_error(), None);
    // The same for a lease: its holder never heard of it, and it is not given to anybody else.
    cutter.set(word, AnswerFault::Cut);
    assert!(matches!(registry.open(Millis::secs(10)).await, Err(RegistryError::Unavailable(_))));
    let (first, second) =
        (registry.open(Millis::secs(10)).await.unwrap(), registry.open(Millis::secs(10)).await);
    assert!(first.lease < second.unwrap().lease);
    assert_eq!(first.lease, LeaseId(2), "the one that nobody heard of has its number for ever");
}

async fn what_was_answered_survives_a_kill(kind: SqlServerKind) {
    let Some(mut server) = SqlServer::start(kind, &[]).await else { return };
    let registry = connect(&server.url("kill")).await.unwrap();
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    let (told, mut heard) = tokio::sync::watch::channel(0);
    let writer = {
        let registry = registry.clone();
        tokio::spawn(async move {
            let mut applied = Vec::new();
            for i in 0.. {
                let at = format!("k{i}");
                match commit(&registry, once(&at)).await {
                    TxnOutcome::Applied(revision) => applied.push((at, revision)),
                    _ => return (applied, at),
                }
                told.send_replace(i);
            }
            unreachable!("the server is killed")
        })
    };
    heard.wait_for(|count| *count >= 50).await.unwrap();
    server.kill();
    let (applied, doubtful) = writer.await.unwrap();
    assert!(matches!(registry.list().await, Err(RegistryError::Unavailable(_))));
    server.restart().await;
    settled(&registry, &once(&doubtful)).await;
    for (at, revision) in &applied {
        assert_eq!(entry(&registry, at).await.map(|entry| entry.revision), Some(*revision), "{at} was lost");
    }
    let listed = registry.list().await.unwrap();
    assert_eq!(listed.changes.len(), applied.len() + 1);
    assert!(registry.renew(lease).await.unwrap().is_some(), "a lease outlives the server's process");
    assert!(registry.open(Millis::secs(60)).await.unwrap().lease > lease);
}
