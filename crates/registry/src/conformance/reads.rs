//! Reading and listing: complete, and of one moment.

use std::collections::BTreeMap;

use evenkeel_core::registry::{Change, Outcome};

use super::{Stage, delete, key, put, put_by, txn};

pub async fn what_is_not_there_is_told_as_absent(stage: Stage) {
    let revision = stage.made([], [put("a", "1")]).await;
    assert_eq!(stage.read(["b"]).await, vec![Change { key: key("b"), entry: None, revision }]);
}

pub async fn entries_come_in_the_order_asked(stage: Stage) {
    stage.made([], [put("a", "1"), put("b", "2"), put("c", "3")]).await;
    let found = stage.read(["c", "x", "a", "c"]).await;
    let names: Vec<_> = found.iter().map(|change| change.key.as_str()).collect();
    assert_eq!(names, ["c", "x", "a", "c"]);
    assert_eq!(found[0], found[3]);
}

pub async fn nothing_asked_nothing_told(stage: Stage) {
    assert_eq!(stage.read([]).await, vec![]);
}

pub async fn hot_entries_can_be_read(stage: Stage) {
    stage.made([], [put("lane/j/claim", "1")]).await;
    assert_eq!(stage.value("lane/j/claim").await.as_deref(), Some("1"));
}

/// proves: S1-09
pub async fn a_read_sees_every_answered_write(stage: Stage) {
    let other = stage.another().await;
    for i in 0..50 {
        let made = stage.made([], [put("a", &i.to_string())]).await;
        let found = other.read(vec![key("a")]).await.expect("the entry").remove(0);
        assert_eq!(found.entry.map(|e| e.revision), Some(made));
        assert!(other.list().await.expect("the listing").revision >= made);
    }
}

/// Two keys that are always written together are never seen apart, whoever writes meanwhile.
pub async fn a_read_is_of_one_moment(stage: Stage) {
    stage.made([], [put("left", "0"), put("right", "0")]).await;
    let writer = write_pairs(&stage);
    for _ in 0..100 {
        let found = stage.read(["left", "right"]).await;
        let values: Vec<_> =
            found.iter().map(|c| c.entry.as_ref().map(|e| (e.value.clone(), e.revision))).collect();
        assert_eq!(values[0], values[1]);
        assert!(found.iter().all(|c| c.revision == found[0].revision));
    }
    writer.await.expect("the writer ends");
}

pub async fn a_listing_is_of_one_moment(stage: Stage) {
    stage.made([], [put("left", "0"), put("right", "0")]).await;
    let writer = write_pairs(&stage);
    for _ in 0..100 {
        let listed = stage.list().await;
        let of =
            |name: &str| listed.changes.iter().find(|c| c.key == key(name)).and_then(|c| c.entry.clone());
        let (left, right) = (of("left").expect("left"), of("right").expect("right"));
        assert_eq!((&left.value, left.revision), (&right.value, right.revision));
        assert!(left.revision <= listed.revision);
    }
    writer.await.expect("the writer ends");
}

fn write_pairs(stage: &Stage) -> tokio::task::JoinHandle<()> {
    let registry = stage.registry.clone();
    tokio::spawn(async move {
        for i in 0..200 {
            let both = txn([], [put("left", &i.to_string()), put("right", &i.to_string())]);
            assert!(matches!(registry.commit(vec![both]).await[..], [Outcome::Applied(_)]));
        }
    })
}

pub async fn a_listing_has_every_cold_entry_once(stage: Stage) {
    let mut expected = BTreeMap::new();
    // Around the hot root on both sides.
    for name in ["a", "lan", "lane", "lane0", "laneX", "land/x", "lb", "node/x@1", "zz"] {
        stage.made([], [put(name, name)]).await;
        expected.insert(key(name), name.to_owned());
    }
    stage.made([], [delete("zz")]).await;
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
    stage.made([], [put("lane/a/claim", "1"), put("lane/z/claim", "1"), put("a", "1")]).await;
    let listed = stage.list().await.changes;
    assert!(listed.iter().all(|change| change.key.is_cold()));
    assert_eq!(listed.len(), 1);
}

pub async fn a_listing_knows_owners_and_births(stage: Stage) {
    let lease = stage.lease().await;
    let born = stage.made([], [put_by(lease, "a", "1")]).await;
    let last = stage.made([], [put_by(lease, "a", "2")]).await;
    let listed = stage.list().await;
    let entry = listed.changes[0].entry.clone().expect("the entry");
    assert_eq!((entry.owner, entry.born, entry.revision), (Some(lease), born, last));
    assert_eq!(Some(entry), stage.entry("a").await);
}
