//! Calls between nodes over HTTPS: each side proves by its certificate which life of which node it is.
//!
//! - [`gate`]: authenticates requests. [`routes`]: answers them.
//! - [`connector`]: makes connections. [`caller`]: sends requests. [`http_peers`]: the calls that the node itself makes.

mod caller;
mod connector;
mod facts;
#[cfg(test)]
mod fixtures;
mod gate;
mod http_peers;
mod messages;
mod records;
mod routes;

use std::time::Duration;

use axum::http::HeaderName;

pub(crate) use caller::{PeerCallError, PeerHttpClient, PeerResponse};
pub(crate) use facts::{
    AttentionFacts, AttentionQuery, FailingFact, LongRunFact, MissedFact, OutcomeFact, OutcomeFacts,
    OutcomeQuery, SuccessFact, SuccessFacts, SuccessQuery,
};
pub(crate) use http_peers::HttpPeers;
pub(crate) use messages::{
    HistoryHealth, LogPieceQuery, LogTailQuery, LogTailReply, PeerHistoryPage, PeerRunQuery, PeerSummaryQuery,
};
pub(crate) use records::{FireRecord, RecordsPart, RecordsQuery, RecordsReply};
pub(crate) use routes::router;

/// The header of a request with the member that is called, and of a response with the member that answers.
const TO: HeaderName = HeaderName::from_static("evenkeel-to");
const FROM: HeaderName = HeaderName::from_static("evenkeel-from");
/// The size limit of a body of a request or response.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The time limit for a body to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(5);
/// The time limit for the response to a person's request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The time that a node waits for new output before it reports that there is none.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(5);

/// An error and its causes, as a list.
fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
