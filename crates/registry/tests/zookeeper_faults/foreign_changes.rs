//! What an operator changes with a client of ZooKeeper's, past the engine.

use evenkeel_core::registry::Guard;
use evenkeel_registry::Feed;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::requests::{SharedRegistry, connect, made, next, put};
use crate::{TTL, ZookeeperNamespace, key};

async fn listen(registry: &SharedRegistry) -> Feed {
    registry.watch(registry.list().await.unwrap().revision).await.unwrap()
}

async fn listed(registry: &SharedRegistry) -> Vec<String> {
    let listed = registry.list().await.unwrap();
    listed.changes.iter().map(|change| change.key.as_str().to_owned()).collect()
}

/// proves: S2-52, S3-30
#[tokio::test]
async fn an_entry_that_is_deleted_past_the_engine_is_missed_at_once_and_by_all() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let (own, other) = (connect(&place.url()).await, connect(&place.url()).await);
    let lease = own.open(TTL).await.unwrap().lease;
    made(&own, vec![], vec![put("node/b@7", "", Some(lease)), put("job/j/spec", "1", None)]).await;
    let mut feeds = [listen(&own).await, listen(&other).await];

    let operator = Client::connect(&place.at.to_string()).await.unwrap();
    let cold = format!("/{}/cold", place.namespace);
    operator.delete(&format!("{cold}/node|b@7"), None).await.unwrap();
    for feed in &mut feeds {
        assert_eq!(next(feed).await, None, "a gap: list again");
        assert_eq!(feed.error(), None);
    }
    for registry in [&own, &other] {
        assert_eq!(listed(registry).await, ["job/j/spec"]);
    }
    assert!(own.renew(lease).await.unwrap().is_some(), "only its entry is gone");

    let made_there = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let mut feeds = [listen(&own).await, listen(&other).await];
    operator.create(&format!("{cold}/pool|p"), &[0; 8], &made_there).await.unwrap();
    for feed in &mut feeds {
        assert_eq!(next(feed).await, None, "a gap: list again");
    }
    assert_eq!(listed(&other).await, ["job/j/spec", "pool/p"]);
}

/// A guard on what is absent makes a node and deletes it: that is no stranger's doing.
#[tokio::test]
async fn transactions_make_no_gap_whatever_they_touch() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let (own, other) = (connect(&place.url()).await, connect(&place.url()).await);
    let lease = own.open(TTL).await.unwrap().lease;
    let mut feed = listen(&other).await;
    for round in 0..20 {
        let (gone, member) = (Guard::Absent(key("node/x@1")), format!("node/a@{round}"));
        made(&own, vec![gone.clone()], vec![put("run/j/claim", &round.to_string(), None)]).await;
        made(&own, vec![gone], vec![put(&member, "", Some(lease))]).await;
        assert_eq!(next(&mut feed).await, Some(vec![member]));
    }
    own.close(lease).await.unwrap();
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(20));
}
