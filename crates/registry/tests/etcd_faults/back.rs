//! An etcd whose data is put back: who was there notices, and who was away stops at its return.

use super::*;

/// The data of yesterday under the same names: only who was there can tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn etcd_that_went_back_in_time_is_noticed_and_begins_a_new_generation() {
    let Some(mut etcd) = EtcdCluster::start(1) else { return };
    let registry = connect(&etcd.url()).await;
    assert_eq!(registry.facts().generation, 0);
    made(&registry, [put("a", "old", None)]).await;
    let data = etcd.members[0].folder.clone();
    let copy = data.with_extension("copy");
    etcd.members[0].kill();
    server::copy(&data, &copy);
    etcd.members[0].start();
    for step in 0..10 {
        let write = txn([], [put("a", &step.to_string(), None)]);
        until("it is made", || async { matches!(commit(&registry, &write).await, TxnOutcome::Applied(_)) })
            .await;
    }
    etcd.members[0].kill();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    etcd.members[0].start();

    until("it is noticed", || async { matches!(registry.list().await, Err(RegistryError::Fatal(_))) }).await;
    assert_eq!(commit(&registry, &txn([], [put("a", "lost", None)])).await, TxnOutcome::Unknown);
    let again = connect(&etcd.url()).await;
    assert_eq!(again.facts().generation, 1, "it was written before anybody was told");
    assert_eq!(value(&again, "a").await.as_deref(), Some("old"));
}

/// When it is back, etcd has gone on past what it knew, and only the generation tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn who_was_away_when_etcd_went_back_in_time_stops_at_its_return() {
    let Some(mut etcd) = EtcdCluster::start(1) else { return };
    let (registry, proxy) = (connect(&etcd.url()).await, Proxy::start(etcd.members[0].at()).await);
    let away = through(&proxy).await;
    let lease = away.open(Millis::secs(600)).await.unwrap().lease;
    let data = etcd.members[0].folder.clone();
    let copy = data.with_extension("copy");
    etcd.members[0].kill();
    server::copy(&data, &copy);
    etcd.members[0].start();
    let write = txn([], [put("a", "1", None)]);
    let made = |registry: Arc<dyn Registry>| {
        let write = write.clone();
        async move { matches!(commit(&registry, &write).await, TxnOutcome::Applied(_)) }
    };
    until("it is made", || made(registry.clone())).await;
    until("it is back", || made(away.clone())).await;
    proxy.set(ProxyMode::Closed);
    etcd.members[0].kill();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    etcd.members[0].start();
    until("it is noticed", || async { matches!(registry.list().await, Err(RegistryError::Fatal(_))) }).await;
    let again = connect(&etcd.url()).await;
    for _ in 0..20 {
        assert!(made(again.clone()).await);
    }
    proxy.set(ProxyMode::Open);
    let ended = |told: &Result<_, RegistryError>| matches!(told, Err(RegistryError::Fatal(why)) if why.contains("new generation"));
    until("it stops", || async { ended(&away.renew(lease).await.map(drop)) }).await;
    assert!(!made(away.clone()).await);
    assert_eq!(connect(&etcd.url()).await.facts().generation, again.facts().generation, "and raises nothing");
}
