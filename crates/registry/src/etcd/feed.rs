//! News: one etcd watch a listener, begun again after the last revision heard whenever it breaks.
//!
//! etcd tells a watch nothing while only hot entries change, and asking it how far it has come is not safe before 3.4.25
//! (the answer may overtake news). So whoever was told a revision that a listener has not heard of writes the mark,
//! an entry that every listener watches: what comes after it in the order comes after it in every feed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::registry::{Batch, Change, Revision};
use tokio::sync::watch;
use tonic::{Status, Streaming};

use super::fault::Fault;
use super::message::{Event, TxnResponse, WatchCreateRequest, WatchRequest, WatchResponse};
use super::{Shared, commit, tree};
use crate::clock::Stopwatch;
use crate::feed::{Feed, Log};
use crate::{BoxFuture, RegistryError};

/// How many changes wait for a listener that is slow, before it must list again.
const WAITING_MAX: usize = 65_536;

/// How long news of a revision may be awaited before the mark is written.
const QUIET: Duration = Duration::from_millis(50);

/// Between two tries to reach etcd; more each time that nothing was heard, up to a limit.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What was heard and not yet taken.
#[derive(Default)]
struct Line(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    changes: Vec<Change>,
    heard: Revision,
    /// Something was lost.
    over: bool,
}

impl Line {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for Line {
    fn changes_after(
        self: Arc<Self>,
        _after: Revision,
    ) -> BoxFuture<'static, Result<Option<Batch>, RegistryError>> {
        // There is one listener, and it takes what waits only once.
        Box::pin(async move {
            let mut waiting = self.waiting();
            let batch = Batch { changes: std::mem::take(&mut waiting.changes), revision: waiting.heard };
            Ok((!waiting.over).then_some(batch))
        })
    }
}

/// Begins to listen. The watch is there when this returns.
pub(super) async fn listen(shared: &Arc<Shared>, after: Revision) -> Result<Feed, RegistryError> {
    let line = Arc::new(Line::default());
    line.waiting().heard = after;
    let bell = watch::Sender::new(after);
    let feed = Feed::new(line.clone(), bell.subscribe(), after);
    let begun = watch_from(shared, after).await.map_err(Fault::explain)?;
    let pump = Pump { shared: shared.clone(), line, bell, pieces: Vec::new(), barren: 0, anew: false };
    tokio::spawn(pump.run(begun));
    Ok(feed)
}

/// A watch and the member it is at.
type Watch = (usize, Streaming<WatchResponse>);

async fn watch_from(shared: &Shared, after: Revision) -> Result<Watch, Fault> {
    let (key, range_end) = shared.tree.watched();
    let start_revision = i64::try_from(after.0).unwrap_or(i64::MAX - 1) + 1;
    let create = WatchCreateRequest { key, range_end, start_revision, fragment: true };
    shared.wire.converse("/etcdserverpb.Watch/Watch", WatchRequest { create: Some(create) }).await
}

struct Pump {
    shared: Arc<Shared>,
    line: Arc<Line>,
    bell: watch::Sender<Revision>,
    /// Of news that is not whole yet.
    pieces: Vec<Event>,
    /// How many watches in a row ended soon, without any news.
    barren: u32,
    /// A new token was asked for since the last news.
    anew: bool,
}

/// Why a watch ended.
enum End {
    /// Nobody listens any more, or something was lost.
    Over,
    /// It can be begun again where it ended.
    Broken,
}

impl Pump {
    /// Passes news on until nobody listens or something is lost.
    async fn run(mut self, mut begun: Watch) {
        loop {
            let (heard, since) = (self.heard(), Stopwatch::start());
            match self.follow(begun).await {
                End::Over => break,
                End::Broken => self.pieces.clear(),
            }
            let lived = self.heard() > heard || since.passed() > PAUSE_MAX;
            self.barren = if lived { 0 } else { self.barren.saturating_add(1) };
            begun = loop {
                tokio::select! {
                    () = self.bell.closed() => return,
                    () = tokio::time::sleep(pause(self.barren)) => {}
                }
                match watch_from(&self.shared, self.heard()).await {
                    Ok(begun) => break begun,
                    // It will not get better by itself; whoever lists again is told why.
                    Err(fault) if !matches!(fault, Fault::Other(RegistryError::Unavailable(_))) => {
                        return self.end();
                    }
                    Err(_) => self.barren = self.barren.max(1),
                }
            };
        }
        self.end();
    }

    /// What is not whole is never told; the bell rings its last.
    fn end(self) {
        let mut waiting = self.line.waiting();
        waiting.over = true;
        waiting.changes = Vec::new();
    }

    async fn follow(&mut self, (member, mut news): Watch) -> End {
        let shared = self.shared.clone();
        let (mut used, mut told) = (shared.wire.used(), shared.told.subscribe());
        let mut breaks = shared.wire.breaks();
        loop {
            let heard = self.heard();
            tokio::select! {
                // A member that failed others will fail us too, only later.
                _ = used.wait_for(|now| *now != member) => return End::Broken,
                _ = breaks.wait_for(Option::is_some) => return End::Over,
                () = self.bell.closed() => return End::Over,
                answer = news.message() => match answer {
                    Ok(Some(answer)) => if let Some(end) = self.absorb(answer) {
                        return end;
                    },
                    Ok(None) => return End::Broken,
                    Err(status) => return self.broken(member, &status),
                },
                () = mark(&shared, &mut told, heard) => {}
            }
        }
    }

    fn broken(&self, member: usize, status: &Status) -> End {
        match self.shared.wire.fail(member, status) {
            Fault::Other(RegistryError::Unavailable(_)) => End::Broken,
            Fault::Token => {
                self.shared.wire.forget_token();
                End::Broken
            }
            _ => End::Over,
        }
    }

    /// What follows from a watch that etcd does not go on with.
    fn canceled(&mut self, answer: &WatchResponse) -> End {
        let says = |reason: &str| answer.cancel_reason.contains(reason);
        let token = says("invalid auth token") || says("revision of auth store is old");
        // Older ones also say this of a token that they do not know, so a new one is tried once.
        let forbidden = says("permission denied") && (self.anew || !self.shared.wire.has_login());
        if answer.compact_revision > 0 || forbidden || says("user name is empty") {
            return End::Over;
        }
        if token || says("permission denied") {
            self.shared.wire.forget_token();
            self.anew = true;
        }
        End::Broken
    }

    fn absorb(&mut self, answer: WatchResponse) -> Option<End> {
        if answer.canceled {
            return Some(self.canceled(&answer));
        }
        self.pieces.extend(answer.events);
        if answer.fragment {
            return None;
        }
        // The header's revision may be ahead of news that is still to come, that of the last event is not.
        let kvs =
            std::mem::take(&mut self.pieces).into_iter().filter_map(|event| Some((event.kind, event.kv?)));
        let (mut changes, mut heard) = (Vec::new(), self.heard());
        for (kind, kv) in kvs {
            let at = tree::revision(kv.mod_revision);
            heard = heard.max(at);
            if let Some(key) = self.shared.tree.key(&kv.key) {
                let entry = (kind == 0).then(|| tree::entry(kv));
                changes.push(Change { key, entry, revision: at });
            }
        }
        {
            let mut waiting = self.line.waiting();
            if waiting.changes.len() + changes.len() > WAITING_MAX {
                return Some(End::Over);
            }
            waiting.changes.append(&mut changes);
            waiting.heard = heard;
        }
        self.anew &= !self.bell.send_if_modified(|rung| std::mem::replace(rung, heard) != heard);
        None
    }

    fn heard(&self) -> Revision {
        *self.bell.borrow()
    }
}

/// How long to wait after so many watches that came to nothing: one of them may have been cut off, or its member gone.
fn pause(barren: u32) -> Duration {
    match barren {
        0 => Duration::ZERO,
        // Doubled each time.
        _ => PAUSE.saturating_mul(1 << (barren - 1).min(8)).min(PAUSE_MAX),
    }
}

/// Writes the mark when somebody was told a revision that is not heard of for a while. May be dropped at any point.
async fn mark(shared: &Shared, told: &mut watch::Receiver<Revision>, heard: Revision) {
    if told.wait_for(|told| *told > heard).await.is_err() {
        return std::future::pending().await;
    }
    tokio::time::sleep(QUIET).await;
    let told = *told.borrow();
    let mut marked = shared.marked.lock().await;
    if *marked < told {
        let write = commit::put(Vec::new(), shared.tree.mark(), Vec::new(), 0);
        if let Ok(TxnResponse { header: Some(header), .. }) = shared.wire.tell(commit::PATH, write).await {
            *marked = tree::revision(header.revision);
        }
        return;
    }
    drop(marked);
    // It was written for this already, and is on its way.
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::message::{AuthenticateResponse, KeyValue};
    use super::super::script;
    use super::*;

    const LONG: Duration = Duration::from_secs(120);

    fn canceled(why: &str) -> Vec<Vec<u8>> {
        let begun = WatchResponse { created: true, ..WatchResponse::default() };
        let over = WatchResponse { canceled: true, cancel_reason: why.into(), ..WatchResponse::default() };
        vec![script::bytes(&begun), script::bytes(&over)]
    }

    fn news(revision: i64) -> Vec<Vec<u8>> {
        let kv = KeyValue { mod_revision: revision, ..KeyValue::default() };
        let event = Event { kind: 0, kv: Some(kv) };
        vec![script::bytes(&WatchResponse { events: vec![event], ..WatchResponse::default() })]
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses: Vec<_> = [0, 1, 2, 3, 4, u32::MAX].map(|barren| pause(barren).as_millis()).to_vec();
        assert_eq!(pauses, [0, 200, 400, 800, 1_000, 1_000]);
    }

    #[tokio::test]
    async fn a_watch_that_is_cancelled_each_time_is_not_begun_again_in_haste() {
        // A watch on a machine that stands still counts as one that lived, which is begun again at once: so one of several tries
        // counts.
        let mut tries = Vec::new();
        loop {
            let pauses = pauses_between_watches().await;
            if pauses.iter().zip(1..).all(|(passed, barren)| *passed >= pause(barren)) {
                break;
            }
            tries.push(pauses);
            assert!(tries.len() < 10, "between watches: {tries:?}");
        }
    }

    /// How long it takes from each of three watches, cancelled at once, to the next one.
    async fn pauses_between_watches() -> Vec<Duration> {
        let (begun, start) = (Arc::new(Mutex::new(Vec::new())), Stopwatch::start());
        let noted = begun.clone();
        let shared = script::play("", move |_| {
            noted.lock().unwrap().push(start.passed());
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
            let shared = script::play("user:secret@", move |path| match path {
                "/etcdserverpb.Auth/Authenticate" => {
                    counted.fetch_add(1, Ordering::Relaxed);
                    vec![script::bytes(&AuthenticateResponse { token: "token".into(), ..Default::default() })]
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
            let shared = script::play(login, |path| match path {
                "/etcdserverpb.Auth/Authenticate" => {
                    vec![script::bytes(&AuthenticateResponse { token: "token".into(), ..Default::default() })]
                }
                _ => canceled("etcdserver: permission denied"),
            })
            .await;
            let mut feed = listen(&shared, Revision(1)).await.unwrap();
            assert_eq!(tokio::time::timeout(LONG, feed.next()).await.expect("in time"), None);
        }
    }
}
