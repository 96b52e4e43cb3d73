//! Waits for a node that was just opened: it becomes a member, or its name is taken.

use std::time::Duration;

use evenkeel_core::effect::Event;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::OpenError;

/// Waits until the node is a member; returns why it cannot become one while the holder of its name lives. It waits for the
/// name one and a half terms, or `wait` if that is longer.
pub(super) async fn refusal(
    joined: &mut watch::Receiver<Option<Event>>,
    ttl: Duration,
    wait: Duration,
) -> Option<OpenError> {
    // An unreachable registry is no reason to give up: the node joins when the registry is back.
    let taken = match timeout(ttl, joined.wait_for(Option::is_some)).await.map(Result::ok) {
        Ok(Some(event)) => match &*event {
            Some(Event::NameTaken(name)) => Some(name.to_string()),
            _ => None,
        },
        _ => None,
    };
    let name = taken?;
    // The node waits. An earlier life whose data folder is gone has the name until its lease ends, and some engines
    // advance leases only while a node is connected, so a node that gave up at once would never get the name.
    let freed = joined.wait_for(|event| !matches!(event, Some(Event::NameTaken(_))));
    let term = (ttl + ttl / 2).max(wait);
    match timeout(term, freed).await {
        Ok(_) => None,
        Err(_) => Some(OpenError::NameTaken { name, term }),
    }
}
