//! What etcd takes no more of, and what it says of itself then.

use evenkeel_core::registry::TxnOutcome;

use crate::server::EtcdCluster;
use crate::{commit, connect, made, put, txn, until, value};

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_transaction_of_almost_the_limit_is_made_and_one_beyond_it_is_refused() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let registry = connect(&etcd.url()).await;
    let half = |at: &str, bytes: usize| put(at, &"x".repeat(bytes), None);
    let limit = registry.facts().bytes_max;
    // Keys take some of it.
    let most = limit / 2 - 1_024;
    made(&registry, [half("a", most), half("b", most)]).await;
    assert_eq!(value(&registry, "b").await.map(|it| it.len()), Some(most));
    let beyond = txn([], [half("a", limit / 2), half("b", limit / 2)]);
    assert!(matches!(commit(&registry, &beyond).await, TxnOutcome::Refused(_)));
    assert_eq!(registry.last_error(), None, "a refusal is an answer");
    assert_eq!(value(&registry, "b").await.map(|it| it.len()), Some(most));
    // From what is made to what is refused nothing is unknown, whoever of us draws the line.
    let mut sizes = std::collections::BTreeSet::new();
    for more in (0..2_048).step_by(64) {
        let bytes = most + more;
        match commit(&registry, &txn([], [half("a", bytes), half("b", bytes)])).await {
            TxnOutcome::Applied(_) => sizes.insert("made"),
            TxnOutcome::Refused(_) => sizes.insert("refused"),
            TxnOutcome::Unknown => panic!("{} bytes: {:?}", 2 * bytes, registry.last_error()),
        };
    }
    assert_eq!(sizes.len(), 2, "{sizes:?}");
    // The same where many that fit go together.
    let each = limit / 4;
    let many: Vec<_> = (0..6).map(|nth| txn([], [half(&format!("k{nth}"), each)])).collect();
    let outcomes = registry.commit(many).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, TxnOutcome::Applied(_))), "{outcomes:?}");
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_etcd_that_is_full_says_so_and_is_found_to_be() {
    let Some(etcd) = EtcdCluster::with("--quota-backend-bytes=4194304") else { return };
    let registry = connect(&etcd.url()).await;
    assert_eq!(registry.check_health().await.unwrap().problems, []);
    let large = txn([], [put("a", &"x".repeat(1 << 20), None)]);
    until("it is full", || async {
        let outcome = commit(&registry, &large).await;
        let why = registry.last_error().map(|why| why.to_string()).unwrap_or_default();
        outcome == TxnOutcome::Unknown && why.contains("is full: compact and defragment it")
    })
    .await;
    let examined = registry.check_health().await.unwrap();
    let alarms: Vec<_> = examined.problems.iter().filter(|fault| fault.name == "alarm").collect();
    assert!(alarms.len() == 1 && alarms[0].detail.contains("NOSPACE"), "{examined:?}");
    // What was there can still be read.
    assert_eq!(value(&registry, "a").await.map(|it| it.len()), Some(1 << 20));
}
