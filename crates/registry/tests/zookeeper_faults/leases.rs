//! Leases whose holders are cut off, die, or are taken to other sessions.

use super::*;

impl ZookeeperNamespace {
    /// What the server says of everybody.
    fn server_text(&self, word: &str) -> String {
        let told = four_letter_reply(self.at, word);
        assert!(told.contains("0x"), "{word}: {told:?}");
        told
    }

    /// The session that the namespace's one lease lives by.
    fn session(&self) -> String {
        let (told, lease) = (self.server_text("dump"), format!("/{}/lease/", self.namespace));
        let before = |at: usize| told[..at].lines().rev().find(|line| line.starts_with("0x"));
        let session = told.find(&lease).and_then(before).map(|line| line.trim_end_matches(':').to_owned());
        session.unwrap_or_else(|| panic!("nothing lives by a session: {told}"))
    }

    /// Whether a session has no connection.
    fn is_disconnected(&self, session: &str) -> bool {
        !self.server_text("cons").contains(session)
    }

    /// Whether a session is over.
    fn is_over(&self, session: &str) -> bool {
        !self.server_text("dump").contains(session)
    }
}

/// Waits until a lease has ended that begins now and that nobody renews: all that are overdue were looked at since.
async fn wait_for_expiry_scan(registry: &SharedRegistry) {
    // A machine that stands still makes the lease end before anything lives by it.
    for nth in 0..5 {
        let term = LeaseTerm::open(registry, Millis(2_000 << nth)).await;
        let look = txn(vec![], vec![put("node/look@1", "", Some(term.lease))]);
        if term.made(registry, look).await.is_ok() {
            break;
        }
    }
    until("a look", || async { entry(registry, "node/look@1").await.is_none().then_some(()) }).await;
}

/// A lost connection is not a lost session, and a lost session is one for good.
///
/// proves: I10
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_holder_cut_off_for_less_than_its_term_keeps_its_lease_and_for_more_loses_it() {
    with_a_term(Millis::secs(4), async |ttl| {
        let Some(place) = ZookeeperNamespace::find() else { return Ok(()) };
        let proxy = Proxy::start(place.at).await;
        let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
        let mut term = LeaseTerm::open(&far, ttl).await;
        let lease = term.lease;
        let writes = vec![put("node/a@1", "", Some(lease)), put("b", "", Some(lease))];
        term.made(&far, txn(vec![Guard::Open(lease)], writes)).await?;
        let mut feed = near.watch(near.list().await.unwrap().revision).await.unwrap();
        let session = place.session();
        assert!(!place.is_disconnected(&session));
        proxy.set(ProxyMode::Closed);
        until("the cut", || async { place.is_disconnected(&session).then_some(()) }).await;
        proxy.set(ProxyMode::Open);
        until("a way", || async { far.list().await.ok() }).await;
        // Its session lives.
        let renewed = until("a renewal", || async { far.renew(lease).await.ok() }).await;
        term.lives(renewed.is_some())?;
        term.renew(&far).await?;
        term.lives(entry(&near, "node/a@1").await.is_some())?;
        proxy.set(ProxyMode::Closed);
        let mut gone = next(&mut feed).await.unwrap();
        gone.sort();
        assert_eq!(gone, ["b", "node/a@1"], "both at once");
        made(&near, vec![Guard::Absent(key("node/a@1"))], vec![]).await;
        proxy.set(ProxyMode::Open);
        assert_eq!(until("an answer", || async { far.renew(lease).await.ok() }).await, None);
        let late = commit(&far, txn(vec![Guard::Open(lease)], vec![put("c", "", None)])).await;
        assert!(!matches!(late, TxnOutcome::Applied(_)));
        // Life goes on with another lease.
        let again = until("a lease", || async { far.open(TTL).await.ok() }).await;
        assert!(again.lease > lease);
        Ok(())
    })
    .await;
}

/// As when a process is killed: nobody is told, and the term counts from when it was last heard.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_a_lost_process_held_ends_after_its_term_and_not_before() {
    let mut seen = Vec::new();
    // Two ticks, and what a machine takes that does nothing else: it makes the end seem later, so the best of several tries counts.
    while seen.last().is_none_or(|late| *late > Duration::from_millis(2 * 250 + 1_000)) {
        assert!(seen.len() < 6, "so late after its term: {seen:?}");
        let Some(place) = ZookeeperNamespace::find() else { return };
        seen.extend(late_after_a_lost_process(&place).await);
    }
}

/// How long after its term what a process held is over that is lost.
async fn late_after_a_lost_process(place: &ZookeeperNamespace) -> Result<Duration, MachineStall> {
    let (near, lost) = (connect(&place.url()).await, connect(&place.url()).await);
    let mut term = LeaseTerm::open(&lost, Millis::secs(3)).await;
    term.made(&lost, txn(vec![], vec![put("node/a@1", "", Some(term.lease))])).await?;
    let mut feed = near.watch(near.list().await.unwrap().revision).await.unwrap();
    term.renew(&lost).await?;
    drop(lost);
    assert_eq!(next(&mut feed).await, Some(vec!["node/a@1".to_owned()]));
    assert!(term.may_be_over(), "ended early, after {:?}", term.passed());
    Ok(term.passed().saturating_sub(Duration::from_secs(3)))
}

/// The session that made the lease's node ends after another one took it over.
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_lease_taken_to_another_session_does_not_end_with_the_first() {
    with_a_term(Millis::secs(2), async |ttl| {
        let Some(place) = ZookeeperNamespace::find() else { return Ok(()) };
        let (first, second) = (connect(&place.url()).await, connect(&place.url()).await);
        let mut term = LeaseTerm::open(&first, ttl).await;
        term.made(&first, txn(vec![], vec![put("node/a@1", "", Some(term.lease))])).await?;
        let session = place.session();
        term.renew(&second).await?;
        drop(first);
        while !place.is_over(&session) {
            term.renew(&second).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // And who looks after that does not take the lease for ended.
        let other = connect(&place.url()).await;
        let looked = tokio::spawn(async move { wait_for_expiry_scan(&other).await });
        while !looked.is_finished() {
            term.renew(&second).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        looked.await.unwrap();
        term.lives(entry(&second, "node/a@1").await.is_some())?;
        second.close(term.lease).await.unwrap();
        assert_eq!(entry(&second, "node/a@1").await, None);
        Ok(())
    })
    .await;
}

/// Whoever held it before looks after what it was asked to renew, and that is over; the lease is not.
///
/// proves: I10
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_lease_that_another_took_over_is_not_ended_by_who_held_it_before() {
    with_a_term(Millis::secs(2), async |ttl| {
        let Some(place) = ZookeeperNamespace::find() else { return Ok(()) };
        let (first, second) = (connect(&place.url()).await, connect(&place.url()).await);
        let mut term = LeaseTerm::open(&first, ttl).await;
        term.made(&first, txn(vec![], vec![put("node/a@1", "", Some(term.lease))])).await?;
        let session = place.session();
        // Who has let go of the session has done all that it does to a lease that is overdue.
        while !place.is_over(&session) {
            term.renew(&second).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        term.lives(entry(&second, "node/a@1").await.is_some())?;
        // Nobody renews it any more: it ends, as any other.
        until("its end", || async { entry(&first, "node/a@1").await.is_none().then_some(()) }).await;
        Ok(())
    })
    .await;
}

/// Two are overdue at once; while the end of one is under way the other is renewed.
///
/// proves: I10
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn a_lease_that_is_renewed_at_its_end_is_not_ended_behind_that() {
    with_a_term(Millis(5_500), async |ttl| {
        let Some(place) = ZookeeperNamespace::find() else { return Ok(()) };
        let proxy = Proxy::start(place.at).await;
        let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
        let [one, mut other] = [LeaseTerm::open(&far, ttl).await, LeaseTerm::open(&far, ttl).await];
        let writes = vec![put("node/a@1", "", Some(one.lease)), put("node/b@1", "", Some(other.lease))];
        one.made(&far, txn(vec![], writes)).await?;
        // The end of the one is on its way, and then the renewal of the other.
        proxy.set(ProxyMode::HeldFrom(MULTI));
        proxy.holds(MULTI).await;
        let (lease, asked) = (other.lease, Stopwatch::start());
        let renewed = tokio::spawn({
            let far = far.clone();
            async move { far.renew(lease).await }
        });
        proxy.holds(SET_DATA).await;
        proxy.set(ProxyMode::Open);
        // One that was held for so long that nobody waits for its answer any more says nothing.
        let Ok(renewed) = renewed.await.unwrap() else { return Err(MachineStall) };
        until("the end of the one", || async { entry(&near, "node/a@1").await.is_none().then_some(()) })
            .await;
        wait_for_expiry_scan(&far).await;
        let there = entry(&near, "node/b@1").await.is_some();
        if renewed.is_some() {
            other.renewed(asked);
            return other.lives(there);
        }
        assert!(!there, "it was told to be over, and is not");
        Ok(())
    })
    .await;
}
