//! The client side of peer calls: one signed request, one signed response, over pooled connections.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use evenkeel::PeerCall;
use evenkeel_core::ids::Member;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::BODY_BYTES_MAX;
use super::envelope::RequestEnvelope;
use crate::key::ClusterKey;

/// An idle connection is closed after this time, before the other side does.
const IDLE: Duration = Duration::from_secs(20);
/// The maximum number of idle connections to one node.
const IDLE_MAX: usize = 4;

/// Calls other nodes. Clones share their connections.
#[derive(Clone)]
pub(crate) struct PeerHttpClient {
    http: Client<HttpConnector, Body>,
    key: Option<Arc<ClusterKey>>,
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
    /// The response is not signed with the key.
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
    /// A client that signs with this key.
    pub(crate) fn new(key: Option<Arc<ClusterKey>>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        Self { http, key }
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
        let envelope = RequestEnvelope::new(call.from.clone(), call.to.clone(), &body);
        let envelope = envelope.map_err(|failure| PeerCallError::Unreached(failure.message))?;
        let uri = format!("http://{}{path}", call.address);
        let request = Request::builder().method(&method).uri(uri).body(Body::from(body));
        let mut request = request
            .map_err(|e| PeerCallError::Unreached(format!("its address is {:?}: {e}", call.address)))?;
        *request.headers_mut() = envelope.write(self.key.as_deref(), &method, path);
        if method == Method::POST {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = self.http.request(request).await.map_err(|e| match e.is_connect() {
            true => PeerCallError::Unreached(causes(&e)),
            false => silent(causes(&e)),
        })?;
        let (parts, body) = answer.into_parts();
        let body = to_bytes(Body::new(body), BODY_BYTES_MAX).await.map_err(|e| silent(causes(&e)))?;
        let status = parts.status;
        let by = envelope.answered_by(self.key.as_deref(), &parts.headers, status.as_u16(), &body);
        match by {
            Ok(member) if member == call.to => Ok(PeerResponse { status, body }),
            Ok(member) => Err(PeerCallError::Another(member)),
            Err(why) => Err(PeerCallError::Stranger(why)),
        }
    }
}

/// An error and its causes, as a list.
fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Answers every request alike; returns its number of connections and its address.
    fn canned_server(answer: &'static str) -> (Arc<AtomicUsize>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let taken = Arc::new(AtomicUsize::new(0));
        let count = taken.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    let (mut asked, mut byte) = (Vec::new(), [0]);
                    while stream.read(&mut byte).is_ok_and(|n| n > 0) {
                        asked.extend_from_slice(&byte);
                        if asked.ends_with(b"\r\n\r\n") && stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        (taken, address)
    }

    fn call(to: &str, address: &str) -> PeerCall {
        let member = |text: &str| text.parse().expect("a member");
        PeerCall {
            from: member("a@1"),
            to: member(to),
            address: address.to_owned(),
            patience: Duration::from_secs(120),
        }
    }

    async fn ask_role(line: &PeerHttpClient, call: &PeerCall) -> Result<PeerResponse, PeerCallError> {
        line.ask(call, Method::GET, "/peer/v1/role", Vec::new()).await
    }

    #[tokio::test]
    async fn one_connection_serves_many_requests_to_one_life() {
        let (taken, address) =
            canned_server("HTTP/1.1 200 OK\r\nevenkeel-from: b@2\r\ncontent-length: 2\r\n\r\n{}");
        let line = PeerHttpClient::new(None);
        for _ in 0..3 {
            let heard = ask_role(&line, &call("b@2", &address)).await.expect("it answers");
            assert_eq!((heard.status, &heard.body[..]), (StatusCode::OK, &b"{}"[..]));
        }
        let other = ask_role(&line.clone(), &call("b@3", &address)).await.map(|heard| heard.status);
        assert_eq!(other, Err(PeerCallError::Another("b@2".parse().expect("a member"))));
        assert_eq!(taken.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn whoever_does_not_show_the_key_is_a_stranger() {
        let key = Arc::new(ClusterKey::new("0123456789abcdef".to_owned()));
        for answer in [
            "HTTP/1.1 200 OK\r\nevenkeel-from: b@2\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nevenkeel-from: b@2\r\nevenkeel-signature: 00\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
        ] {
            let (_, address) = canned_server(answer);
            let heard = ask_role(&PeerHttpClient::new(Some(key.clone())), &call("b@2", &address)).await;
            assert!(matches!(heard, Err(PeerCallError::Stranger(_))), "{answer}: {heard:?}");
        }
    }

    #[tokio::test]
    async fn silence_ends_with_patience() {
        let (taken, address) = canned_server("");
        // If the machine stalls, the time can run out before the request is sent; the next limit is longer.
        for (millis, said) in [(300, "300ms"), (3_000, "3s"), (30_000, "30s")] {
            let silent = PeerCall { patience: Duration::from_millis(millis), ..call("b@2", &address) };
            let heard = ask_role(&PeerHttpClient::new(None), &silent).await.map(|heard| heard.status);
            assert_eq!(heard, Err(PeerCallError::Silent(format!("no answer within {said}"))));
            if taken.load(Ordering::SeqCst) > 0 {
                break;
            }
        }
        assert!(taken.load(Ordering::SeqCst) > 0, "it was asked");
        // No program listens on the first port.
        let gone = ask_role(&PeerHttpClient::new(None), &call("b@2", "127.0.0.1:1")).await;
        assert!(matches!(&gone, Err(PeerCallError::Unreached(why)) if why.contains("refused")), "{gone:?}");
        let odd = ask_role(&PeerHttpClient::new(None), &call("b@2", "no address")).await;
        assert!(matches!(odd, Err(PeerCallError::Unreached(_))), "{odd:?}");
    }
}
