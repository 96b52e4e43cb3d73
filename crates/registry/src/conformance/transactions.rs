//! Cases of transactions: all or nothing, independent of each other, and with a complete answer.

use evenkeel_core::registry::{Revision, TxnOutcome};

use super::{Stage, absent, at, born, delete, key, present, put, txn};

pub async fn a_refused_one_writes_nothing(stage: Stage) {
    let before = stage.commit_applied([], [put("a", "1"), put("b", "1")]).await;
    let writes = [put("a", "2"), delete("b"), put("c", "2"), put("run/j/claim", "2")];
    stage.commit_refused([present("a"), absent("b")], writes).await;
    assert_eq!(stage.value("a").await.as_deref(), Some("1"));
    assert_eq!(stage.value("b").await.as_deref(), Some("1"));
    assert_eq!(stage.entry("c").await, None);
    assert_eq!(stage.entry("run/j/claim").await, None);
    stage.assert_same_order(before, stage.list().await.revision);
}

pub async fn a_refusal_tells_every_key_once(stage: Stage) {
    stage.commit_applied([], [put("b", "1")]).await;
    let guards = [absent("b"), present("d"), at("a", Revision(7))];
    let found = stage.commit_refused(guards, [put("c", "1"), delete("b"), put("a", "1")]).await;
    let mut keys: Vec<_> = found.iter().map(|change| change.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b", "c", "d"]);
}

pub async fn a_refusal_tells_what_is_there_now(stage: Stage) {
    let lease = stage.lease().await;
    stage.commit_applied([], [super::put_by(lease, "a", "1")]).await;
    stage.commit_applied([], [super::put_by(lease, "a", "2")]).await;
    let found = stage.commit_refused([absent("a")], [put("b", "1")]).await;
    let of =
        |name: &str| found.iter().find(|change| change.key == key(name)).map(|change| change.entry.clone());
    assert_eq!(of("a"), Some(stage.entry("a").await));
    assert_eq!(of("b"), Some(None));
    assert!(found.iter().all(|change| change.entry.as_ref().is_none_or(|e| e.revision <= change.revision)));
}

pub async fn each_of_a_batch_is_answered_in_its_place(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    let batch = vec![
        txn([present("a")], [put("b", "1")]),
        txn([absent("a")], [put("c", "1")]),
        txn([], []),
        txn([present("nothing")], []),
    ];
    let outcomes = stage.registry.commit(batch).await;
    let made: Vec<_> = outcomes.iter().map(|outcome| matches!(outcome, TxnOutcome::Applied(_))).collect();
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
    let [
        TxnOutcome::Applied(first),
        TxnOutcome::Refused(found),
        TxnOutcome::Applied(gone),
        TxnOutcome::Applied(again),
    ] = outcomes.as_slice()
    else {
        panic!("should have been made, refused, made, made: {outcomes:?}");
    };
    assert!(first < gone && gone < again);
    assert_eq!(found[0].entry.as_ref().map(|e| (&*e.value, e.revision)), Some((&b"1"[..], *first)));
    assert_eq!(stage.value("a").await.as_deref(), Some("3"));
}

/// What an engine caches inside a batch must not outlive the next write of the batch.
pub async fn a_revision_is_used_once_in_a_batch(stage: Stage) {
    let first = stage.commit_applied([], [put("a", "0")]).await;
    let replace = |value: &str| txn([at("a", first)], [put("a", value)]);
    let looked = txn([at("a", first), absent("a")], []);
    let outcomes = stage.registry.commit(vec![looked, replace("1"), replace("2"), replace("3")]).await;
    let made: Vec<_> = outcomes.iter().map(|outcome| matches!(outcome, TxnOutcome::Applied(_))).collect();
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
        let trouble = stage.registry.last_error();
        assert_eq!(matches!(outcome, TxnOutcome::Refused(_)), i % 3 == 0, "{i}: {outcome:?} {trouble:?}");
    }
}

/// As a node's fires: all guard on the same member, and each replaces an entry of its own.
///
/// proves: S1-06, S1-09
pub async fn those_that_share_a_guard_are_answered_apart(stage: Stage) {
    const LANES: usize = 300;
    let member = stage.commit_applied([], [put("node/a@1", "here")]).await;
    stage.fill((0..LANES).map(|i| put(&format!("run/{i}/claim"), "0")).collect()).await;
    let run_states: Vec<_> = (0..LANES).map(|i| format!("run/{i}/claim")).collect();
    let names: Vec<&str> = run_states.iter().map(String::as_str).collect();
    let step = |i: usize, known: Revision, value: &str| {
        txn([born("node/a@1", member), at(names[i], known)], [put(names[i], value)])
    };
    let mut known = Vec::new();
    for name in &names {
        known.push(stage.entry(name).await.expect("it is there").revision);
    }
    let first = stage.registry.commit((0..LANES).map(|i| step(i, known[i], "1")).collect()).await;
    for (i, outcome) in first.iter().enumerate() {
        let TxnOutcome::Applied(made) = outcome else { panic!("{i}: {outcome:?}") };
        assert!(*made > known[i], "{i}");
        known[i] = *made;
    }
    // Each tenth is outdated, and refused; the others are made, and are as their answers say.
    let stale = |i: usize| if i % 10 == 7 { Revision(known[i].0 - 1) } else { known[i] };
    let second = stage.registry.commit((0..LANES).map(|i| step(i, stale(i), "2")).collect()).await;
    for (i, outcome) in second.iter().enumerate() {
        let entry = stage.entry(names[i]).await.expect("it is there");
        match outcome {
            TxnOutcome::Applied(made) => assert_eq!((i % 10 == 7, entry.revision), (false, *made), "{i}"),
            TxnOutcome::Refused(found) => {
                let told = found.iter().find(|change| change.key == key(names[i]));
                assert_eq!(told.and_then(|change| change.entry.as_ref()), Some(&entry), "{i}");
                assert_eq!((i % 10, entry.revision), (7, known[i]), "{i}");
            }
            TxnOutcome::Unknown => panic!("{i}: {:?}", stage.registry.last_error()),
        }
    }
    // Without its member nothing is made any more.
    stage.commit_applied([], [delete("node/a@1")]).await;
    let third = stage.registry.commit((0..LANES).map(|i| step(i, known[i], "3")).collect()).await;
    for (i, outcome) in third.iter().enumerate() {
        let TxnOutcome::Refused(found) = outcome else { panic!("{i}: {outcome:?}") };
        assert!(found.iter().any(|change| change.key == key("node/a@1") && change.entry.is_none()), "{i}");
        assert_ne!(stage.value(names[i]).await.as_deref(), Some("3"), "{i}");
    }
}

/// The first try was made and its answer lost: the second is refused, and its answer has the writer's own value.
///
/// proves: I46
pub async fn an_unknown_outcome_is_settled_by_sending_again(stage: Stage) {
    let place = stage.commit_applied([], [put("job/a/assignment", "free")]).await;
    let claim = txn([at("job/a/assignment", place)], [put("job/a/assignment", "a@1 nonce 17")]);
    let TxnOutcome::Applied(made) = stage.commit(claim.clone()).await else {
        panic!("should have been made")
    };
    let TxnOutcome::Refused(found) = stage.commit(claim).await else { panic!("should have been refused") };
    let entry = found[0].entry.clone().expect("the place is there");
    assert_eq!((&*entry.value, entry.revision), (&b"a@1 nonce 17"[..], made));
}

pub async fn sending_again_after_success_changes_nothing(stage: Stage) {
    let once = txn([absent("a")], [put("a", "1"), put("b", "1")]);
    stage.commit(once.clone()).await;
    let before = stage.list().await;
    for _ in 0..3 {
        assert!(matches!(stage.commit(once.clone()).await, TxnOutcome::Refused(_)));
    }
    let after = stage.list().await;
    stage.assert_same_listing(&before, &after);
}

/// proves: S1-05
pub async fn two_connections_see_one_order(stage: Stage) {
    let other = stage.connect_again().await;
    let mut last = stage.commit_applied([], [put("a", "0")]).await;
    for i in 1..20 {
        let step = txn([at("a", last)], [put("a", &i.to_string())]);
        let registry = if i % 2 == 0 { &stage.registry } else { &other };
        let outcome = registry.commit(vec![step]).await.remove(0);
        let TxnOutcome::Applied(revision) = outcome else { panic!("{i} should have been made: {outcome:?}") };
        assert!(revision > last);
        last = revision;
    }
}
