//! The side that asks: one signed request, one signed answer, over connections that are kept for the next.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use evenkeel::Call;
use evenkeel_core::words::Member;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::BODY_BYTES_MAX;
use super::envelope::Envelope;
use crate::key::Key;

/// A connection that is silent so long is given up, before the other side does.
const IDLE: Duration = Duration::from_secs(20);
/// So many silent connections to one node are kept.
const IDLE_MAX: usize = 4;

/// Asks other nodes. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Line {
    http: Client<HttpConnector, Body>,
    key: Option<Arc<Key>>,
}

/// An answer by the very member that was asked.
#[derive(Debug)]
pub(crate) struct Heard {
    /// How it went.
    pub(crate) status: StatusCode,
    /// What it said.
    pub(crate) body: Bytes,
}

/// Why there is no such answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// Nobody answers, or not in time.
    Silent(String),
    /// Whoever answers does not show that he has the key.
    Stranger(String),
    /// Another life, or another node, answers at that address.
    Another(Member),
}

impl std::fmt::Display for Unheard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(why) | Self::Stranger(why) => f.write_str(why),
            Self::Another(member) => write!(f, "{member} answers there"),
        }
    }
}

impl Line {
    /// A line that signs with this key.
    pub(crate) fn new(key: Option<Arc<Key>>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        Self { http, key }
    }

    /// Asks once.
    ///
    /// # Errors
    /// There is no answer by that member within `patience`.
    pub(crate) async fn ask(
        &self,
        call: &Call,
        method: Method,
        path: &str,
        body: Vec<u8>,
        patience: Duration,
    ) -> Result<Heard, Unheard> {
        let late = |_| Unheard::Silent(format!("no answer within {patience:?}"));
        tokio::time::timeout(patience, self.asked(call, method, path, body)).await.map_err(late)?
    }

    async fn asked(&self, call: &Call, method: Method, path: &str, body: Vec<u8>) -> Result<Heard, Unheard> {
        let silent = |why: String| Unheard::Silent(why);
        let envelope = Envelope::new(call.from.clone(), call.to.clone(), &body);
        let envelope = envelope.map_err(|failure| silent(failure.message))?;
        let uri = format!("http://{}{path}", call.address);
        let request = Request::builder().method(&method).uri(uri).body(Body::from(body));
        let mut request = request.map_err(|e| silent(format!("its address is {:?}: {e}", call.address)))?;
        *request.headers_mut() = envelope.write(self.key.as_deref(), &method, path);
        if method == Method::POST {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = self.http.request(request).await.map_err(|e| silent(causes(&e)))?;
        let (parts, body) = answer.into_parts();
        let body = to_bytes(Body::new(body), BODY_BYTES_MAX).await.map_err(|e| silent(causes(&e)))?;
        let status = parts.status;
        let by = envelope.answered_by(self.key.as_deref(), &parts.headers, status.as_u16(), &body);
        match by {
            Ok(member) if member == call.to => Ok(Heard { status, body }),
            Ok(member) => Err(Unheard::Another(member)),
            Err(why) => Err(Unheard::Stranger(why)),
        }
    }
}

/// An error and what caused it, in a row.
fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
