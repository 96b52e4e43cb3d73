//! How the node in this process reaches others: over the same line as people's requests that are done elsewhere.

use std::fmt;

use axum::http::{Method, StatusCode};
use evenkeel::{Call, Peers, Reply};
use evenkeel_core::input::{Offer, OfferAnswer, Role};
use evenkeel_core::words::RunId;
use tokio::runtime::Handle;

use super::Line;
use super::routes::{Busy, Offers};

/// So many runs are offered in one request, so that its body stays well below what is taken.
const OFFERS_MAX: usize = 2_000;

/// The line, and where its connections live: the node's own thread has other things to do.
pub(crate) struct Reach {
    line: Line,
    runtime: Handle,
}

impl Reach {
    /// Uses the runtime that this is called in.
    pub(crate) fn new(line: Line) -> Self {
        Self { line, runtime: Handle::current() }
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reach")
    }
}

impl Peers for Reach {
    fn probe(&self, call: Call) -> Reply<Option<Role>> {
        let line = self.line.clone();
        let asked = self.runtime.spawn(async move { probed(&line, &call).await });
        Box::pin(async move { asked.await.ok().flatten() })
    }

    fn offer(&self, call: Call, runs: Vec<Offer>) -> Reply<OfferAnswer> {
        let line = self.line.clone();
        let asked = self.runtime.spawn(async move { offered(&line, &call, &runs).await });
        Box::pin(async move {
            let busy = asked.await.ok().flatten();
            busy.map_or(OfferAnswer::Unreachable, |busy| OfferAnswer::Taken { busy })
        })
    }
}

async fn probed(line: &Line, call: &Call) -> Option<Role> {
    answered(line, call, Method::GET, "/peer/v1/role", Vec::new()).await
}

/// The runs for which there is no slot; `None` when it is not known of all of them whether they were heard of.
async fn offered(line: &Line, call: &Call, runs: &[Offer]) -> Option<Vec<RunId>> {
    let mut busy = Vec::new();
    for runs in runs.chunks(OFFERS_MAX) {
        let body = serde_json::to_vec(&Offers { runs: runs.to_vec() }).ok()?;
        let heard: Busy = answered(line, call, Method::POST, "/peer/v1/offers", body).await?;
        busy.extend(heard.busy);
    }
    Some(busy)
}

async fn answered<T: serde::de::DeserializeOwned>(
    line: &Line,
    call: &Call,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Option<T> {
    let why = match line.ask(call, method, path, body).await {
        Ok(heard) if heard.status == StatusCode::OK => match serde_json::from_slice(&heard.body) {
            Ok(answer) => return Some(answer),
            Err(e) => e.to_string(),
        },
        Ok(heard) => format!("status {}: {}", heard.status.as_u16(), String::from_utf8_lossy(&heard.body)),
        Err(why) => why.to_string(),
    };
    tracing::debug!("{path} of {} at {}: {why}", call.to, call.address);
    None
}
