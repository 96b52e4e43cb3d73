//! Cases of writes: the entries that they leave.

use evenkeel_core::registry::{Entry, TxnOutcome, Write};

use super::{Stage, absent, at, delete, key, present, put, txn};

/// proves: S1-05, S1-08
pub async fn put_creates(stage: Stage) {
    let revision = stage.commit_applied([], [put("job/a/spec", "1")]).await;
    let entry = Entry { value: (*b"1").into(), revision, born: revision, owner: None };
    assert_eq!(stage.entry("job/a/spec").await, Some(entry));
}

pub async fn put_replaces_and_keeps_the_birth(stage: Stage) {
    let born = stage.commit_applied([], [put("a", "1")]).await;
    let revision = stage.commit_applied([], [put("a", "2")]).await;
    let entry = Entry { value: (*b"2").into(), revision, born, owner: None };
    assert_eq!(stage.entry("a").await, Some(entry));
}

pub async fn delete_removes(stage: Stage) {
    let before = stage.commit_applied([], [put("a", "1"), put("b", "1")]).await;
    assert!(stage.commit_applied([], [delete("a")]).await > before);
    assert_eq!(stage.entry("a").await, None);
    assert_eq!(stage.value("b").await.as_deref(), Some("1"));
}

pub async fn deleting_what_is_not_there_is_no_change(stage: Stage) {
    let before = stage.commit_applied([], [put("a", "1")]).await;
    stage.assert_same_order(before, stage.commit_applied([], [delete("b")]).await);
    stage.assert_same_order(before, stage.list().await.revision);
}

pub async fn a_deleted_key_is_born_again(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    stage.commit_applied([], [delete("a")]).await;
    let again = stage.commit_applied([], [put("a", "1")]).await;
    assert_eq!(stage.entry("a").await.map(|e| (e.born, e.revision)), Some((again, again)));
}

/// Not every engine can do it; one that cannot refuses and leaves everything as it was.
pub async fn deleted_and_put_at_once_is_born_again(stage: Stage) {
    let before = stage.commit_applied([], [put("a", "1")]).await;
    let again = match stage.commit(txn([], [delete("a"), put("a", "2"), put("b", "1")])).await {
        TxnOutcome::Applied(again) => again,
        TxnOutcome::Refused(found) => {
            assert_eq!(found[0].entry.as_ref().map(|e| (e.born, e.revision)), Some((before, before)));
            assert!(stage.holds([at("a", before), absent("b")]).await);
            return;
        }
        TxnOutcome::Unknown => panic!("should have been answered"),
    };
    assert_eq!(stage.entry("a").await.map(|e| (e.born, e.revision)), Some((again, again)));
}

pub async fn put_and_deleted_at_once_is_gone(stage: Stage) {
    stage.commit_applied([], [put("a", "1"), delete("a")]).await;
    assert_eq!(stage.entry("a").await, None);
}

pub async fn the_last_of_two_puts_counts(stage: Stage) {
    let revision = stage.commit_applied([], [put("a", "1"), put("a", "2")]).await;
    let entry = Entry { value: (*b"2").into(), revision, born: revision, owner: None };
    assert_eq!(stage.entry("a").await, Some(entry));
}

pub async fn all_writes_share_one_revision(stage: Stage) {
    stage.commit_applied([], [put("c", "0")]).await;
    let revision = stage.commit_applied([], [put("a", "1"), put("b", "1"), put("c", "1")]).await;
    for found in stage.read(["a", "b", "c"]).await {
        assert_eq!(found.entry.map(|e| e.revision), Some(revision));
    }
}

/// proves: S1-09
pub async fn revisions_strictly_grow(stage: Stage) {
    let mut last = stage.list().await.revision;
    for i in 0..50 {
        let writes = [put(&format!("k{}", i % 7), "x"), delete(&format!("k{}", (i + 3) % 7))];
        let revision = stage.commit_applied([], writes).await;
        assert!(revision > last, "{revision} after {last}");
        last = revision;
    }
}

pub async fn revisions_grow_across_a_restart(stage: Stage) {
    let mut last = stage.commit_applied([], [put("a", "0")]).await;
    let mut stage = stage;
    for round in 1..4 {
        stage = stage.restart().await;
        assert!(stage.list().await.revision >= last);
        let revision = stage.commit_applied([at("a", last)], [put("a", &round.to_string())]).await;
        assert!(revision > last, "{revision} after {last}");
        last = revision;
    }
}

pub async fn everything_is_there_after_a_restart(stage: Stage) {
    stage.commit_applied([], [put("a", "1"), put("run/j/claim", "2"), put("c", "3")]).await;
    stage.commit_applied([], [delete("c")]).await;
    let before = stage.read(["a", "run/j/claim", "c"]).await;
    let stage = stage.restart().await;
    let after = stage.read(["a", "run/j/claim", "c"]).await;
    for (before, after) in before.into_iter().zip(after) {
        assert_eq!(after.entry, before.entry);
        stage.assert_same_order(before.revision, after.revision);
    }
}

pub async fn an_empty_value_is_a_value(stage: Stage) {
    stage.commit_applied([], [put("a", "")]).await;
    assert!(stage.holds([present("a")]).await);
    assert_eq!(stage.value("a").await.as_deref(), Some(""));
    assert_eq!(stage.list().await.changes.len(), 1);
}

pub async fn every_byte_is_kept(stage: Stage) {
    let bytes: Vec<u8> = (0..=255).chain([0, 0xff, 0]).collect();
    stage
        .commit_applied([], [Write::Put { key: key("a"), value: bytes.as_slice().into(), owner: None }])
        .await;
    assert_eq!(stage.entry("a").await.map(|e| e.value.to_vec()), Some(bytes));
}

pub async fn a_value_of_a_mebibyte_is_kept(stage: Stage) {
    let size = u32::try_from(stage.registry.facts().value_max).unwrap_or(u32::MAX).min(1 << 20);
    let bytes: Vec<u8> = (0..size).map(|i| i.to_le_bytes()[usize::from(i % 3 == 0)]).collect();
    stage
        .commit_applied([], [Write::Put { key: key("a"), value: bytes.as_slice().into(), owner: None }])
        .await;
    assert!(stage.entry("a").await.is_some_and(|e| *e.value == *bytes));
    assert!(stage.list().await.changes[0].entry.as_ref().is_some_and(|e| *e.value == *bytes));
}

pub async fn keys_are_kept_as_they_are(stage: Stage) {
    let keys =
        ["a", "A", "a/b", "a//b", "/", "a b", "a'b\"", "%", "_", "ä", "日本", "a\nb", "x@1", "*", "?1"];
    for (i, at) in keys.iter().enumerate() {
        stage.commit_applied([absent(at)], [put(at, &i.to_string())]).await;
    }
    for (i, at) in keys.iter().enumerate() {
        assert_eq!(stage.value(at).await, Some(i.to_string()), "{at:?}");
    }
    assert_eq!(stage.list().await.changes.len(), keys.len());
}

/// proves: S1-08
pub async fn a_key_is_not_its_prefix(stage: Stage) {
    stage.commit_applied([], [put("job/a", "1"), put("job/ab", "2"), put("job/a/spec", "3")]).await;
    stage.commit_applied([], [delete("job/a")]).await;
    assert_eq!(stage.value("job/ab").await.as_deref(), Some("2"));
    assert_eq!(stage.value("job/a/spec").await.as_deref(), Some("3"));
}

pub async fn an_empty_transaction_is_made(stage: Stage) {
    let before = stage.commit_applied([], [put("a", "1")]).await;
    let outcome = stage.commit(txn([], [])).await;
    let TxnOutcome::Applied(revision) = outcome else { panic!("should have been made: {outcome:?}") };
    stage.assert_same_order(before, revision);
}

/// A nonce that happens to repeat must still falsify the guard on the old revision.
pub async fn replacing_by_the_same_value_is_a_write(stage: Stage) {
    let first = stage.commit_applied([], [put("a", "1")]).await;
    let second = stage.commit_applied([at("a", first)], [put("a", "1")]).await;
    assert!(second > first);
    stage.commit_refused([at("a", first)], [put("a", "1")]).await;
}
