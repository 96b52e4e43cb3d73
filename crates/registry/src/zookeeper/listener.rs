//! Hears of news and of ended leases, and does what must be done without being asked.
//!
//! The client loses its watches at a reconnect without a word, and ZooKeeper tells nothing of what it saw no connection
//! for. So at each reconnect watches are set again, the new ones before the old are dropped, and everything is read.

use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::time::Millis;
use tokio::time::{MissedTickBehavior, Sleep, sleep};
use zookeeper_client::{AddWatchMode, Client, EventType, PersistentWatcher, SessionState, WatchedEvent};

use super::session::{ZookeeperSession, to_duration};
use crate::RegistryError;

/// How often it looks after leases that are ours.
pub(super) const TICK: Millis = Millis(100);

/// How many ticks pass until it reads unasked: no watch is trusted for longer.
const RESCAN: u32 = 10;

/// How long after a commit of ours it tells how far the order has gone: several then share one reading.
const SOON: Millis = Millis(20);

/// For how long it reads no more after it has read: what comes thick and fast shares a reading, what comes alone waits for none.
const PAUSE: Millis = Millis(1);

struct ZnodeWatches {
    news: PersistentWatcher,
    /// Of the folder alone: which of its entries are written is in the news.
    cold: PersistentWatcher,
    leases: PersistentWatcher,
}

impl ZnodeWatches {
    async fn start(link: &ZookeeperSession, client: &Client) -> Result<Self, RegistryError> {
        let (news, cold, leases) = (link.paths.news(), link.paths.cold(), link.paths.leases());
        let news = client.watch(&news, AddWatchMode::Persistent);
        let cold = client.watch(&cold, AddWatchMode::Persistent);
        let leases = client.watch(&leases, AddWatchMode::PersistentRecursive);
        let (news, cold) = (link.with_timeout(news).await?, link.with_timeout(cold).await?);
        Ok(Self { news, cold, leases: link.with_timeout(leases).await? })
    }
}

/// What an event means.
enum WatchSignal {
    /// Something changed.
    Change,
    /// Nothing.
    Nothing,
    /// Watches must be set again.
    Reset,
}

fn signal_of(event: &WatchedEvent) -> WatchSignal {
    match (event.event_type, event.session_state) {
        (EventType::Session, SessionState::Disconnected) => WatchSignal::Nothing,
        (EventType::Session, _) => WatchSignal::Reset,
        _ => WatchSignal::Change,
    }
}

/// Listens as long as it goes on. What fails here is tried again at the next tick; whoever asks for something hears why.
pub(super) async fn run(link: Arc<ZookeeperSession>) {
    let mut watches: Option<ZnodeWatches> = None;
    while link.check_running().is_ok() {
        let set = match link.client().await {
            Ok(client) => match link.verify_generation(&client).await {
                Ok(()) => ZnodeWatches::start(&link, &client).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        match set {
            Ok(set) => {
                let set = watches.insert(set);
                let _ = link.refresh(true).await;
                let _ = link.end_expired().await;
                listen(&link, set).await;
            }
            Err(_) => sleep(to_duration(TICK)).await,
        }
        link.end_overdue().await;
    }
}

/// A wait that goes on beside others.
type OptionalSleep = Option<Pin<Box<Sleep>>>;

/// Ends when that has passed; never where there is nothing.
async fn wait_elapsed(wait: &mut OptionalSleep) {
    match wait {
        Some(wait) => wait.await,
        None => std::future::pending().await,
    }
}

/// Reads what is new; `false` while something has changed of which no news tell.
async fn read_changes(link: &ZookeeperSession) -> Result<bool, RegistryError> {
    link.refresh(false).await?;
    if link.journal().foreign_change {
        link.report_foreign_change().await?;
        link.refresh(false).await?;
    }
    Ok(!link.journal().foreign_change)
}

/// Listens until watches must be set again.
async fn listen(link: &ZookeeperSession, watches: &mut ZnodeWatches) {
    let mut ticks = 0;
    // Goes on however much else there is to hear.
    let mut clock = tokio::time::interval(to_duration(TICK));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut soon, mut pause): (OptionalSleep, OptionalSleep) = (None, None);
    let mut owes = false;
    loop {
        tokio::select! {
            event = watches.news.changed() => match signal_of(&event) {
                WatchSignal::Change => owes = true,
                WatchSignal::Nothing => {}
                WatchSignal::Reset => return,
            },
            // Mostly it changed by a transaction, whose news come at the same time.
            event = watches.cold.changed() => match signal_of(&event) {
                WatchSignal::Change => owes = true,
                WatchSignal::Nothing => {}
                WatchSignal::Reset => return,
            },
            event = watches.leases.changed() => match signal_of(&event) {
                WatchSignal::Change if event.event_type == EventType::NodeDeleted => drop(link.end_expired().await),
                WatchSignal::Change | WatchSignal::Nothing => {}
                WatchSignal::Reset => return,
            },
            () = link.wake.notified() => {
                soon.get_or_insert_with(|| Box::pin(sleep(to_duration(SOON))));
            }
            () = wait_elapsed(&mut soon) => (owes, soon) = (true, None),
            () = wait_elapsed(&mut pause) => pause = None,
            _ = clock.tick() => {
                link.end_overdue().await;
                ticks += 1;
                if ticks % RESCAN == 0 {
                    owes = true;
                    let _ = link.end_expired().await;
                    let _ = link.trim_news().await;
                }
            }
        }
        if owes && pause.is_none() {
            // Before it reads, for what comes meanwhile may be too late for that.
            soon = None;
            // What was not read is still owed: whoever told of it does not tell again.
            owes = !matches!(read_changes(link).await, Ok(true));
            pause = Some(Box::pin(sleep(to_duration(if owes { TICK } else { PAUSE }))));
        }
    }
}
