//! Cases of limits: the engine holds what its facts say; more is refused and does no harm.

use std::sync::Arc;

use evenkeel_core::registry::{FeedKind, TxnOutcome, Value, Write};
use evenkeel_core::time::Millis;

use super::{Stage, absent, key, put, txn};

fn put_large(at: &str, size: usize) -> Write {
    let value: Value = Arc::from(vec![7_u8; size]);
    Write::Put { key: key(at), value, owner: None }
}

/// proves: S4-35
pub async fn the_facts_make_sense(stage: Stage) {
    let facts = stage.registry.facts();
    assert!(!facts.engine.is_empty() && facts.ttl_min > Millis::ZERO && facts.early >= Millis::ZERO);
    assert!(facts.value_max >= 512 << 10, "a spec and a lane of 20,000 shards must fit");
    assert!(facts.operations_max >= 64, "an edit of one job must fit");
    assert!(facts.bytes_max > facts.value_max, "the largest value must fit with its key");
    let in_process = facts.engine == "memory";
    assert!(in_process || facts.notice > Millis::ZERO, "how late trouble is noticed is known");
    if let FeedKind::Polled(period) = facts.feed {
        assert!(facts.notice >= period, "nothing is noticed before it is asked for");
    }
    assert_eq!(stage.connect_again().await.facts(), facts);
}

pub async fn the_largest_value_fits(stage: Stage) {
    let size = stage.registry.facts().value_max;
    stage.commit_applied([], [put_large("a", size)]).await;
    assert_eq!(stage.entry("a").await.map(|e| e.value.len()), Some(size));
}

pub async fn a_larger_value_is_refused_alone(stage: Stage) {
    let size = stage.registry.facts().value_max + 1;
    let batch = vec![
        txn([], [put("a", "1")]),
        txn([], [put("x", "1"), put_large("b", size)]),
        txn([], [put("c", "1")]),
    ];
    let outcomes = stage.registry.commit(batch).await;
    assert!(matches!(
        &outcomes[..],
        [TxnOutcome::Applied(_), TxnOutcome::Refused(_), TxnOutcome::Applied(_)]
    ));
    assert!(stage.holds([absent("b"), absent("x")]).await);
}

pub async fn the_longest_transaction_fits(stage: Stage) {
    let most = stage.registry.facts().operations_max;
    let guards: Vec<_> = (0..most / 2).map(|i| absent(&format!("k{i}"))).collect();
    let writes: Vec<_> = (0..most - most / 2).map(|i| put(&format!("k{i}"), "1")).collect();
    let count = writes.len();
    stage.commit_applied(guards, writes).await;
    assert_eq!(stage.list().await.changes.len(), count);
}

pub async fn a_longer_transaction_is_refused_alone(stage: Stage) {
    let most = stage.registry.facts().operations_max;
    let long = txn([], (0..=most).map(|i| put(&format!("k{i}"), "1")).collect::<Vec<_>>());
    let outcomes =
        stage.registry.commit(vec![txn([], [put("a", "1")]), long, txn([], [put("c", "1")])]).await;
    assert!(matches!(
        &outcomes[..],
        [TxnOutcome::Applied(_), TxnOutcome::Refused(_), TxnOutcome::Applied(_)]
    ));
    assert_eq!(stage.list().await.changes.len(), 2);
}

/// Puts with this many bytes together.
fn heavy(stage: &Stage, bytes: usize) -> Vec<Write> {
    let (most, mut left) = (stage.registry.facts().value_max, bytes);
    let mut writes = Vec::new();
    while left > 0 {
        let key = format!("k{}", writes.len());
        let size = most.min(left.saturating_sub(key.len()));
        left = left.saturating_sub(size + key.len());
        writes.push(put_large(&key, size));
    }
    writes
}

pub async fn the_heaviest_transaction_fits(stage: Stage) {
    let writes = heavy(&stage, stage.registry.facts().bytes_max);
    let transaction = txn([], writes);
    assert_eq!(transaction.bytes(), stage.registry.facts().bytes_max);
    let count = transaction.writes.len();
    stage.commit_applied([], transaction.writes).await;
    assert_eq!(stage.list().await.changes.len(), count);
}

pub async fn a_heavier_transaction_is_refused_alone(stage: Stage) {
    let heavy = txn([], heavy(&stage, stage.registry.facts().bytes_max + 1));
    let outcomes =
        stage.registry.commit(vec![txn([], [put("a", "1")]), heavy, txn([], [put("c", "1")])]).await;
    assert!(matches!(
        &outcomes[..],
        [TxnOutcome::Applied(_), TxnOutcome::Refused(_), TxnOutcome::Applied(_)]
    ));
    assert_eq!(stage.list().await.changes.len(), 2);
}

/// A batch is no transaction: however large it is, each transaction is made.
pub async fn a_batch_may_be_heavier_than_a_transaction(stage: Stage) {
    let facts = stage.registry.facts();
    let each = facts.value_max.min(4 << 20);
    let count = 2 * facts.bytes_max / each;
    let batch = (0..count).map(|i| txn([], [put_large(&format!("k{i}"), each)])).collect();
    let outcomes = stage.registry.commit(batch).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, TxnOutcome::Applied(_))), "{outcomes:?}");
    assert_eq!(stage.list().await.changes.len(), count);
}
