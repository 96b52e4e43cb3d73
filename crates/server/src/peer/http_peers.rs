//! Calls from the node in this process to other nodes, over the same client as forwarded requests of people.

use std::fmt;

use axum::http::{Method, StatusCode};
use evenkeel::{PeerCall, PeerReply, PeerRpc};
use evenkeel_core::ids::RunId;
use evenkeel_core::input::{Offer, OfferAnswer, ProbeReply};
use tokio::runtime::Handle;

use super::PeerHttpClient;
use super::messages::{OfferReply, RunOffers};

/// The maximum number of runs offered in one request, so that its body stays well below the size limit.
const OFFERS_MAX: usize = 2_000;

/// The client and its runtime: the node's own thread must not block.
pub(crate) struct HttpPeers {
    line: PeerHttpClient,
    runtime: Handle,
}

impl HttpPeers {
    /// Uses the runtime that calls this.
    pub(crate) fn new(line: PeerHttpClient) -> Self {
        Self { line, runtime: Handle::current() }
    }
}

impl fmt::Debug for HttpPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reach")
    }
}

impl PeerRpc for HttpPeers {
    fn probe(&self, call: PeerCall) -> PeerReply<Option<ProbeReply>> {
        let line = self.line.clone();
        let asked = self.runtime.spawn(async move { send_probe(&line, &call).await });
        Box::pin(async move { asked.await.ok().flatten() })
    }

    fn offer(&self, call: PeerCall, runs: Vec<Offer>) -> PeerReply<OfferAnswer> {
        let line = self.line.clone();
        let asked = self.runtime.spawn(async move { send_offers(&line, &call, &runs).await });
        Box::pin(async move {
            let busy = asked.await.ok().flatten();
            busy.map_or(OfferAnswer::Unreachable, |busy| OfferAnswer::Taken { busy })
        })
    }
}

async fn send_probe(line: &PeerHttpClient, call: &PeerCall) -> Option<ProbeReply> {
    send_call(line, call, Method::GET, "/peer/v1/role", Vec::new()).await
}

/// The runs for which there is no slot; `None` if it is unknown whether all of them were received.
async fn send_offers(line: &PeerHttpClient, call: &PeerCall, runs: &[Offer]) -> Option<Vec<RunId>> {
    let mut busy = Vec::new();
    for runs in runs.chunks(OFFERS_MAX) {
        let body = serde_json::to_vec(&RunOffers { runs: runs.to_vec() }).ok()?;
        let heard: OfferReply = send_call(line, call, Method::POST, "/peer/v1/offers", body).await?;
        busy.extend(heard.busy);
    }
    Some(busy)
}

async fn send_call<T: serde::de::DeserializeOwned>(
    line: &PeerHttpClient,
    call: &PeerCall,
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
