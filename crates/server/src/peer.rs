//! Nodes among themselves: who asks, whom, when, and signed with the cluster's key, so that nothing else is needed.
//!
//! - [`envelope`]: what a request and its answer say beside their body, and what of it is signed.
//! - [`seen`]: which requests were let in already.
//! - [`gate`]: the side that is asked. [`routes`]: what it answers.
//! - [`line`]: the side that asks. [`reach`]: what the node asks by itself.

mod caller;
mod envelope;
#[cfg(test)]
mod fixtures;
mod gate;
mod http_peers;
mod replay;
mod routes;

use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::time::Millis;

pub(crate) use caller::{PeerCallError, PeerHttpClient, PeerResponse};
pub(crate) use http_peers::HttpPeers;
use replay::ReplayWindow;
pub(crate) use routes::{HistoryHealth, LogPieceQuery, PeerHistoryPage, PeerRunQuery, router};

/// So far may a request's time lie from the time here: what two clocks differ and the way takes.
pub(crate) const WINDOW: Millis = Millis::secs(30);
/// So many requests of one window are remembered; what comes beyond them is refused.
const SEEN_MAX: usize = 65_536;
/// The largest body of a request, and of an answer.
const BODY_BYTES_MAX: usize = 1 << 20;
/// A body must have arrived after this long.
const BODY_PATIENCE: Duration = Duration::from_secs(5);
/// So long may the answer take to what a person asks.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// So long a node waits for new output before it says that there is none.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(5);

/// What the side that is asked keeps in mind.
pub(crate) struct PeerServer {
    seen: Mutex<ReplayWindow>,
}

impl PeerServer {
    /// One that has heard nothing yet.
    pub(crate) fn new() -> Self {
        Self { seen: Mutex::new(ReplayWindow::new(WINDOW, SEEN_MAX)) }
    }
}
