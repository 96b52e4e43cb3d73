//! Cases of temporary registries: of their own, and gone without a trace.

use super::{Stage, put, put_by, txn};
use crate::temporary::random_name;
use crate::{Registry, RegistryError, TemporaryRegistry, open};
use evenkeel_core::registry::TxnOutcome;
use std::sync::Arc;

pub async fn a_temporary_registry_begins_empty_beside_the_others(stage: Stage) {
    stage.commit_applied([], [put("a", "of the stage"), put("run/j/claim", "of the stage")]).await;
    let temporary = TemporaryRegistry::create(&stage.engine.url()).await.expect("a temporary registry");
    let registry = open(temporary.url()).await.expect("it is there");
    assert_eq!(registry.list().await.expect("the listing").changes, vec![]);
    fill(&registry).await;
    assert_eq!(stage.value("a").await.as_deref(), Some("of the stage"));
    drop(registry);
    temporary.remove().await.expect("it is removed");
    assert_eq!(stage.value("a").await.as_deref(), Some("of the stage"));
    assert_eq!(stage.value("run/j/claim").await.as_deref(), Some("of the stage"));
}

pub async fn a_removed_registry_leaves_nothing(stage: Stage) {
    let (at, name) = (stage.engine.url(), random_name().expect("a name"));
    for _ in 0..2 {
        // The second one has the same name, and would find what the first one left.
        let temporary = TemporaryRegistry::create_named(&at, &name).await.expect("a temporary registry");
        let registry = open(temporary.url()).await.expect("it is there");
        assert_eq!(registry.list().await.expect("the listing").changes, vec![]);
        let keys = ["a", "run/j/claim", "node/a@1"].map(super::key).to_vec();
        let found = registry.read(keys).await.expect("the entries");
        assert!(found.iter().all(|change| change.entry.is_none()), "{found:?}");
        fill(&registry).await;
        drop(registry);
        temporary.remove().await.expect("it is removed");
    }
}

pub async fn a_registry_that_exists_is_never_taken(stage: Stage) {
    let (at, name) = (stage.engine.url(), random_name().expect("a name"));
    let first = TemporaryRegistry::create_named(&at, &name).await.expect("a temporary registry");
    let registry = open(first.url()).await.expect("it is there");
    fill(&registry).await;
    let second = TemporaryRegistry::create_named(&at, &name).await;
    assert!(matches!(&second, Err(RegistryError::Refused(why)) if why.contains("exists")), "{second:?}");
    let found = registry.read(vec![super::key("a")]).await.expect("the entry");
    assert!(found[0].entry.is_some(), "it is as it was");
    drop(registry);
    first.remove().await.expect("it is removed");
}

/// Writes entries of each kind: cold, hot and of a lease.
async fn fill(registry: &Arc<dyn Registry>) {
    let lease = registry.open(super::TTL).await.expect("a lease").lease;
    let writes = [put("a", "1"), put("run/j/claim", "2"), put_by(lease, "node/a@1", "3")];
    let made = registry.commit(vec![txn([], writes)]).await;
    assert!(matches!(made[..], [TxnOutcome::Applied(_)]), "{made:?}");
}
