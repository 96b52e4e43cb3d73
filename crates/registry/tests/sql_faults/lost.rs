//! Verbs that reach the server, which does what they ask, and the connection is cut instead of the answer.

use std::time::Duration;

use evenkeel_core::registry::TxnOutcome;
use evenkeel_core::time::Millis;
use evenkeel_registry::RegistryError;
use evenkeel_registry::conformance::linear;

use super::fault_proxy::{AnswerFault, FaultProxy};
use super::server::{SqlServer, SqlServerKind};
use super::{commit, connect, key, once};

const TTL: Millis = Millis::secs(60);

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn answers_about_leases_that_postgres_lost_are_settled_by_asking_again() {
    leases(SqlServerKind::Postgres).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn answers_about_leases_that_mysql_lost_are_settled_by_asking_again() {
    leases(SqlServerKind::MySql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn readings_that_postgres_lost_are_read_again() {
    readings(SqlServerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn readings_that_mysql_lost_are_read_again() {
    readings(SqlServerKind::MySql).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_history_at_postgres_in_a_storm_can_have_happened_one_after_the_other() {
    history(SqlServerKind::Postgres).await;
}

/// proves: I46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_history_at_mysql_in_a_storm_can_have_happened_one_after_the_other() {
    history(SqlServerKind::MySql).await;
}

async fn leases(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let cutter = FaultProxy::start(server.port).await;
    let (near, far) = (
        connect(&server.url("lost")).await.unwrap(),
        connect(&server.url_at(cutter.port, "lost")).await.unwrap(),
    );
    // PostgreSQL's requests end with a zero, and its `BEGIN` says COMMITTED.
    let word = if kind == SqlServerKind::Postgres { "COMMIT\0" } else { "COMMIT" };
    let lease = far.open(TTL).await.unwrap().lease;

    cutter.set(word, AnswerFault::Cut);
    assert!(matches!(far.renew(lease).await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(1).await;
    assert_eq!(far.renew(lease).await.unwrap().map(|granted| granted.lease), Some(lease));

    cutter.set(word, AnswerFault::Cut);
    assert!(matches!(far.close(lease).await, Err(RegistryError::Unavailable(_))));
    cutter.sprung(2).await;
    assert_eq!(near.renew(lease).await, Ok(None), "it was closed");
    assert_eq!(far.close(lease).await, Ok(()));
    assert_eq!(far.renew(lease).await, Ok(None));
}

async fn readings(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let cutter = FaultProxy::start(server.port).await;
    let near = connect(&server.url("lost")).await.unwrap();
    let made = commit(&near, once("job/read-by-its-name")).await;
    let TxnOutcome::Applied(made) = made else { panic!("should have been made: {made:?}") };

    // The connection was kept, and could have been dead for long: so it is asked again on a new one, and nobody is told.
    let far = connect(&server.url_at(cutter.port, "lost")).await.unwrap();
    // MySQL gets keys as hexadecimal digits.
    let word =
        if kind == SqlServerKind::Postgres { "read-by-its-name" } else { "726561642d62792d6974732d6e616d65" };
    cutter.set(word, AnswerFault::Cut);
    let found = far.read(vec![key("job/read-by-its-name")]).await.unwrap().remove(0).entry.unwrap();
    cutter.sprung(1).await;
    assert_eq!((found.revision, &*found.value), (made, &b"1"[..]));
    // The beginning of a listing, its rows, and the changes since.
    for (nth, word) in ["SELECT revision", "ORDER BY k", "c.gone"].into_iter().enumerate() {
        let far = connect(&server.url_at(cutter.port, "lost")).await.unwrap();
        cutter.set(word, AnswerFault::Cut);
        let listed = far.list().await.unwrap().changes;
        assert_eq!(
            listed.into_iter().map(|it| it.entry).collect::<Vec<_>>(),
            [Some(found.clone())],
            "{word}"
        );
        cutter.sprung(2 + u32::try_from(nth).unwrap()).await;
    }
}

/// Every connection is ended again and again.
async fn history(kind: SqlServerKind) {
    let Some(server) = SqlServer::start(kind, &[]).await else { return };
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(&server.url("history")).await.unwrap());
    }
    clients.extend_from_within(..);
    linear::histories_under_faults(&clients, 1_000, async || {
        server.disconnect_clients().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
    .await;
}
