//! The feeds of the console's document: each is made once for all its viewers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::ids::Namespace;
use evenkeel_core::time::Mono;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};

use super::patch_ring::{FeedEvent, PatchRing};

/// The most feeds at once, each of one namespace or of all.
const FEEDS_MAX: usize = 32;

/// The feeds that have viewers, or had some a short time ago.
#[derive(Default)]
pub(crate) struct LiveFeeds {
    feeds: Mutex<BTreeMap<Option<Namespace>, Arc<LiveFeed>>>,
}

/// The documents of one namespace, or of all, one after the other.
pub(crate) struct LiveFeed {
    /// Part of every event's id: positions of another feed, or of another life of this one, mean nothing here.
    id: String,
    ring: Mutex<PatchRing>,
    progress: watch::Sender<FeedProgress>,
    /// A viewer has come.
    pub(crate) came: Notify,
}

/// How far a feed is.
#[derive(Clone, Copy, Debug, Default)]
struct FeedProgress {
    /// When the latest look began, whether or not it found a change.
    looked: Option<Mono>,
    /// Whether there will be no more.
    over: bool,
}

/// A viewer of a feed. The feed goes on as long as there is one.
pub(crate) struct LiveViewer {
    pub(crate) feed: Arc<LiveFeed>,
    progress: watch::Receiver<FeedProgress>,
}

impl LiveFeeds {
    /// A viewer of the feed of this namespace, or of all, and whether the feed is new: then [`LiveFeed::publish`] has to be called
    /// from now on. `None` if there are too many feeds, all with viewers. `id` is the id of a new feed.
    pub(crate) fn view(&self, namespace: Option<&Namespace>, id: String) -> Option<(LiveViewer, bool)> {
        let mut feeds = self.lock();
        if feeds.len() >= FEEDS_MAX && !feeds.contains_key(&namespace.cloned()) {
            let unseen = feeds.iter().find(|(_, feed)| !feed.has_viewers()).map(|(name, _)| name.clone());
            feeds.remove(&unseen?);
        }
        let (feed, is_new) = match feeds.entry(namespace.cloned()) {
            Entry::Occupied(known) => (known.get().clone(), false),
            Entry::Vacant(place) => (place.insert(Arc::new(LiveFeed::new(id))).clone(), true),
        };
        let viewer = LiveViewer { progress: feed.progress.subscribe(), feed };
        drop(feeds);
        viewer.feed.came.notify_one();
        Some((viewer, is_new))
    }

    /// Removes a feed unless it has viewers; whether it has none.
    pub(crate) fn retire(&self, feed: &Arc<LiveFeed>) -> bool {
        let mut feeds = self.lock();
        if feed.has_viewers() {
            return false;
        }
        feeds.retain(|_, known| !Arc::ptr_eq(known, feed));
        true
    }

    /// Removes a feed of which no more comes; the streams of its viewers end.
    pub(crate) fn end(&self, feed: &Arc<LiveFeed>) {
        self.lock().retain(|_, known| !Arc::ptr_eq(known, feed));
        feed.progress.send_modify(|progress| progress.over = true);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<Namespace>, Arc<LiveFeed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveFeed {
    fn new(id: String) -> Self {
        Self { id, ring: Mutex::default(), progress: watch::Sender::default(), came: Notify::new() }
    }

    pub(crate) fn has_viewers(&self) -> bool {
        self.progress.receiver_count() > 0
    }

    /// Takes the document that a look has found which began at this moment.
    pub(crate) fn publish(&self, document: Value, looked: Mono) {
        self.ring().put(document);
        self.progress.send_modify(|progress| progress.looked = Some(looked));
    }

    /// The id of the event after which a viewer has the document at this position.
    pub(crate) fn event_id(&self, seq: u64) -> String {
        format!("{}-{seq}", self.id)
    }

    /// The position in an event's id, if it is an id of this feed.
    pub(crate) fn position(&self, event_id: &str) -> Option<u64> {
        let (id, seq) = event_id.rsplit_once('-')?;
        seq.parse().ok().filter(|_| id == self.id)
    }

    fn ring(&self) -> MutexGuard<'_, PatchRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveViewer {
    /// Waits for a look that began at this moment or later; whether there is one.
    pub(crate) async fn looked_since(&mut self, moment: Mono) -> bool {
        let is_fresh =
            |progress: &FeedProgress| progress.over || progress.looked.is_some_and(|at| at >= moment);
        self.progress.wait_for(is_fresh).await.is_ok_and(|progress| !progress.over)
    }

    /// Sends what comes after the document at this position, until the receiver is gone or the feed is over. No more than the
    /// receiver takes is made ready: a slow one gets the patches that are still kept, and otherwise the whole document.
    pub(crate) async fn send_after(mut self, mut seen: Option<u64>, to: &mpsc::Sender<FeedEvent>) {
        loop {
            let progress = *self.progress.borrow_and_update();
            let next = self.feed.ring().after(seen);
            if let Some(event) = next {
                let (FeedEvent::Snapshot(seq, _) | FeedEvent::Patch(seq, _)) = &event;
                seen = Some(*seq);
                if to.send(event).await.is_err() {
                    return;
                }
                continue;
            }
            if progress.over || self.progress.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn namespace(n: usize) -> Namespace {
        format!("team-{n}").parse().expect("a namespace")
    }

    #[tokio::test]
    async fn a_slow_viewer_gets_the_newest_document_and_holds_no_others() {
        let feeds = LiveFeeds::default();
        let (viewer, _) = feeds.view(None, "f".to_owned()).expect("room");
        let feed = viewer.feed.clone();
        feed.publish(json!({ "n": 0 }), Mono(0));
        let (send, mut receive) = mpsc::channel(1);
        let sending = tokio::spawn(async move { viewer.send_after(None, &send).await });
        assert!(matches!(receive.recv().await, Some(FeedEvent::Snapshot(1, _))));
        for n in 1..2_000 {
            feed.publish(json!({ "n": n }), Mono(n));
            if n == 3 {
                tokio::task::yield_now().await;
            }
        }
        let mut got = Vec::new();
        while !matches!(got.last(), Some(FeedEvent::Snapshot(..))) {
            got.push(receive.recv().await.expect("an event"));
        }
        // One was in the channel, and one was about to be sent.
        assert!(got.len() <= 3, "{got:?}");
        assert_eq!(got.last(), Some(&FeedEvent::Snapshot(2_000, "{\"n\":1999}".into())));
        feeds.end(&feed);
        assert_eq!(receive.recv().await, None);
        sending.await.expect("no panic");
    }

    #[tokio::test]
    async fn a_viewer_that_comes_waits_for_a_new_look() {
        let feeds = LiveFeeds::default();
        let (mut viewer, is_new) = feeds.view(None, "f".to_owned()).expect("room");
        assert!(is_new);
        let feed = viewer.feed.clone();
        feed.publish(json!({}), Mono(5));
        assert!(viewer.looked_since(Mono(5)).await);
        let waiting = tokio::spawn(async move { viewer.looked_since(Mono(6)).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        feed.publish(json!({}), Mono(6));
        assert!(waiting.await.expect("no panic"));
        let (mut late, is_new) = feeds.view(None, "g".to_owned()).expect("room");
        assert!(!is_new && Arc::ptr_eq(&late.feed, &feed), "one feed for both");
        feeds.end(&feed);
        assert!(!late.looked_since(Mono(7)).await, "there will be none");
    }

    #[test]
    fn only_ids_of_the_same_life_of_a_feed_are_positions() {
        let feed = LiveFeed::new("f-1".to_owned());
        assert_eq!(feed.position(&feed.event_id(7)), Some(7));
        for other in ["", "7", "-7", "f-7", "f-1-", "f-1-x", "f-1--7", "f-1-7-7", "f-2-7"] {
            assert_eq!(feed.position(other), None, "{other}");
        }
    }

    #[test]
    fn feeds_are_bounded_and_one_without_viewers_gives_way() {
        let feeds = LiveFeeds::default();
        let mut viewers: Vec<_> =
            (0..FEEDS_MAX).map(|n| feeds.view(Some(&namespace(n)), n.to_string()).expect("room").0).collect();
        let new = namespace(FEEDS_MAX);
        assert!(feeds.view(Some(&new), "new".to_owned()).is_none());
        assert!(feeds.view(Some(&namespace(0)), "again".to_owned()).is_some(), "it is there");
        let left = viewers.swap_remove(3);
        let feed = left.feed.clone();
        assert!(!feeds.retire(&feed));
        drop(left);
        assert!(feeds.view(Some(&new), "new".to_owned()).is_some());
        assert!(feeds.retire(&feed), "it gave way already");
        assert_eq!(feeds.lock().len(), FEEDS_MAX);
    }
}
