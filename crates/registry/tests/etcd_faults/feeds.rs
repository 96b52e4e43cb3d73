//! The feed of etcd through cuts, and where etcd has forgotten.

use super::*;

/// proves: S1-10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_feed_survives_cuts_without_a_gap() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let (writer, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let listener = through(&proxy).await;
    let mut feed = listener.watch(listener.list().await.unwrap().revision).await.unwrap();
    let (mut told, mut last) = (Vec::new(), Revision(0));
    for round in 0..5_u32 {
        for step in 0..20 {
            last = made(&writer, [put("count", &(round * 20 + step).to_string(), None)]).await;
            if step == 10 {
                proxy.set(ProxyMode::Closed);
            }
        }
        proxy.set(ProxyMode::Open);
        told.extend(changes_until(&mut feed, last).await);
    }
    assert_eq!(told.iter().map(number).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

/// proves: S1-10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_feed_ends_where_etcd_has_forgotten() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let (writer, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let listener = through(&proxy).await;
    let start = made(&writer, [put("a", "0", None)]).await;
    let mut feed = listener.watch(start).await.unwrap();
    proxy.set(ProxyMode::Closed);
    for step in 1..5 {
        made(&writer, [put("a", &step.to_string(), None)]).await;
    }
    let last = made(&writer, [put("b", "1", None)]).await;
    let answer = etcd.members[0].http("POST", "/v3/kv/compaction", &format!("{{\"revision\":\"{last}\"}}"));
    assert!(answer.is_some_and(|answer| answer.contains("header")), "compacted");
    proxy.set(ProxyMode::Open);
    let told = tokio::time::timeout(LONG, feed.next()).await.expect("an answer in time");
    assert_eq!(told, None, "a gap must be told");

    let mut late = listener.watch(start).await.unwrap();
    assert_eq!(tokio::time::timeout(LONG, late.next()).await.expect("in time"), None, "and told to the next");
    let listed = listener.list().await.unwrap();
    let mut feed = listener.watch(listed.revision).await.unwrap();
    let after = made(&writer, [put("a", "9", None)]).await;
    assert_eq!(changes_until(&mut feed, after).await.len(), 1);
}
