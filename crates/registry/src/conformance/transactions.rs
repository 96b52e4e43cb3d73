//! All or nothing, each apart, and what an answer tells.

use evenkeel_core::registry::{Outcome, Revision};

use super::{Stage, absent, at, delete, key, present, put, txn};

pub async fn a_refused_one_writes_nothing(stage: Stage) {
    let before = stage.made([], [put("a", "1"), put("b", "1")]).await;
    let writes = [put("a", "2"), delete("b"), put("c", "2"), put("lane/j/claim", "2")];
    stage.refused([present("a"), absent("b")], writes).await;
    assert_eq!(stage.value("a").await.as_deref(), Some("1"));
    assert_eq!(stage.value("b").await.as_deref(), Some("1"));
    assert_eq!(stage.entry("c").await, None);
    assert_eq!(stage.entry("lane/j/claim").await, None);
    stage.unmoved(before, stage.list().await.revision);
}

pub async fn a_refusal_tells_every_key_once(stage: Stage) {
    stage.made([], [put("b", "1")]).await;
    let guards = [absent("b"), present("d"), at("a", Revision(7))];
    let found = stage.refused(guards, [put("c", "1"), delete("b"), put("a", "1")]).await;
    let mut keys: Vec<_> = found.iter().map(|change| change.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b", "c", "d"]);
}

pub async fn a_refusal_tells_what_is_there_now(stage: Stage) {
    let lease = stage.lease().await;
    stage.made([], [super::put_by(lease, "a", "1")]).await;
    stage.made([], [super::put_by(lease, "a", "2")]).await;
    let found = stage.refused([absent("a")], [put("b", "1")]).await;
    let of =
        |name: &str| found.iter().find(|change| change.key == key(name)).map(|change| change.entry.clone());
    assert_eq!(of("a"), Some(stage.entry("a").await));
    assert_eq!(of("b"), Some(None));
    assert!(found.iter().all(|change| change.entry.as_ref().is_none_or(|e| e.revision <= change.revision)));
}

pub async fn each_of_a_batch_is_answered_in_its_place(stage: Stage) {
    stage.made([], [put("a", "1")]).await;
    let batch = vec![
        txn([present("a")], [put("b", "1")]),
        txn([absent("a")], [put("c", "1")]),
        txn([], []),
        txn([present("nothing")], []),
    ];
    let outcomes = stage.registry.commit(batch).await;
    let made: Vec<_> = outcomes.iter().map(|outcome| matches!(outcome, Outcome::Applied(_))).collect();
    assert_eq!(made, [true, false, true, false]);
}

pub async fn a_refused_one_holds_back_no_other(stage: Stage) {
    let good = |name: &str| txn([absent(name)], [put(name, "1")]);
    let bad = txn([present("nothing")], [put("x", "1")]);
    stage.registry.commit(vec![good("a"), bad.clone(), good("b"), bad, good("c")]).await;
    let there = stage.read(["a", "b", "c", "x"]).await;
    assert_eq!(
        there.iter().map(|change| change.entry.is_some()).collect::<Vec<_>>(),
        [true, true, true, false]
    );
}

pub async fn later_ones_of_a_batch_see_earlier_ones(stage: Stage) {
    let batch = vec![
        txn([absent("a")], [put("a", "1")]),
        txn([absent("a")], [put("a", "2")]),
        txn([present("a")], [delete("a")]),
        txn([absent("a")], [put("a", "3")]),
    ];
    let outcomes = stage.registry.commit(batch).await;
    let [Outcome::Applied(first), Outcome::Refused(found), Outcome::Applied(gone), Outcome::Applied(again)] =
        outcomes.as_slice()
    else {
        panic!("should have been made, refused, made, made: {outcomes:?}");
    };
    assert!(first < gone && gone < again);
    assert_eq!(found[0].entry.as_ref().map(|e| (&*e.value, e.revision)), Some((&b"1"[..], *first)));
    assert_eq!(stage.value("a").await.as_deref(), Some("3"));
}

/// What an engine remembers inside a batch must not outlive the next write of the batch.
pub async fn a_revision_is_used_once_in_a_batch(stage: Stage) {
    let first = stage.made([], [put("a", "0")]).await;
    let replace = |value: &str| txn([at("a", first)], [put("a", value)]);
    let looked = txn([at("a", first), absent("a")], []);
    let outcomes = stage.registry.commit(vec![looked, replace("1"), replace("2"), replace("3")]).await;
    let made: Vec<_> = outcomes.iter().map(|outcome| matches!(outcome, Outcome::Applied(_))).collect();
    assert_eq!(made, [false, true, false, false]);
    assert_eq!(stage.value("a").await.as_deref(), Some("1"));
}

pub async fn an_empty_batch_has_no_answers(stage: Stage) {
    assert_eq!(stage.registry.commit(vec![]).await, vec![]);
}

pub async fn a_large_batch_is_answered_apart(stage: Stage) {
    stage.fill((0..1_000).step_by(3).map(|i| put(&format!("k{i}"), "old")).collect()).await;
    let one = |i: u32| txn([absent(&format!("k{i}"))], [put(&format!("k{i}"), "new")]);
    let outcomes = stage.registry.commit((0..1_000).map(one).collect()).await;
    assert_eq!(outcomes.len(), 1_000);
    for (i, outcome) in outcomes.iter().enumerate() {
        let trouble = stage.registry.trouble();
        assert_eq!(matches!(outcome, Outcome::Refused(_)), i % 3 == 0, "{i}: {outcome:?} {trouble:?}");
    }
}

/// The first try was made and its answer lost: the second is refused, and what it finds is the writer's own.
///
/// proves: I46
pub async fn an_unknown_outcome_is_settled_by_sending_again(stage: Stage) {
    let place = stage.made([], [put("job/a/place", "free")]).await;
    let claim = txn([at("job/a/place", place)], [put("job/a/place", "a@1 nonce 17")]);
    let Outcome::Applied(made) = stage.commit(claim.clone()).await else { panic!("should have been made") };
    let Outcome::Refused(found) = stage.commit(claim).await else { panic!("should have been refused") };
    let entry = found[0].entry.clone().expect("the place is there");
    assert_eq!((&*entry.value, entry.revision), (&b"a@1 nonce 17"[..], made));
}

pub async fn sending_again_after_success_changes_nothing(stage: Stage) {
    let once = txn([absent("a")], [put("a", "1"), put("b", "1")]);
    stage.commit(once.clone()).await;
    let before = stage.list().await;
    for _ in 0..3 {
        assert!(matches!(stage.commit(once.clone()).await, Outcome::Refused(_)));
    }
    let after = stage.list().await;
    stage.unchanged(&before, &after);
}

/// proves: S1-05
pub async fn two_connections_see_one_order(stage: Stage) {
    let other = stage.another().await;
    let mut last = stage.made([], [put("a", "0")]).await;
    for i in 1..20 {
        let step = txn([at("a", last)], [put("a", &i.to_string())]);
        let registry = if i % 2 == 0 { &stage.registry } else { &other };
        let outcome = registry.commit(vec![step]).await.remove(0);
        let Outcome::Applied(revision) = outcome else { panic!("{i} should have been made: {outcome:?}") };
        assert!(revision > last);
        last = revision;
    }
}
