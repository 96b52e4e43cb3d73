//! Calls between nodes over HTTP, signed with the cluster's key, so that nothing else is needed.
//!
//! - [`envelope`]: the headers of a request and its response, and the signed text.
//! - [`replay`]: refuses requests that were accepted before.
//! - [`gate`]: authenticates requests. [`routes`]: answers them.
//! - [`caller`]: sends requests. [`http_peers`]: the calls that the node itself makes.

mod caller;
mod envelope;
#[cfg(test)]
mod fixtures;
mod gate;
mod http_peers;
mod messages;
mod replay;
mod routes;

use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::time::Millis;

pub(crate) use caller::{PeerCallError, PeerHttpClient, PeerResponse};
pub(crate) use http_peers::HttpPeers;
pub(crate) use messages::{HistoryHealth, LogPieceQuery, PeerHistoryPage, PeerRunQuery};
use replay::ReplayWindow;
pub(crate) use routes::router;

/// The maximum difference between a request's time and the clock here: clock skew and transit.
pub(crate) const WINDOW: Millis = Millis::secs(30);
/// The maximum number of remembered requests of one window; further ones are refused.
const SEEN_MAX: usize = 65_536;
/// The size limit of a body of a request or response.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The time limit for a body to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(5);
/// The time limit for the response to a person's request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The time that a node waits for new output before it reports that there is none.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(5);

/// The state of the server side.
pub(crate) struct PeerServer {
    seen: Mutex<ReplayWindow>,
}

impl PeerServer {
    /// A state without any request.
    pub(crate) fn new() -> Self {
        Self { seen: Mutex::new(ReplayWindow::new(WINDOW, SEEN_MAX)) }
    }
}
