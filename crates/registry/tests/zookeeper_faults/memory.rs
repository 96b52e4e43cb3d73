//! What a registry made or read is written without a look at it before, and never by what it was in an earlier life.

use evenkeel_core::registry::{Guard, Revision, TxnOutcome, Write};

use super::*;

/// How ZooKeeper's protocol calls a look at a node.
const EXISTS: [u8; 4] = 3_u32.to_be_bytes();

/// Many lanes of nobody.
fn run_states() -> impl Iterator<Item = String> {
    (0..20).map(|nth| format!("run/{nth}"))
}

async fn write(registry: &SharedRegistry, at: &str, guard: Revision) -> TxnOutcome {
    commit(registry, txn(vec![Guard::At(key(at), guard)], vec![put(at, "next", None)])).await
}

fn is_made(outcome: &TxnOutcome) -> bool {
    matches!(outcome, TxnOutcome::Applied(_))
}

/// Whether an entry is written of which nobody can look what it is. The feed looks at nodes too, now and then; what it asks is
/// not answered either, and cuts the connection: so there are some tries.
async fn is_written_at_once(proxy: &Proxy, far: &SharedRegistry, at: &str, guard: Revision) -> bool {
    proxy.set(ProxyMode::NoAnswersFrom(EXISTS));
    let outcome = write(far, at, guard).await;
    proxy.set(ProxyMode::Open);
    until("a connection", || async { far.list().await.ok() }).await;
    is_made(&outcome)
}

#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_was_made_or_read_is_written_at_once() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let proxy = Proxy::start(place.at).await;
    let (near, far) = (connect(&place.url()).await, connect(&place.through(proxy.at())).await);
    let (mut made_by_itself, mut read) = (false, false);
    for at in run_states() {
        if !made_by_itself {
            let create = txn(vec![Guard::Absent(key(&at))], vec![put(&at, "mine", None)]);
            // A connection that is cut late leaves it unknown.
            if let TxnOutcome::Applied(created) = commit(&far, create).await {
                made_by_itself = is_written_at_once(&proxy, &far, &at, created).await;
            }
        }
        if !read {
            made(&near, vec![], vec![put(&at, "theirs", None)]).await;
            let found = until("an answer", || async { far.read(vec![key(&at)]).await.ok() }).await.remove(0);
            read = is_written_at_once(&proxy, &far, &at, found.entry.unwrap().revision).await;
        }
    }
    assert!(made_by_itself, "what was made");
    assert!(read, "what was read");
}

/// It has the version that it had before, so only its revision tells.
///
/// proves: S1-09
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn what_was_made_or_read_and_is_another_by_now_is_left_alone() {
    let Some(place) = ZookeeperNamespace::find() else { return };
    let (near, far) = (connect(&place.url()).await, connect(&place.url()).await);
    for at in ["job/a/assignment", "run/a"] {
        let created = made(&far, vec![Guard::Absent(key(at))], vec![put(at, "mine", None)]).await;
        recreate(&near, at).await;
        assert!(matches!(write(&far, at, created).await, TxnOutcome::Refused(_)), "{at} was made");
        let read = entry(&far, at).await.unwrap();
        recreate(&near, at).await;
        assert!(matches!(write(&far, at, read.revision).await, TxnOutcome::Refused(_)), "{at} was read");
        assert_eq!(&*entry(&near, at).await.unwrap().value, b"theirs", "{at}");
    }
}

async fn recreate(registry: &SharedRegistry, at: &str) {
    let deleted = made(registry, vec![], vec![Write::Delete { key: key(at) }]).await;
    assert!(made(registry, vec![], vec![put(at, "theirs", None)]).await > deleted);
}

/// They go out as two requests. The first is not made, for somebody has deleted something meanwhile; and that deletion is not
/// to be taken for the one that the second counts on.
///
/// proves: S1-09
#[tokio::test]
#[ignore = "soak: kills, freezes or cuts off real servers"]
async fn somebody_elses_deletion_is_not_taken_for_ones_own() {
    const AS_ONE: usize = 64;
    let Some(place) = ZookeeperNamespace::find() else { return };
    let (near, far) = (connect(&place.url()).await, connect(&place.url()).await);
    let doomed: Vec<_> = (0..=AS_ONE).map(|nth| format!("run/doomed{nth}")).collect();
    let create = |at: &String| txn(vec![Guard::Absent(key(at))], vec![put(at, "mine", None)]);
    assert!(far.commit(doomed.iter().map(create).collect()).await.iter().all(is_made));
    let created = made(&far, vec![Guard::Absent(key("run/a"))], vec![put("run/a", "mine", None)]).await;
    recreate(&near, "run/a").await;
    let delete = |at: &String| txn(vec![], vec![Write::Delete { key: key(at) }]);
    let mut deletions: Vec<_> = doomed.iter().map(delete).collect();
    deletions[AS_ONE].guards.push(Guard::At(key("run/a"), created));
    deletions[AS_ONE].writes.push(put("run/a", "over theirs", None));
    let outcomes = far.commit(deletions).await;
    assert!(outcomes[..AS_ONE].iter().all(is_made), "{outcomes:?}");
    assert!(matches!(outcomes[AS_ONE], TxnOutcome::Refused(_)), "{:?}", outcomes[AS_ONE]);
    assert_eq!(&*entry(&near, "run/a").await.unwrap().value, b"theirs");
    assert!(entry(&near, &doomed[AS_ONE]).await.is_some());
}
