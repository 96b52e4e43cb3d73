//! Servers that are killed, frozen, restored, or lose their leader.

use super::*;

/// proves: I1
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_killed_server_that_starts_again_has_lost_nothing_not_even_a_lease() {
    let Some(mut server) = ZookeeperServer::start() else { return };
    let registry = connect(&server.url()).await;
    let facts = registry.facts();
    assert_eq!((facts.class, facts.early), (DurabilityClass::A, Millis(750)));
    let lease = registry.open(TTL).await.unwrap().lease;
    let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
    let before = made(&registry, vec![], vec![put("node/a@1", "", Some(lease)), put("a", "1", None)]).await;
    assert_eq!(next(&mut feed).await.map(|keys| keys.len()), Some(2));
    server.kill();
    assert_eq!(commit(&registry, txn(vec![], vec![put("b", "1", None)])).await, TxnOutcome::Unknown);
    server.restart();
    until("a renewal", || async { registry.renew(lease).await.ok() }).await.expect("the lease lives");
    let kept = entry(&registry, "a").await.map(|e| e.revision);
    assert_eq!(kept, Some(before));
    assert!(made(&registry, vec![], vec![put("c", "1", None)]).await > before);
    let mut heard = Vec::new();
    while !heard.contains(&"c".to_owned()) {
        heard.extend(next(&mut feed).await.expect("the feed goes on"));
    }
    assert_eq!(connect(&server.url()).await.facts(), facts);
}

/// The data of yesterday under the same name: only who was there can tell.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn zookeeper_that_went_back_in_time_is_noticed_and_begins_a_new_generation() {
    let Some(mut server) = ZookeeperServer::start() else { return };
    let (registry, other) = (connect(&server.url()).await, connect(&server.url()).await);
    assert_eq!(registry.facts().generation, 0);
    let lease = registry.open(TTL).await.unwrap().lease;
    made(&registry, vec![], vec![put("a", "old", None)]).await;
    server.kill();
    server.keep_copy();
    server.restart();
    for step in 0..10 {
        let write = txn(vec![], vec![put("a", &step.to_string(), None)]);
        until("it is made", || async {
            matches!(commit(&registry, write.clone()).await, TxnOutcome::Applied(_)).then_some(())
        })
        .await;
    }
    let mut feed = registry.watch(registry.list().await.unwrap().revision).await.unwrap();
    until("the other knows it too", || async { other.list().await.ok() }).await;
    server.kill();
    server.go_back();
    server.restart();

    let mut raised = 0;
    for noticed in [&registry, &other] {
        let why = until("it is noticed", || async {
            noticed.list().await.err().filter(|why| matches!(why, RegistryError::Fatal(_)))
        })
        .await;
        let noticed_itself = why.to_string().contains("has gone back in time");
        raised += u32::from(noticed_itself);
        // Who comes back once the other one has raised the generation finds that first.
        assert!(noticed_itself || why.to_string().contains("was given a new generation"), "{why}");
        assert_eq!(commit(noticed, txn(vec![], vec![put("a", "lost", None)])).await, TxnOutcome::Unknown);
        assert_eq!(noticed.last_error().as_deref(), Some(&why));
        assert_eq!(noticed.renew(lease).await, Err(why.clone()));
        assert_eq!(noticed.watch(Revision(0)).await.err(), Some(why));
    }
    assert_eq!(next(&mut feed).await, None, "whoever listens hears the end");
    assert!(raised > 0, "somebody raised the generation, and says why");
    // Both noticed it, which is one return.
    let again = connect(&server.url()).await;
    assert_eq!(again.facts().generation, 1);
    assert_eq!(entry(&again, "a").await.map(|it| it.value.to_vec()), Some(b"old".to_vec()));
    made(&again, vec![], vec![put("a", "new", None)]).await;
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn who_finds_a_new_generation_at_its_return_stops() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    proxy.set(ProxyMode::Closed);
    let operator = zookeeper_client::Client::connect(&place.at.to_string()).await.unwrap();
    operator.set_data(&format!("/{}", place.namespace), b"1 7", None).await.unwrap();
    proxy.set(ProxyMode::Open);
    let why = until("it is noticed", || async {
        far.list().await.err().filter(|why| matches!(why, RegistryError::Fatal(_)))
    })
    .await;
    assert!(why.to_string().contains("new generation"), "{why}");
    assert_eq!(connect(&place.url()).await.facts().generation, 7);
    assert!(near.list().await.is_ok(), "who was not away has heard nothing of it");
}

/// A server that starts again counts all sessions from anew.
///
/// proves: I10
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_lease_whose_holder_died_before_a_restart_ends_a_term_after_it_at_most() {
    let mut seen = Vec::new();
    // Two ticks, and what a machine takes that does nothing else: it makes the end seem later, so the best of several tries counts.
    while seen.last().is_none_or(|late| *late > Duration::from_millis(2 * 250 + 2_000)) {
        assert!(seen.len() < 6, "so late after the term that began with the restart: {seen:?}");
        let Some(server) = ZookeeperServer::start() else { return };
        seen.extend(late_after_a_restart(server).await);
    }
}

/// How long after its whole term, counted from the restart of the server, a lease is over whose holder died before.
async fn late_after_a_restart(mut server: ZookeeperServer) -> Result<Duration, MachineStall> {
    let (near, lost) = (connect(&server.url()).await, connect(&server.url()).await);
    let mut held = LeaseTerm::open(&lost, Millis::secs(4)).await;
    let term = Duration::from_secs(4);
    held.made(&lost, txn(vec![], vec![put("node/a@1", "", Some(held.lease))])).await?;
    held.renew(&lost).await?;
    drop(lost);
    tokio::time::sleep(term / 2).await;
    server.kill();
    server.restart();
    let restarted = Stopwatch::start();
    until("its end", || async {
        near.read(vec![key("node/a@1")]).await.ok().filter(|found| found[0].entry.is_none())
    })
    .await;
    assert!(held.may_be_over(), "ended early, after {:?}", held.passed());
    Ok(restarted.elapsed().saturating_sub(term))
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_a_frozen_server_makes_of_a_lease_is_so_for_everybody() {
    let Some(server) = ZookeeperServer::start() else { return };
    let registry = connect(&server.url()).await;
    with_a_term(Millis::secs(4), async |ttl| {
        let mut term = LeaseTerm::open(&registry, ttl).await;
        server.freeze();
        assert!(registry.renew(term.lease).await.is_err(), "nobody answers");
        server.thaw();
        let mut asked = Stopwatch::start();
        let told = until("an answer", || {
            asked = Stopwatch::start();
            async { registry.renew(term.lease).await.ok() }
        })
        .await;
        // Frozen for its term, the server may count it as over or not; what it says is so for everybody.
        let open = until("an answer", || async {
            match commit(&registry, txn(vec![Guard::Open(term.lease)], vec![])).await {
                TxnOutcome::Applied(_) => Some(true),
                TxnOutcome::Refused(_) => Some(false),
                TxnOutcome::Unknown => None,
            }
        })
        .await;
        if told.is_some() {
            term.renewed(asked);
            return term.lives(open);
        }
        assert!(!open, "it was told to be over, and is not");
        Ok(())
    })
    .await;
}

/// It still answers what it can answer by itself, pings among it, until something waits for its leader.
///
/// proves: I10, I46
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_server_that_hears_nothing_of_its_leader_any_more_is_left_for_another() {
    if !server::is_there() {
        return;
    }
    let (ensemble, ways) = until("an ensemble whose ports are free", detoured).await;
    let (first, leader) = ensemble.first_and_leader();
    let other = Proxy::start(leader).await;
    other.set(ProxyMode::Closed);
    let registry = connect(&format!("zookeeper://{first},{}", other.at())).await;
    let lease = registry.open(Millis::secs(60)).await.unwrap().lease;
    made(&registry, vec![], vec![put("node/a@1", "", Some(lease))]).await;
    other.set(ProxyMode::Open);
    for way in &ways {
        way.set(ProxyMode::Held);
    }
    let write = txn(vec![], vec![put("a", "1", None)]);
    assert_eq!(commit(&registry, write.clone()).await, TxnOutcome::Unknown, "it hears nothing");
    // The connection is given up before the answer is, so that the next try is at another server.
    let why = registry.renew(lease).await.unwrap_err().to_string();
    assert!(why.contains("no response from connection"), "{why}");
    until("it is made at the other", || async {
        matches!(commit(&registry, write.clone()).await, TxnOutcome::Applied(_)).then_some(())
    })
    .await;
    assert!(until("a renewal", || async { registry.renew(lease).await.ok() }).await.is_some());
    assert!(entry(&registry, "node/a@1").await.is_some());
    assert_eq!(ensemble.modes()[0], "follower", "it knows of nothing");
}

/// An ensemble whose first member reaches the others through proxies; `None` where one of its ports is in use.
async fn detoured() -> Option<(Ensemble, Vec<Proxy>)> {
    let ports = free_ports(6);
    let mut detours = ports.clone();
    let mut ways = Vec::new();
    for leads in [2, 4] {
        let way = Proxy::start(SocketAddr::from(([127, 0, 0, 1], ports[leads]))).await;
        detours[leads] = way.at().port();
        ways.push(way);
    }
    let started = tokio::task::spawn_blocking(move || Ensemble::with_detours(&ports, &detours));
    started.await.unwrap().map(|ensemble| (ensemble, ways))
}

/// Two write while leaders fall: what was answered is there, in one order for both, and nobody loses a lease.
///
/// proves: S1-09, I46
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn an_ensemble_that_loses_its_leader_loses_nothing_else() {
    with_a_term(Millis::secs(5), leaders_fall).await;
}

async fn leaders_fall(ttl: Millis) -> Result<(), MachineStall> {
    let Some(mut ensemble) = Ensemble::start() else { return Ok(()) };
    let (left, right) = (connect(&ensemble.url()).await, connect(&ensemble.url()).await);
    let mut term = LeaseTerm::open(&left, ttl).await;
    let writes = vec![put("count", "0", None), put("node/a@1", "", Some(term.lease))];
    term.made(&left, txn(vec![], writes)).await?;
    let stop = Arc::new(tokio::sync::Notify::new());
    let so_far = Arc::new(tokio::sync::watch::Sender::new(0));
    let adders: Vec<_> = [left.clone(), right.clone()]
        .into_iter()
        .enumerate()
        .map(|(adder, registry)| {
            let (stop, so_far) = (stop.clone(), so_far.clone());
            tokio::spawn(async move {
                let mut added = 0;
                let stopped = stop.notified();
                tokio::pin!(stopped);
                while tokio::time::timeout(Duration::from_millis(5), &mut stopped).await.is_err() {
                    if try_to_add_one(&registry, adder, added).await {
                        added += 1;
                        so_far.send_modify(|so_far| *so_far += 1);
                    }
                }
                added
            })
        })
        .collect();
    let holder = {
        let left = left.clone();
        tokio::spawn(async move {
            loop {
                let asked = Stopwatch::start();
                match left.renew(term.lease).await {
                    Ok(Some(_)) => term.renewed(asked),
                    Ok(None) => return term.ended(),
                    Err(_) => {}
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
    };
    let ensemble = tokio::task::spawn_blocking(move || {
        ensemble.depose();
        ensemble.depose();
        ensemble
    });
    let ensemble = ensemble.await.unwrap();
    let fallen = *so_far.borrow();
    // It may elect once more by itself, which it takes its time for.
    let mut heard = so_far.subscribe();
    let more = heard.wait_for(|so_far| *so_far > fallen + 10);
    if tokio::time::timeout(Duration::from_secs(120), more).await.is_err() {
        let said = [&left, &right].map(|registry| registry.last_error());
        panic!("nothing more is added: {said:?} by {:?}", ensemble.modes());
    }
    stop.notify_waiters();
    let mut added = 0;
    for adder in adders {
        added += adder.await.unwrap();
    }
    let mut kept = true;
    for registry in [left, right] {
        let count = until("the count", || async { registry.read(vec![key("count")]).await.ok() }).await;
        let count = count[0].entry.clone().unwrap();
        assert_eq!(String::from_utf8_lossy(&count.value), added.to_string());
        let there = until("an answer", || async { registry.read(vec![key("node/a@1")]).await.ok() }).await;
        kept &= there[0].entry.is_some();
    }
    if !kept || holder.is_finished() {
        // The holder says whether the lease ended early.
        return Err(holder.await.unwrap());
    }
    holder.abort();
    Ok(())
}

/// Counts one up, sent until it is answered; `false` when somebody was faster. What an adder last did it writes down in
/// the same transaction, so that it knows even when somebody has counted on since.
async fn try_to_add_one(registry: &SharedRegistry, adder: usize, nonce: u32) -> bool {
    let Ok(found) = registry.read(vec![key("count")]).await else { return false };
    let found = found[0].entry.clone().unwrap();
    let count: u32 = String::from_utf8_lossy(&found.value).parse().unwrap();
    let (mine, nonce) = (format!("last{adder}"), nonce.to_string());
    let writes = vec![put("count", &(count + 1).to_string(), None), put(&mine, &nonce, None)];
    let step = txn(vec![Guard::At(key("count"), found.revision)], writes);
    loop {
        match commit(registry, step.clone()).await {
            TxnOutcome::Applied(_) => return true,
            TxnOutcome::Unknown => {}
            TxnOutcome::Refused(found) => {
                let last = found.into_iter().find(|change| change.key == key(&mine)).and_then(|it| it.entry);
                return last.is_some_and(|entry| *entry.value == *nonce.as_bytes());
            }
        }
    }
}
