//! The listener: learns of changes and ended leases, and does the periodic work.
//!
//! The client loses its watches at a reconnect silently, and ZooKeeper does not report what happened without a
//! connection. So at each reconnect watches are set again, the new ones before the old are dropped, and everything is
//! read.

use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::time::Millis;
use tokio::time::{MissedTickBehavior, Sleep, sleep};
use zookeeper_client::{AddWatchMode, Client, EventType, PersistentWatcher, SessionState, WatchedEvent};

use super::session::{ZookeeperSession, to_duration};
use crate::RegistryError;

/// How often it checks this process's leases.
pub(super) const TICK: Millis = Millis(100);

/// How many ticks pass until it reads without an event: no watch is trusted for longer.
const RESCAN: u32 = 10;

/// How long after a commit of this process it reads the order: several commits then share one read.
const SOON: Millis = Millis(20);

/// The pause after a read: changes in quick succession share a read, and a single one does not wait.
const PAUSE: Millis = Millis(1);

struct ZnodeWatches {
    news: PersistentWatcher,
    /// Of the folder alone: the news say which of its entries are written.
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

/// The meaning of an event.
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

/// Listens for as long as the session runs. A failure is retried at the next tick; callers get their own errors.
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

/// A timer that may be unset.
type OptionalSleep = Option<Pin<Box<Sleep>>>;

/// Waits for the timer; for ever if it is unset.
async fn wait_elapsed(wait: &mut OptionalSleep) {
    match wait {
        Some(wait) => wait.await,
        None => std::future::pending().await,
    }
}

/// Reads what is new; `false` while there is a change without news.
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
    // It keeps ticking however many events there are.
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
            // Mostly it was changed by a transaction, whose news arrive at the same time.
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
            // Before the read, which may be too early for an event that arrives meanwhile.
            soon = None;
            // A failed read still has to be made: the event will not be repeated.
            owes = !matches!(read_changes(link).await, Ok(true));
            pause = Some(Box::pin(sleep(to_duration(if owes { TICK } else { PAUSE }))));
        }
    }
}
