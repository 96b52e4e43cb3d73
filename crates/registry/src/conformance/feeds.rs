//! Cases of the feed: changes of cold entries in order, at least once, and never with a hidden gap.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, Entry, Revision, TxnOutcome};

use super::{
    MachineStall, Stage, WAIT, Xorshift, absent, at, changes_until, delete, key, next_batch, next_changes,
    put, put_by, txn,
};

fn names(changes: &[Change]) -> Vec<&str> {
    changes.iter().map(|change| change.key.as_str()).collect()
}

/// Applies a batch to a listener's view.
fn apply_changes(view: &mut BTreeMap<Key, Entry>, changes: Vec<Change>) {
    for change in changes {
        match change.entry {
            Some(entry) => drop(view.insert(change.key, entry)),
            None => drop(view.remove(&change.key)),
        }
    }
}

/// proves: S1-10
pub async fn a_listing_and_a_feed_miss_nothing(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    let listed = stage.list().await;
    // Written after the list and before the feed.
    let between = stage.commit_applied([], [put("b", "1")]).await;
    let mut feed = stage.watch(listed.revision).await;
    assert_eq!(names(&changes_until(&mut feed, between).await), ["b"]);
    let after = stage.commit_applied([], [put("a", "2")]).await;
    assert_eq!(names(&changes_until(&mut feed, after).await), ["a"]);
}

/// proves: S1-10
pub async fn a_feed_from_the_beginning_tells_everything(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    let last = stage.commit_applied([], [put("b", "1")]).await;
    let mut feed = stage.watch(Revision(0)).await;
    assert_eq!(names(&changes_until(&mut feed, last).await), ["a", "b"]);
}

pub async fn news_comes_in_order(stage: Stage) {
    let mut feed = stage.watch(stage.list().await.revision).await;
    let mut last = Revision(0);
    for i in 0..100 {
        last = stage.commit_applied([], [put(&format!("k{i:03}"), "x")]).await;
    }
    let changes = changes_until(&mut feed, last).await;
    assert!(changes.windows(2).all(|pair| pair[0].revision < pair[1].revision));
    assert_eq!(changes.len(), 100);
}

pub async fn a_transaction_is_told_whole(stage: Stage) {
    let mut feed = stage.watch(stage.list().await.revision).await;
    let writer = {
        let registry = stage.registry.clone();
        tokio::spawn(async move {
            let mut last = None;
            for i in 0..200 {
                let both = txn([], [put("left", &i.to_string()), put("right", &i.to_string())]);
                last = registry.commit(vec![both]).await.pop();
            }
            last
        })
    };
    let mut told = Revision(0);
    let mut view = BTreeMap::new();
    while view.get(&key("left")).is_none_or(|e: &Entry| *e.value != *b"199") {
        let batch = next_batch(&mut feed).await;
        told = told.max(batch.revision);
        apply_changes(&mut view, batch.changes);
        assert_eq!(view.get(&key("left")).map(|e| &e.value), view.get(&key("right")).map(|e| &e.value));
    }
    let last = writer.await.expect("the writer ends");
    let Some(TxnOutcome::Applied(last)) = last else { panic!("should have been made: {last:?}") };
    stage.assert_same_order(last, told);
}

pub async fn a_deletion_is_news(stage: Stage) {
    let before = stage.commit_applied([], [put("a", "1")]).await;
    let mut feed = stage.watch(before).await;
    let gone = stage.commit_applied([], [delete("a")]).await;
    let changes = changes_until(&mut feed, gone).await;
    assert_eq!(changes, vec![Change { key: key("a"), entry: None, revision: gone }]);
}

pub async fn the_end_of_a_lease_is_news(stage: Stage) -> Result<(), MachineStall> {
    let held = stage.short_lease().await;
    let before = stage.commit_applied_by(&held, [], [put_by(held.lease, "node/a@1", "")]).await?;
    let mut feed = stage.watch(before).await;
    stage.wait_expired(&held).await;
    let batch = next_changes(&mut feed).await;
    let revision = batch.changes[0].revision;
    assert_eq!(batch.changes, vec![Change { key: key("node/a@1"), entry: None, revision }]);
    stage.assert_same_order(revision, batch.revision);
    Ok(())
}

pub async fn hot_keys_are_no_news(stage: Stage) {
    let mut feed = stage.watch(stage.list().await.revision).await;
    stage.commit_applied([], [put("run/j/claim", "1")]).await;
    let both = stage.commit_applied([], [put("run/j/claim", "2"), put("a", "1")]).await;
    assert_eq!(names(&changes_until(&mut feed, both).await), ["a"]);
}

/// A listener that waits until it has reached an answer's revision must not wait for ever.
pub async fn quiet_progress_is_told(stage: Stage) {
    let mut feed = stage.watch(stage.list().await.revision).await;
    let hot = stage.commit_applied([], [put("run/j/claim", "1")]).await;
    let told = next_batch(&mut feed).await;
    assert_eq!(told.changes, vec![]);
    stage.assert_same_order(hot, told.revision);
}

pub async fn a_refusal_is_no_news(stage: Stage) {
    let before = stage.commit_applied([], [put("a", "1")]).await;
    let mut feed = stage.watch(before).await;
    stage.commit_refused([absent("a")], [put("b", "1")]).await;
    let after = stage.commit_applied([], [put("c", "1")]).await;
    assert_eq!(names(&changes_until(&mut feed, after).await), ["c"]);
}

pub async fn every_listener_hears(stage: Stage) {
    let before = stage.list().await.revision;
    let mut feeds = [stage.watch(before).await, stage.watch(before).await, stage.watch(before).await];
    let made = stage.commit_applied([], [put("a", "1")]).await;
    for feed in &mut feeds {
        assert_eq!(names(&changes_until(feed, made).await), ["a"]);
    }
}

/// proves: S4-23
pub async fn news_of_another_connection_comes(stage: Stage) {
    let other = stage.connect_again().await;
    let mut feed = stage.watch(stage.list().await.revision).await;
    for i in 0..10 {
        let outcome = other.commit(vec![txn([], [put(&format!("k{i}"), "1")])]).await.remove(0);
        let TxnOutcome::Applied(made) = outcome else { panic!("should have been made: {outcome:?}") };
        assert_eq!(names(&changes_until(&mut feed, made).await), [format!("k{i}")]);
    }
}

pub async fn a_feed_goes_on_after_a_restart(stage: Stage) {
    let seen = stage.commit_applied([], [put("a", "1")]).await;
    stage.commit_applied([], [put("b", "1")]).await;
    let missed = stage.commit_applied([], [delete("a")]).await;
    let stage = stage.restart().await;
    let mut feed = stage.watch(seen).await;
    assert_eq!(names(&changes_until(&mut feed, missed).await), ["b", "a"]);
}

pub async fn a_dropped_wait_loses_nothing(stage: Stage) {
    let mut feed = stage.watch(stage.list().await.revision).await;
    let (mut heard, mut last) = (Vec::new(), Revision(0));
    for i in 0..100_u64 {
        last = stage.commit_applied([], [put(&format!("k{i:03}"), "1")]).await;
        // Waits that are dropped early, at various moments, as in a `select!`.
        if let Ok(batch) = tokio::time::timeout(Duration::from_micros(i * 13 % 400), feed.next()).await {
            heard.extend(batch.expect("no gap").changes);
        }
    }
    if heard.last().is_none_or(|change| change.revision < last) {
        heard.extend(changes_until(&mut feed, last).await);
    }
    let expected: Vec<_> = (0..100).map(|i| format!("k{i:03}")).collect();
    assert_eq!(names(&heard), expected);
}

pub async fn whoever_is_too_far_behind_must_list_again(stage: Stage) {
    let enough = match stage.server_timing() {
        // More than any engine remembers.
        None => 200_000,
        Some(real) => match real.remembers {
            Some(enough) => enough,
            None => return,
        },
    };
    let behind = stage.commit_applied([], [put("a", "1")]).await;
    let mut feed = stage.watch(behind).await;
    let each = u32::try_from(stage.registry.facts().operations_max.min(4_000)).expect("a small number");
    for round in 0..enough.div_ceil(each) {
        let writes: Vec<_> = (0..each).map(|i| put(&format!("k{i}"), &round.to_string())).collect();
        stage.commit_applied([], writes).await;
    }
    let told = tokio::time::timeout(WAIT, feed.next()).await.expect("an answer in time");
    assert_eq!(told, None, "a gap must be told");
    let listed = stage.list().await;
    let mut feed = stage.watch(listed.revision).await;
    let made = stage.commit_applied([], [delete("k0")]).await;
    assert_eq!(names(&changes_until(&mut feed, made).await), ["k0"]);
}

/// Every reported entry was true at its revision.
pub async fn nothing_is_invented(stage: Stage) {
    let mut feed = stage.watch(stage.list().await.revision).await;
    let mut dice = Xorshift(0x5eed);
    let mut truth: BTreeMap<(Key, Revision), Option<String>> = BTreeMap::new();
    let mut last = Revision(0);
    for i in 0..300 {
        let name = dice.pick(&["a", "b", "c", "d"]);
        let gone = dice.below(3) == 0;
        last = stage.commit_applied([], [if gone { delete(name) } else { put(name, &format!("{i}")) }]).await;
        truth.insert((key(name), last), (!gone).then(|| format!("{i}")));
        if dice.below(4) == 0 {
            tokio::task::yield_now().await;
        }
    }
    for change in changes_until(&mut feed, last).await {
        let value = change.entry.as_ref().map(|e| String::from_utf8_lossy(&e.value).into_owned());
        assert_eq!(truth.get(&(change.key.clone(), change.revision)), Some(&value), "{change:?}");
    }
}

pub async fn a_view_fed_under_load_ends_as_the_listing(stage: Stage) {
    let other = stage.connect_again().await;
    let start = stage.list().await.revision;
    let mut feed = stage.watch(start).await;
    let writers: Vec<_> = [(1, stage.registry.clone()), (2, other)]
        .into_iter()
        .map(|(seed, registry)| {
            tokio::spawn(async move {
                let mut dice = Xorshift(seed);
                for i in 0..200 {
                    let name = format!("k{}", dice.below(20));
                    let write = if dice.below(3) == 0 { delete(&name) } else { put(&name, &i.to_string()) };
                    registry.commit(vec![txn([], [write]), txn([], [put("run/j/claim", "x")])]).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer ends");
    }
    let listed = stage.list().await;
    let mut view = BTreeMap::new();
    apply_changes(&mut view, changes_until(&mut feed, listed.revision).await);
    let expected: BTreeMap<_, _> =
        listed.changes.into_iter().filter_map(|c| c.entry.map(|entry| (c.key, entry))).collect();
    assert_eq!(view, expected);
    // In this case the counter itself has the order: both writers incremented it.
    assert!(
        stage.holds([at("run/j/claim", stage.entry("run/j/claim").await.expect("written").revision)]).await
    );
}
