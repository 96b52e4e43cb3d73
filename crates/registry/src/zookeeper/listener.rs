//! Hears of news and of ended leases, and does what must be done without being asked.
//!
//! The client loses its watches at a reconnect without a word, and ZooKeeper tells nothing of what it saw no connection
//! for. So at each reconnect watches are set again, the new ones before the old are dropped, and everything is read.

use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::time::Millis;
use tokio::time::{MissedTickBehavior, Sleep, sleep};
use zookeeper_client::{AddWatchMode, Client, EventType, PersistentWatcher, SessionState, WatchedEvent};

use super::link::{Link, span};
use crate::RegistryError;

/// How often it looks after leases that are ours.
pub(super) const TICK: Millis = Millis(100);

/// How many ticks pass until it reads unasked: no watch is trusted for longer.
const RESCAN: u32 = 10;

/// How long after a commit of ours it tells how far the order has gone: several then share one reading.
const SOON: Millis = Millis(20);

/// For how long it reads no more after it has read: what comes thick and fast shares a reading, what comes alone waits for none.
const PAUSE: Millis = Millis(1);

struct Watches {
    news: PersistentWatcher,
    /// Of the folder alone: which of its entries are written is in the news.
    cold: PersistentWatcher,
    leases: PersistentWatcher,
}

impl Watches {
    async fn set(link: &Link, client: &Client) -> Result<Self, RegistryError> {
        let (news, cold, leases) = (link.tree.news(), link.tree.cold(), link.tree.leases());
        let news = client.watch(&news, AddWatchMode::Persistent);
        let cold = client.watch(&cold, AddWatchMode::Persistent);
        let leases = client.watch(&leases, AddWatchMode::PersistentRecursive);
        let (news, cold) = (link.within(news).await?, link.within(cold).await?);
        Ok(Self { news, cold, leases: link.within(leases).await? })
    }
}

/// What an event means.
enum Heard {
    /// Something changed.
    Change,
    /// Nothing.
    Nothing,
    /// Watches must be set again.
    Anew,
}

fn heard(event: &WatchedEvent) -> Heard {
    match (event.event_type, event.session_state) {
        (EventType::Session, SessionState::Disconnected) => Heard::Nothing,
        (EventType::Session, _) => Heard::Anew,
        _ => Heard::Change,
    }
}

/// Listens as long as it goes on. What fails here is tried again at the next tick; whoever asks for something hears why.
pub(super) async fn run(link: Arc<Link>) {
    let mut watches: Option<Watches> = None;
    while link.goes_on().is_ok() {
        let set = match link.client().await {
            Ok(client) => match link.verify(&client).await {
                Ok(()) => Watches::set(&link, &client).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        match set {
            Ok(set) => {
                let set = watches.insert(set);
                let _ = link.refresh(true).await;
                let _ = link.sweep().await;
                listen(&link, set).await;
            }
            Err(_) => sleep(span(TICK)).await,
        }
        link.end_overdue().await;
    }
}

/// A wait that goes on beside others.
type Wait = Option<Pin<Box<Sleep>>>;

/// Ends when that has passed; never where there is nothing.
async fn passed(wait: &mut Wait) {
    match wait {
        Some(wait) => wait.await,
        None => std::future::pending().await,
    }
}

/// Reads what is new; `false` while something has changed of which no news tell.
async fn read(link: &Link) -> Result<bool, RegistryError> {
    link.refresh(false).await?;
    if link.journal().strange {
        link.tell_of_strangers().await?;
        link.refresh(false).await?;
    }
    Ok(!link.journal().strange)
}

/// Listens until watches must be set again.
async fn listen(link: &Link, watches: &mut Watches) {
    let mut ticks = 0;
    // Goes on however much else there is to hear.
    let mut clock = tokio::time::interval(span(TICK));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut soon, mut pause): (Wait, Wait) = (None, None);
    let mut owes = false;
    loop {
        tokio::select! {
            event = watches.news.changed() => match heard(&event) {
                Heard::Change => owes = true,
                Heard::Nothing => {}
                Heard::Anew => return,
            },
            // Mostly it changed by a transaction, whose news come at the same time.
            event = watches.cold.changed() => match heard(&event) {
                Heard::Change => owes = true,
                Heard::Nothing => {}
                Heard::Anew => return,
            },
            event = watches.leases.changed() => match heard(&event) {
                Heard::Change if event.event_type == EventType::NodeDeleted => drop(link.sweep().await),
                Heard::Change | Heard::Nothing => {}
                Heard::Anew => return,
            },
            () = link.nudge.notified() => {
                soon.get_or_insert_with(|| Box::pin(sleep(span(SOON))));
            }
            () = passed(&mut soon) => (owes, soon) = (true, None),
            () = passed(&mut pause) => pause = None,
            _ = clock.tick() => {
                link.end_overdue().await;
                ticks += 1;
                if ticks % RESCAN == 0 {
                    owes = true;
                    let _ = link.sweep().await;
                    let _ = link.forget().await;
                }
            }
        }
        if owes && pause.is_none() {
            // Before it reads, for what comes meanwhile may be too late for that.
            soon = None;
            // What was not read is still owed: whoever told of it does not tell again.
            owes = !matches!(read(link).await, Ok(true));
            pause = Some(Box::pin(sleep(span(if owes { TICK } else { PAUSE }))));
        }
    }
}
