//! Forwards requests about a run to the node that executed it: signed, and never forwarded again.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use evenkeel::PeerCall;
use evenkeel::audit::Requester;
use evenkeel_core::ids::{NodeName, RunId};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::error::{PROBLEM, message_of};
use super::{ApiError, App};
use crate::client::{OUTCOME_UNKNOWN, escape};
use crate::peer::{LogPieceQuery, LogTailQuery, LogTailReply, PATIENCE, PeerCallError, PeerResponse};
use crate::queries;

/// Another node.
#[derive(Clone)]
pub(super) struct RemoteNode {
    app: App,
    call: PeerCall,
}

/// The online node of this name (`name` or `name@incarnation`), unless it is this one.
///
/// # Errors
/// This node is no member, so it can call no node.
pub(super) fn other(app: &App, node: &str) -> Result<Option<RemoteNode>, ApiError> {
    let name: Option<NodeName> = node.split('@').next().and_then(|name| name.parse().ok());
    let name = name.filter(|name| name != app.handle.name());
    let Some((to, address)) = name.and_then(|name| queries::living(&app.handle, &name)) else {
        return Ok(None);
    };
    let from = app.handle.with_node(evenkeel_core::node::Node::member);
    let from =
        from.ok_or_else(|| ApiError::unavailable("this node is no member just now: ask another one"))?;
    Ok(Some(RemoteNode { app: app.clone(), call: PeerCall { from, to, address, patience: PATIENCE } }))
}

impl RemoteNode {
    /// Kills a run on that node, in the requester's name.
    pub(super) async fn kill(&self, run: &RunId, asker: &Requester) -> Result<Response, ApiError> {
        let path = format!("/peer/v1/runs/{}/kill", escape(&run.to_string()));
        let body = serde_json::to_vec(asker).unwrap_or_default();
        self.change(Method::POST, &path, body).await.map(relayed_response)
    }

    /// Deletes that node's output of the run; returns the number of attempts that had any.
    pub(super) async fn forget(&self, run: &RunId) -> Result<usize, ApiError> {
        let path = format!("/peer/v1/runs/{}/logs", escape(&run.to_string()));
        let heard = self.change(Method::DELETE, &path, Vec::new()).await?;
        let said: serde_json::Value = serde_json::from_slice(&heard.body).unwrap_or_default();
        if heard.status.is_success() {
            // A node of an earlier version does not report the number.
            return Ok(said["removed"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(1));
        }
        let why = message_of(&heard.body).unwrap_or_else(|| "refused".to_owned());
        let why = format!("{}: {why}", self.named());
        Err(if heard.status == StatusCode::CONFLICT {
            ApiError::conflict(why)
        } else {
            ApiError::unavailable(why)
        })
    }

    /// Streams its output of that attempt. A refusal comes before the first piece, and not as a broken body.
    pub(super) async fn logs(self, run: &RunId, mut wanted: LogPieceQuery) -> Result<Body, ApiError> {
        let run = escape(&run.to_string());
        let mut next = self.piece(&run, wanted).await?;
        let (send, receive) = mpsc::channel::<Result<Bytes, std::io::Error>>(4);
        tokio::spawn(async move {
            while let Some(data) = next {
                wanted.offset += data.len() as u64;
                let sent = data.is_empty() || send.send(Ok(data)).await.is_ok();
                if !sent || send.is_closed() || *self.app.ending.borrow() {
                    return;
                }
                next = match self.piece(&run, wanted).await {
                    Ok(next) => next,
                    Err(error) => return drop(send.send(Err(std::io::Error::other(error.message()))).await),
                };
            }
        });
        Ok(Body::from_stream(ReceiverStream::new(receive)))
    }

    /// A piece of its output of a run, whose name is escaped; `None` if there will be no more.
    pub(super) async fn piece(&self, run: &str, wanted: LogPieceQuery) -> Result<Option<Bytes>, ApiError> {
        let LogPieceQuery { attempt, offset, follow } = wanted;
        let path = format!("/peer/v1/runs/{run}/logs?attempt={attempt}&offset={offset}&follow={follow}");
        let heard = self.ask(Method::GET, &path).await?;
        match heard.status {
            StatusCode::OK => Ok(Some(heard.body)),
            StatusCode::NO_CONTENT => Ok(None),
            status => Err(ApiError::unavailable(format!("{} says {status}", self.named()))),
        }
    }

    /// Where the last lines begin of its output of a run.
    pub(super) async fn tail(&self, run: &RunId, wanted: LogTailQuery) -> Result<u64, ApiError> {
        let (run, LogTailQuery { attempt, lines }) = (escape(&run.to_string()), wanted);
        let path = format!("/peer/v1/runs/{run}/logs/tail?attempt={attempt}&lines={lines}");
        let reply = self.ask(Method::GET, &path).await?;
        let why = match reply.status {
            StatusCode::OK => match serde_json::from_slice::<LogTailReply>(&reply.body) {
                Ok(reply) => return Ok(reply.offset),
                Err(error) => format!("answers {error}"),
            },
            StatusCode::NOT_FOUND => {
                "is of an earlier version and cannot find the last lines: leave out tail".to_owned()
            }
            status => format!("says {status}"),
        };
        Err(ApiError::unavailable(format!("{} {why}", self.named())))
    }

    /// The same node, with a shorter time limit.
    pub(super) fn within(mut self, patience: Duration) -> Self {
        self.call.patience = patience;
        self
    }

    /// Sends it a query whose parameters are in the body.
    pub(super) async fn post(&self, path: &str, body: Vec<u8>) -> Result<PeerResponse, ApiError> {
        self.request_body(Method::POST, path, body).await
    }

    fn no_answer(&self, why: &PeerCallError) -> ApiError {
        ApiError::unavailable(format!("{} does not answer at {}: {why}", self.named(), self.call.address))
    }

    async fn ask(&self, method: Method, path: &str) -> Result<PeerResponse, ApiError> {
        self.request_body(method, path, Vec::new()).await
    }

    async fn request_body(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<PeerResponse, ApiError> {
        let heard = self.app.line.ask(&self.call, method, path, body).await;
        self.let_in(heard.map_err(|why| self.no_answer(&why))?)
    }

    /// Sends it a change, which it may have made even if its response is lost.
    async fn change(&self, method: Method, path: &str, body: Vec<u8>) -> Result<PeerResponse, ApiError> {
        let heard = self.app.line.ask(&self.call, method, path, body).await;
        let heard = heard.map_err(|why| match why {
            PeerCallError::Silent(_) => {
                let (named, address) = (self.named(), &self.call.address);
                ApiError::unknown(format!("{named} at {address} has not answered ({why}): {OUTCOME_UNKNOWN}"))
            }
            why => self.no_answer(&why),
        })?;
        self.let_in(heard)
    }

    fn let_in(&self, heard: PeerResponse) -> Result<PeerResponse, ApiError> {
        // A failed authentication between nodes is not the caller's fault.
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&heard.status) {
            let why = String::from_utf8_lossy(&heard.body);
            return Err(ApiError::unavailable(format!("{} refuses this node: {why}", self.named())));
        }
        Ok(heard)
    }

    fn named(&self) -> String {
        format!("node {}", self.call.to.node)
    }
}

/// The response of the other node, passed on.
fn relayed_response(heard: PeerResponse) -> Response {
    let kind = if heard.status.is_success() { "application/json" } else { PROBLEM };
    (heard.status, [(header::CONTENT_TYPE, kind)], heard.body).into_response()
}
