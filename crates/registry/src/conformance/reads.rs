//! Cases of reads and lists: complete, and of one moment.

use std::collections::BTreeMap;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Revision, TxnOutcome};

use super::{Stage, delete, key, put, put_by, txn};

pub async fn what_is_not_there_is_told_as_absent(stage: Stage) {
    let revision = stage.commit_applied([], [put("a", "1")]).await;
    let found = stage.read(["b"]).await;
    assert_eq!((found.len(), &found[0].key, &found[0].entry), (1, &key("b"), &None));
    stage.assert_same_order(revision, found[0].revision);
}

pub async fn entries_come_in_the_order_asked(stage: Stage) {
    stage.commit_applied([], [put("a", "1"), put("b", "2"), put("c", "3")]).await;
    let found = stage.read(["c", "x", "a", "c"]).await;
    let names: Vec<_> = found.iter().map(|change| change.key.as_str()).collect();
    assert_eq!(names, ["c", "x", "a", "c"]);
    assert_eq!(found[0], found[3]);
}

pub async fn nothing_asked_nothing_told(stage: Stage) {
    assert_eq!(stage.read([]).await, vec![]);
}

pub async fn hot_entries_can_be_read(stage: Stage) {
    stage.commit_applied([], [put("run/j/claim", "1")]).await;
    assert_eq!(stage.value("run/j/claim").await.as_deref(), Some("1"));
}

/// proves: S1-09
pub async fn a_read_sees_every_answered_write(stage: Stage) {
    let other = stage.connect_again().await;
    for i in 0..50 {
        let made = stage.commit_applied([], [put("a", &i.to_string())]).await;
        let found = other.read(vec![key("a")]).await.expect("the entry").remove(0);
        assert_eq!(found.entry.map(|e| e.revision), Some(made));
        assert!(other.list().await.expect("the listing").revision >= made);
    }
}

/// Two entries that are always written together, on both sides of many others.
const PAIR: [&str; 2] = ["a/left", "z/right"];

/// Whatever is written meanwhile, the two are never seen apart.
pub async fn a_read_is_of_one_moment(stage: Stage) {
    let keys = between_the_pair();
    let writer = write_pairs(&stage).await;
    while !writer.is_finished() {
        let found = stage.registry.read(keys.clone()).await.expect("the entries");
        check_pairs(&found, found[0].revision);
        assert!(found.iter().all(|change| change.revision == found[0].revision));
    }
    writer.await.expect("the writer ends");
}

pub async fn a_listing_is_of_one_moment(stage: Stage) {
    let writer = write_pairs(&stage).await;
    while !writer.is_finished() {
        let listed = stage.list().await;
        check_pairs(&listed.changes, listed.revision);
    }
    writer.await.expect("the writer ends");
}

fn check_pairs(found: &[Change], revision: Revision) {
    let of = |name: &str| found.iter().find(|c| c.key == key(name)).and_then(|c| c.entry.clone());
    let [left, right] = PAIR.map(|name| of(name).expect("one of the pair"));
    assert_eq!((&left.value, left.revision), (&right.value, right.revision));
    assert!(left.revision <= revision, "{} is newer than {revision}", left.revision);
}

fn between_the_pair() -> Vec<Key> {
    let between = (0..500).map(|i| key(&format!("m{i}")));
    [key(PAIR[0])].into_iter().chain(between).chain([key(PAIR[1])]).collect()
}

async fn write_pairs(stage: &Stage) -> tokio::task::JoinHandle<()> {
    let all = between_the_pair();
    stage.fill(all.iter().map(|key| put(key.as_str(), "0")).collect()).await;
    stage.commit_applied([], PAIR.map(|name| put(name, "0"))).await;
    let registry = stage.registry.clone();
    tokio::spawn(async move {
        for i in 0..300 {
            let both = txn([], PAIR.map(|name| put(name, &i.to_string())));
            assert!(matches!(registry.commit(vec![both]).await[..], [TxnOutcome::Applied(_)]));
        }
    })
}

pub async fn a_listing_has_every_cold_entry_once(stage: Stage) {
    let mut expected = BTreeMap::new();
    // Around the hot root on both sides.
    for name in ["a", "ru", "run", "run0", "runX", "rum/x", "rv", "node/x@1", "zz"] {
        stage.commit_applied([], [put(name, name)]).await;
        expected.insert(key(name), name.to_owned());
    }
    stage.commit_applied([], [delete("zz")]).await;
    expected.remove(&key("zz"));
    let listed = stage.list().await.changes;
    assert_eq!(listed.len(), expected.len());
    let listed: BTreeMap<_, _> = listed
        .into_iter()
        .filter_map(|c| c.entry.map(|e| (c.key, String::from_utf8_lossy(&e.value).into_owned())))
        .collect();
    assert_eq!(listed, expected);
}

pub async fn a_listing_has_no_hot_entry(stage: Stage) {
    stage.commit_applied([], [put("run/a/claim", "1"), put("run/z/claim", "1"), put("a", "1")]).await;
    let listed = stage.list().await.changes;
    assert!(listed.iter().all(|change| change.key.is_cold()));
    assert_eq!(listed.len(), 1);
}

pub async fn a_listing_knows_owners_and_births(stage: Stage) {
    let lease = stage.lease().await;
    let born = stage.commit_applied([], [put_by(lease, "a", "1")]).await;
    let last = stage.commit_applied([], [put_by(lease, "a", "2")]).await;
    let listed = stage.list().await;
    let entry = listed.changes[0].entry.clone().expect("the entry");
    assert_eq!((entry.owner, entry.born, entry.revision), (Some(lease), born, last));
    assert_eq!(Some(entry), stage.entry("a").await);
}
