//! The outgoing heartbeat: a request by which a node says to a monitor outside of the cluster that it works.

use std::fmt;
use std::time::Duration;

use super::exchange;

/// The most time for one heartbeat.
const TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// Where heartbeats are sent, and how often. The address may be a secret itself.
#[derive(Clone, PartialEq, Eq)]
pub struct OutgoingHeartbeat {
    url: String,
    every: Duration,
}

impl OutgoingHeartbeat {
    /// Heartbeats to this address, with so much time between two of them.
    ///
    /// # Errors
    /// The address is invalid; the text says the fix, and does not repeat the address.
    pub fn new(url: String, every: Duration) -> Result<Self, String> {
        exchange::check("url", &url)?;
        Ok(Self { url, every })
    }

    /// The time between two heartbeats.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.every
    }

    /// The host and port of the address, for logs.
    #[must_use]
    pub fn host(&self) -> String {
        exchange::host(&self.url)
    }

    /// Sends one heartbeat, a GET request, and waits for the answer, at most ten seconds. It blocks the thread.
    ///
    /// # Errors
    /// There is no answer, or one other than 2xx; the text does not have the address.
    pub fn send(&self) -> Result<(), String> {
        match exchange::get(&self.url, TIMEOUT_MAX)? {
            200..=299 => Ok(()),
            status => Err(format!("it answers with status {status}")),
        }
    }
}

/// Without the address's path.
impl fmt::Debug for OutgoingHeartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OutgoingHeartbeat");
        shown.field("host", &self.host()).field("every", &self.every).finish()
    }
}
