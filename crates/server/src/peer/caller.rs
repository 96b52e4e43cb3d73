//! The client side of peer calls, over pooled connections that both sides have proved themselves on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use evenkeel::PeerCall;
use evenkeel_core::ids::{Member, NodeName};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connector::{ConnectError, PeerConnector, stranger, tls_error};
use super::{BODY_BYTES_MAX, FROM, TO, causes};
use crate::tls::{NodeLife, NodeTls};

/// An idle connection is closed after this time, before the other side does.
const IDLE: Duration = Duration::from_secs(20);
/// The maximum number of idle connections to one node.
const IDLE_MAX: usize = 4;

/// Calls other nodes. Clones share their connections.
#[derive(Clone)]
pub(crate) struct PeerHttpClient {
    tls: Arc<NodeTls>,
    /// One for each node, to its latest life that was called.
    lines: Arc<Mutex<BTreeMap<NodeName, PeerLine>>>,
}

/// The connections from one life of this node to one life of another.
struct PeerLine {
    from: Member,
    to: Member,
    /// How often the cluster's identity had changed when it was made.
    changes: u64,
    http: Client<PeerConnector, Body>,
}

/// A response of the very member that was called.
#[derive(Debug)]
pub(crate) struct PeerResponse {
    /// The status.
    pub(crate) status: StatusCode,
    /// The body.
    pub(crate) body: Bytes,
}

/// Why there is no such response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerCallError {
    /// There was no connection, so nothing was sent.
    Unreached(String),
    /// The request was sent, and no response came, or not in time.
    Silent(String),
    /// What answers is no node of this cluster, or takes this one for none.
    Stranger(String),
    /// Another incarnation, or another node, answered at that address.
    Another(Member),
}

impl std::fmt::Display for PeerCallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreached(why) | Self::Silent(why) | Self::Stranger(why) => f.write_str(why),
            Self::Another(member) => write!(f, "{member} answers there"),
        }
    }
}

impl PeerHttpClient {
    /// A client that proves itself with the certificates of this node.
    pub(crate) fn new(tls: Arc<NodeTls>) -> Self {
        Self { tls, lines: Arc::default() }
    }

    /// Sends one request.
    ///
    /// # Errors
    /// There is no response of that member within the call's time limit.
    pub(crate) async fn ask(
        &self,
        call: &PeerCall,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<PeerResponse, PeerCallError> {
        let late = |_| PeerCallError::Silent(format!("no answer within {:?}", call.patience));
        tokio::time::timeout(call.patience, self.send(call, method, path, body)).await.map_err(late)?
    }

    async fn send(
        &self,
        call: &PeerCall,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<PeerResponse, PeerCallError> {
        let silent = |why: String| PeerCallError::Silent(why);
        let uri = format!("https://{}{path}", call.address);
        let request = Request::builder().method(&method).uri(uri).body(Body::from(body));
        let mut request = request
            .map_err(|e| PeerCallError::Unreached(format!("its address is {:?}: {e}", call.address)))?;
        if let Ok(to) = HeaderValue::try_from(call.to.to_string()) {
            request.headers_mut().insert(TO, to);
        }
        if method == Method::POST {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        self.tls.is_followed().await;
        let http = self.line(&call.from, &call.to).map_err(PeerCallError::Unreached)?;
        let answer = http.request(request).await.map_err(|e| failed(&e, e.is_connect()))?;
        let (parts, body) = answer.into_parts();
        let body = to_bytes(Body::new(body), BODY_BYTES_MAX).await.map_err(|e| silent(causes(&e)))?;
        // The process that was called may have begun another life since the connection was made.
        match member_of(&parts.headers) {
            Some(member) if member != call.to => Err(PeerCallError::Another(member)),
            _ => Ok(PeerResponse { status: parts.status, body }),
        }
    }

    /// The connections to a life of a node; those to an earlier one are given up.
    fn line(&self, from: &Member, to: &Member) -> Result<Client<PeerConnector, Body>, String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.tls.changes();
        let fits = |line: &&PeerLine| line.from == *from && line.to == *to && line.changes == changes;
        if let Some(line) = lines.get(&to.node).filter(fits) {
            return Ok(line.http.clone());
        }
        let (config, cluster) = self.tls.client(from)?;
        let connector = PeerConnector::new(config, NodeLife { cluster, member: to.clone() });
        let http: Client<_, Body> = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        let line = PeerLine { from: from.clone(), to: to.clone(), changes, http: http.clone() };
        lines.insert(to.node.clone(), line);
        Ok(http)
    }
}

/// The member that a response names.
fn member_of(headers: &HeaderMap) -> Option<Member> {
    headers.get(FROM)?.to_str().ok()?.parse().ok()
}

/// Why a request has no response.
fn failed(error: &(dyn std::error::Error + 'static), connecting: bool) -> PeerCallError {
    for cause in std::iter::successors(Some(error), |error| error.source()) {
        match cause.downcast_ref::<ConnectError>() {
            Some(ConnectError::Another(member)) => return PeerCallError::Another(member.clone()),
            Some(ConnectError::Stranger(why)) => return PeerCallError::Stranger(why.clone()),
            Some(ConnectError::Unreached(why)) => return PeerCallError::Unreached(why.clone()),
            None => {}
        }
        // The other side has refused this node's certificate, and so the request.
        let refused = cause.downcast_ref().and_then(tls_error);
        if let Some(why @ rustls::Error::AlertReceived(_)) = refused {
            return PeerCallError::Stranger(stranger(why));
        }
    }
    match connecting {
        true => PeerCallError::Unreached(causes(error)),
        false => PeerCallError::Silent(causes(error)),
    }
}

#[cfg(test)]
mod tests;
