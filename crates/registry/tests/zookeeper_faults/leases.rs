//! Leases whose holders are cut off, die, or are taken to other sessions.

use super::*;

impl Place {
    /// What the server says of everybody.
    fn told(&self, word: &str) -> String {
        let told = said(self.at, word);
        assert!(told.contains("0x"), "{word}: {told:?}");
        told
    }

    /// The session that the namespace's one lease lives by.
    fn session(&self) -> String {
        let (told, lease) = (self.told("dump"), format!("/{}/lease/", self.namespace));
        let before = |at: usize| told[..at].lines().rev().find(|line| line.starts_with("0x"));
        let session = told.find(&lease).and_then(before).map(|line| line.trim_end_matches(':').to_owned());
        session.unwrap_or_else(|| panic!("nothing lives by a session: {told}"))
    }

    /// Whether a session has no connection.
    fn is_cut(&self, session: &str) -> bool {
        !self.told("cons").contains(session)
    }

    /// Whether a session is over.
    fn is_over(&self, session: &str) -> bool {
        !self.told("dump").contains(session)
    }
}

/// Waits until a lease has ended that begins now and that nobody renews: all that are overdue were looked at since.
async fn looked_at(registry: &Engine) {
    let lease = registry.open(TTL).await.unwrap().lease;
    made(registry, vec![], vec![put("node/look@1", "", Some(lease))]).await;
    until("a look", || async { entry(registry, "node/look@1").await.is_none().then_some(()) }).await;
}

/// A lost connection is not a lost session, and a lost session is one for good.
///
/// proves: I10
#[tokio::test]
async fn a_holder_cut_off_for_less_than_its_term_keeps_its_lease_and_for_more_loses_it() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let lease = far.open(Millis::secs(4)).await.unwrap().lease;
    made(&far, vec![Guard::Open(lease)], vec![put("node/a@1", "", Some(lease)), put("b", "", Some(lease))])
        .await;
    let mut feed = near.watch(near.list().await.unwrap().revision).await.unwrap();
    let session = place.session();
    assert!(!place.is_cut(&session));
    proxy.set(Way::Closed);
    until("the cut", || async { place.is_cut(&session).then_some(()) }).await;
    proxy.set(Way::Open);
    until("a renewal", || async { far.renew(lease).await.ok() }).await.expect("its session lives");
    assert!(entry(&near, "node/a@1").await.is_some());
    proxy.set(Way::Closed);
    let mut gone = next(&mut feed).await.unwrap();
    gone.sort();
    assert_eq!(gone, ["b", "node/a@1"], "both at once");
    made(&near, vec![Guard::Absent(key("node/a@1"))], vec![]).await;
    proxy.set(Way::Open);
    assert_eq!(until("an answer", || async { far.renew(lease).await.ok() }).await, None);
    assert!(!matches!(
        commit(&far, txn(vec![Guard::Open(lease)], vec![put("c", "", None)])).await,
        Outcome::Applied(_)
    ));
    // Life goes on with another lease.
    let again = until("a lease", || async { far.open(TTL).await.ok() }).await;
    assert!(again.lease > lease);
}

/// As when a process is killed: nobody is told, and the term counts from when it was last heard.
#[tokio::test]
async fn what_a_lost_process_held_ends_after_its_term_and_not_before() {
    let Some(place) = Place::find() else { return };
    let (near, lost) = (connect(&place.url()).await, connect(&place.url()).await);
    let granted = lost.open(Millis::secs(3)).await.unwrap();
    made(&lost, vec![], vec![put("node/a@1", "", Some(granted.lease))]).await;
    let mut feed = near.watch(near.list().await.unwrap().revision).await.unwrap();
    let renewed = Stopwatch::start();
    assert!(lost.renew(granted.lease).await.unwrap().is_some());
    drop(lost);
    assert_eq!(next(&mut feed).await, Some(vec!["node/a@1".to_owned()]));
    let facts = near.facts();
    let least = granted.ttl - facts.early;
    let passed = renewed.passed();
    assert!(passed >= Duration::from_millis(least.0.unsigned_abs()), "after {passed:?}");
    // Two ticks, and what a busy machine takes.
    assert!(passed <= Duration::from_millis(3_000 + 2 * 250 + 1_000), "after {passed:?}");
}

/// The session that made the lease's node ends after another one took it over.
#[tokio::test]
async fn a_lease_taken_to_another_session_does_not_end_with_the_first() {
    let Some(place) = Place::find() else { return };
    let (first, second) = (connect(&place.url()).await, connect(&place.url()).await);
    let lease = first.open(TTL).await.unwrap().lease;
    made(&first, vec![], vec![put("node/a@1", "", Some(lease))]).await;
    let session = place.session();
    assert!(second.renew(lease).await.unwrap().is_some());
    drop(first);
    let renewed = || async { assert!(second.renew(lease).await.unwrap().is_some()) };
    until("the end of the first session", || async {
        renewed().await;
        place.is_over(&session).then_some(())
    })
    .await;
    // And nobody who looks after that takes the lease for ended.
    let other = connect(&place.url()).await;
    let looked = tokio::spawn(async move { looked_at(&other).await });
    until("a look", || async {
        renewed().await;
        looked.is_finished().then_some(())
    })
    .await;
    looked.await.unwrap();
    assert!(entry(&second, "node/a@1").await.is_some());
    second.close(lease).await.unwrap();
    assert_eq!(entry(&second, "node/a@1").await, None);
}

/// Whoever held it before looks after what it was asked to renew, and that is over; the lease is not.
///
/// proves: I10
#[tokio::test]
async fn a_lease_that_another_took_over_is_not_ended_by_who_held_it_before() {
    let Some(place) = Place::find() else { return };
    let (first, second) = (connect(&place.url()).await, connect(&place.url()).await);
    let granted = first.open(TTL).await.unwrap();
    made(&first, vec![], vec![put("node/a@1", "", Some(granted.lease))]).await;
    let session = place.session();
    // Who has let go of the session has done all that it does to a lease that is overdue.
    until("the end of the first session", || async {
        assert!(second.renew(granted.lease).await.unwrap().is_some());
        place.is_over(&session).then_some(())
    })
    .await;
    assert!(entry(&second, "node/a@1").await.is_some());
    // Nobody renews it any more: it ends, as any other.
    until("its end", || async { entry(&first, "node/a@1").await.is_none().then_some(()) }).await;
}

/// Two are overdue at once; while the end of one is under way the other is renewed.
///
/// proves: I10
#[tokio::test]
async fn a_lease_that_is_renewed_at_its_end_is_not_ended_behind_that() {
    let Some(place) = Place::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let ttl = Millis(5_500);
    let [one, other] = [far.open(ttl).await.unwrap().lease, far.open(ttl).await.unwrap().lease];
    made(&far, vec![], vec![put("node/a@1", "", Some(one)), put("node/b@1", "", Some(other))]).await;
    // The end of the one is on its way, and then the renewal of the other.
    proxy.set(Way::HeldFrom(MULTI));
    proxy.holds(MULTI).await;
    let renewed = tokio::spawn({
        let far = far.clone();
        async move { far.renew(other).await }
    });
    proxy.holds(SET_DATA).await;
    proxy.set(Way::Open);
    let renewed = renewed.await.unwrap().unwrap();
    until("the end of the one", || async { entry(&near, "node/a@1").await.is_none().then_some(()) }).await;
    looked_at(&far).await;
    assert_eq!(renewed.is_some(), entry(&near, "node/b@1").await.is_some(), "renewed: {renewed:?}");
}
