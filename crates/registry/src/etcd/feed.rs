//! The feed: one etcd watch per listener, restarted after the last received revision whenever it breaks.
//!
//! etcd sends a watch nothing while only hot entries change, and asking for its progress is not safe before 3.4.25 (the
//! answer may overtake changes). So when an answer had a revision that a listener has not reached, it writes the
//! progress entry, which every listener watches: what comes after it in the order comes after it in every feed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::registry::{Change, ChangeBatch, Revision};
use tokio::sync::watch;
use tonic::{Status, Streaming};

use super::errors::EtcdError;
use super::message::{TxnResponse, WatchCreateRequest, WatchEvent, WatchRequest, WatchResponse};
use super::{EtcdShared, commit, keyspace};
use crate::clock::Stopwatch;
use crate::feed::{ChangeLog, Feed};
use crate::{BoxFuture, RegistryError};

/// How many changes may wait for a slow listener before it must list again.
const WAITING_MAX: usize = 65_536;

/// How long to wait for the changes of a revision before the progress entry is written.
const QUIET: Duration = Duration::from_millis(50);

/// The pause between two tries to reach etcd; it grows, up to a limit, each time that nothing was received.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The changes that were received and not taken yet.
#[derive(Default)]
struct EventBuffer(Mutex<PendingEvents>);

#[derive(Default)]
struct PendingEvents {
    changes: Vec<Change>,
    revision: Revision,
    /// Whether a change was lost.
    lost: bool,
}

impl EventBuffer {
    fn pending(&self) -> MutexGuard<'_, PendingEvents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeLog for EventBuffer {
    fn changes_after(
        self: Arc<Self>,
        _after: Revision,
    ) -> BoxFuture<'static, Result<Option<ChangeBatch>, RegistryError>> {
        // There is one listener, and it takes the pending changes only once.
        Box::pin(async move {
            let mut waiting = self.pending();
            let batch =
                ChangeBatch { changes: std::mem::take(&mut waiting.changes), revision: waiting.revision };
            Ok((!waiting.lost).then_some(batch))
        })
    }
}

/// Starts to listen. The watch exists when this returns.
pub(super) async fn listen(shared: &Arc<EtcdShared>, after: Revision) -> Result<Feed, RegistryError> {
    let buffer = Arc::new(EventBuffer::default());
    buffer.pending().revision = after;
    let bell = watch::Sender::new(after);
    let feed = Feed::new(buffer.clone(), bell.subscribe(), after);
    let begun = start_watch(shared, after).await.map_err(EtcdError::into_registry_error)?;
    let task = EtcdWatchTask {
        shared: shared.clone(),
        buffer,
        bell,
        fragments: Vec::new(),
        fruitless_watches: 0,
        token_requested: false,
    };
    tokio::spawn(task.run(begun));
    Ok(feed)
}

/// A watch and its member.
type EtcdWatch = (usize, Streaming<WatchResponse>);

async fn start_watch(shared: &EtcdShared, after: Revision) -> Result<EtcdWatch, EtcdError> {
    let (key, range_end) = shared.keyspace.watch_range();
    let start_revision = i64::try_from(after.0).unwrap_or(i64::MAX - 1) + 1;
    let create = WatchCreateRequest { key, range_end, start_revision, fragment: true };
    shared.client.open_stream("/etcdserverpb.Watch/Watch", WatchRequest { create: Some(create) }).await
}

struct EtcdWatchTask {
    shared: Arc<EtcdShared>,
    buffer: Arc<EventBuffer>,
    bell: watch::Sender<Revision>,
    /// The fragments of an incomplete response.
    fragments: Vec<WatchEvent>,
    /// How many watches in a row ended soon, without any change.
    fruitless_watches: u32,
    /// Whether a new token was requested since the last change.
    token_requested: bool,
}

/// Why a watch ended.
enum WatchEnd {
    /// The listener is gone, or a change was lost.
    Stopped,
    /// It can be restarted where it ended.
    Broken,
}

impl EtcdWatchTask {
    /// Passes changes on until the listener is gone or a change is lost.
    async fn run(mut self, mut begun: EtcdWatch) {
        loop {
            let (heard, since) = (self.last_revision(), Stopwatch::start());
            match self.read_watch(begun).await {
                WatchEnd::Stopped => break,
                WatchEnd::Broken => self.fragments.clear(),
            }
            let lived = self.last_revision() > heard || since.elapsed() > PAUSE_MAX;
            self.fruitless_watches = if lived { 0 } else { self.fruitless_watches.saturating_add(1) };
            begun = loop {
                tokio::select! {
                    () = self.bell.closed() => return,
                    () = tokio::time::sleep(backoff(self.fruitless_watches)) => {}
                }
                match start_watch(&self.shared, self.last_revision()).await {
                    Ok(begun) => break begun,
                    // It will not get better by itself; a caller that lists again gets the reason.
                    Err(fault) if !matches!(fault, EtcdError::Other(RegistryError::Unavailable(_))) => {
                        return self.mark_lost();
                    }
                    Err(_) => self.fruitless_watches = self.fruitless_watches.max(1),
                }
            };
        }
        self.mark_lost();
    }

    /// Marks the feed as lost. An incomplete response is never delivered; the last notification is sent.
    fn mark_lost(self) {
        let mut waiting = self.buffer.pending();
        waiting.lost = true;
        waiting.changes = Vec::new();
    }

    async fn read_watch(&mut self, (member, mut news): EtcdWatch) -> WatchEnd {
        let shared = self.shared.clone();
        let (mut used, mut told) = (shared.client.subscribe_member(), shared.announced.subscribe());
        let mut breaks = shared.client.subscribe_failure();
        loop {
            let heard = self.last_revision();
            tokio::select! {
                // A member that failed others will fail this one too, only later.
                _ = used.wait_for(|now| *now != member) => return WatchEnd::Broken,
                _ = breaks.wait_for(Option::is_some) => return WatchEnd::Stopped,
                () = self.bell.closed() => return WatchEnd::Stopped,
                answer = news.message() => match answer {
                    Ok(Some(answer)) => if let Some(end) = self.handle_response(answer) {
                        return end;
                    },
                    Ok(None) => return WatchEnd::Broken,
                    Err(status) => return self.handle_error(member, &status),
                },
                () = write_progress(&shared, &mut told, heard) => {}
            }
        }
    }

    fn handle_error(&self, member: usize, status: &Status) -> WatchEnd {
        match self.shared.client.fail(member, status) {
            EtcdError::Other(RegistryError::Unavailable(_)) => WatchEnd::Broken,
            EtcdError::Token => {
                self.shared.client.forget_token();
                WatchEnd::Broken
            }
            _ => WatchEnd::Stopped,
        }
    }

    /// Handles a watch that etcd has canceled.
    fn handle_cancel(&mut self, answer: &WatchResponse) -> WatchEnd {
        let says = |reason: &str| answer.cancel_reason.contains(reason);
        let token = says("invalid auth token") || says("revision of auth store is old");
        // Older releases also send this for an unknown token, so a new one is tried once.
        let forbidden =
            says("permission denied") && (self.token_requested || !self.shared.client.has_login());
        if answer.compact_revision > 0 || forbidden || says("user name is empty") {
            return WatchEnd::Stopped;
        }
        if token || says("permission denied") {
            self.shared.client.forget_token();
            self.token_requested = true;
        }
        WatchEnd::Broken
    }

    fn handle_response(&mut self, answer: WatchResponse) -> Option<WatchEnd> {
        if answer.canceled {
            return Some(self.handle_cancel(&answer));
        }
        self.fragments.extend(answer.events);
        if answer.fragment {
            return None;
        }
        // The header's revision may be ahead of changes still to come; that of the last event is not.
        let kvs =
            std::mem::take(&mut self.fragments).into_iter().filter_map(|event| Some((event.kind, event.kv?)));
        let (mut changes, mut heard) = (Vec::new(), self.last_revision());
        for (kind, kv) in kvs {
            let at = keyspace::revision(kv.mod_revision);
            heard = heard.max(at);
            if let Some(key) = self.shared.keyspace.parse_key(&kv.key) {
                let entry = (kind == 0).then(|| keyspace::entry(kv));
                changes.push(Change { key, entry, revision: at });
            }
        }
        {
            let mut waiting = self.buffer.pending();
            if waiting.changes.len() + changes.len() > WAITING_MAX {
                return Some(WatchEnd::Stopped);
            }
            waiting.changes.append(&mut changes);
            waiting.revision = heard;
        }
        self.token_requested &= !self.bell.send_if_modified(|rung| std::mem::replace(rung, heard) != heard);
        None
    }

    fn last_revision(&self) -> Revision {
        *self.bell.borrow()
    }
}

/// How long to wait after this many fruitless watches: one of them may have been cut off, or its member may be gone.
fn backoff(barren: u32) -> Duration {
    match barren {
        0 => Duration::ZERO,
        // Doubled each time.
        _ => PAUSE.saturating_mul(1 << (barren - 1).min(8)).min(PAUSE_MAX),
    }
}

/// Writes the progress entry when an answered revision is not received for a while. May be dropped at any point.
async fn write_progress(shared: &EtcdShared, told: &mut watch::Receiver<Revision>, heard: Revision) {
    if told.wait_for(|told| *told > heard).await.is_err() {
        return std::future::pending().await;
    }
    tokio::time::sleep(QUIET).await;
    let told = *told.borrow();
    let mut marked = shared.progress_written.lock().await;
    if *marked < told {
        let write = commit::put(Vec::new(), shared.keyspace.progress_key(), Vec::new(), 0);
        if let Ok(TxnResponse { header: Some(header), .. }) =
            shared.client.call_once(commit::PATH, write).await
        {
            *marked = keyspace::revision(header.revision);
        }
        return;
    }
    drop(marked);
    // It was written for this revision already, and will arrive.
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::fake_server;
    use super::super::message::{AuthenticateResponse, KeyValue};
    use super::*;

    const LONG: Duration = Duration::from_secs(120);

    fn canceled(why: &str) -> Vec<Vec<u8>> {
        let begun = WatchResponse { created: true, ..WatchResponse::default() };
        let over = WatchResponse { canceled: true, cancel_reason: why.into(), ..WatchResponse::default() };
        vec![fake_server::bytes(&begun), fake_server::bytes(&over)]
    }

    fn news(revision: i64) -> Vec<Vec<u8>> {
        let kv = KeyValue { mod_revision: revision, ..KeyValue::default() };
        let event = WatchEvent { kind: 0, kv: Some(kv) };
        vec![fake_server::bytes(&WatchResponse { events: vec![event], ..WatchResponse::default() })]
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses: Vec<_> = [0, 1, 2, 3, 4, u32::MAX].map(|barren| backoff(barren).as_millis()).to_vec();
        assert_eq!(pauses, [0, 200, 400, 800, 1_000, 1_000]);
    }

    #[tokio::test]
    async fn a_watch_that_is_cancelled_each_time_is_not_begun_again_in_haste() {
        // A watch on a stalled machine counts as one that lived, and is restarted at once: so one of several tries
        // counts.
        let mut tries = Vec::new();
        loop {
            let pauses = pauses_between_watches().await;
            if pauses.iter().zip(1..).all(|(passed, barren)| *passed >= backoff(barren)) {
                break;
            }
            tries.push(pauses);
            assert!(tries.len() < 10, "between watches: {tries:?}");
        }
    }

    /// The time from each of three watches, canceled at once, to the next one.
    async fn pauses_between_watches() -> Vec<Duration> {
        let (begun, start) = (Arc::new(Mutex::new(Vec::new())), Stopwatch::start());
        let noted = begun.clone();
        let shared = fake_server::start("", move |_| {
            noted.lock().unwrap().push(start.elapsed());
            canceled("etcdserver: for a reason that lasts")
        })
        .await;
        let mut feed = listen(&shared, Revision(1)).await.unwrap();
        let enough = async {
            while begun.lock().unwrap().len() < 4 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            told = feed.next() => panic!("there is no news: {told:?}"),
            enough = tokio::time::timeout(LONG, enough) => enough.expect("it is begun again"),
        }
        let begun = begun.lock().unwrap();
        begun.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[tokio::test]
    async fn a_watch_that_is_cancelled_for_its_token_gets_a_new_one() {
        for why in ["invalid auth token", "revision of auth store is old", "permission denied"] {
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = asked.clone();
            let shared = fake_server::start("user:secret@", move |path| match path {
                "/etcdserverpb.Auth/Authenticate" => {
                    counted.fetch_add(1, Ordering::Relaxed);
                    vec![fake_server::bytes(&AuthenticateResponse {
                        token: "token".into(),
                        ..Default::default()
                    })]
                }
                _ if counted.load(Ordering::Relaxed) < 2 => canceled(&format!("etcdserver: {why}")),
                _ => news(7),
            })
            .await;
            let mut feed = listen(&shared, Revision(1)).await.unwrap();
            let told = tokio::time::timeout(LONG, feed.next()).await.expect("in time").expect("no gap");
            assert_eq!((told.revision, asked.load(Ordering::Relaxed)), (Revision(7), 2), "{why}");
        }
    }

    #[tokio::test]
    async fn whoever_may_not_listen_hears_the_end() {
        for login in ["", "user:secret@"] {
            let shared = fake_server::start(login, |path| match path {
                "/etcdserverpb.Auth/Authenticate" => {
                    vec![fake_server::bytes(&AuthenticateResponse {
                        token: "token".into(),
                        ..Default::default()
                    })]
                }
                _ => canceled("etcdserver: permission denied"),
            })
            .await;
            let mut feed = listen(&shared, Revision(1)).await.unwrap();
            assert_eq!(tokio::time::timeout(LONG, feed.next()).await.expect("in time"), None);
        }
    }
}
