//! A fake etcd that answers as a test says, for behaviour that a real one does not show on demand.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use evenkeel_core::registry::{DurabilityClass, EngineFacts, FeedKind, Revision};
use evenkeel_core::time::Millis;
use h2::server::{self, SendResponse};
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use prost::bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::client::EtcdClient;
use super::keyspace::EtcdKeyspace;
use super::{BYTES_MAX, EtcdShared, VALUE_MAX};
use crate::EngineUrl;

/// The revision at which its generation was written.
pub(super) const SINCE: Revision = Revision(2);

/// An encoded message.
pub(super) fn bytes(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let length = u32::try_from(body.len()).expect("a small message").to_be_bytes();
    [&[0], &length[..], &body].concat()
}

/// An answer that says that the token is invalid.
pub(super) const NO_TOKEN: &[u8] = b"no token";

/// Starts a server that answers each call to a path with these messages, and connects to it. A watch never ends.
pub(super) async fn start(
    login: &str,
    answer: impl Fn(&str) -> Vec<Vec<u8>> + Send + Sync + 'static,
) -> Arc<EtcdShared> {
    start_at(|at| format!("etcd://{login}{at}/test"), answer).await
}

/// Starts it likewise, with this URL.
pub(super) async fn start_at(
    url: impl Fn(SocketAddr) -> String,
    answer: impl Fn(&str) -> Vec<Vec<u8>> + Send + Sync + 'static,
) -> Arc<EtcdShared> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address");
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, answer.clone()));
        }
    });
    let url = EngineUrl::parse(&url(at)).expect("a URL");
    let facts = EngineFacts {
        engine: "etcd",
        class: DurabilityClass::A,
        feed: FeedKind::Pushed,
        notice: Millis::ZERO,
        early: Millis::ZERO,
        ttl_min: Millis::secs(1),
        value_max: VALUE_MAX,
        operations_max: 128,
        bytes_max: BYTES_MAX,
        generation: 0,
    };
    let tree = EtcdKeyspace::new("test");
    let wire = EtcdClient::new(&url, &tree).expect("a way");
    super::raise_generation_on_loss(url, "test".into(), &wire, 0);
    Arc::new(EtcdShared {
        facts,
        version: "3.4.0".into(),
        keyspace: tree,
        since: SINCE,
        client: wire,
        permits: Semaphore::new(1),
        last_error: Mutex::new(None),
        announced: watch::Sender::new(Revision(0)),
        progress_written: tokio::sync::Mutex::new(Revision(0)),
    })
}

async fn serve(connection: TcpStream, answer: Arc<impl Fn(&str) -> Vec<Vec<u8>>>) {
    let Ok(mut connection) = server::handshake(connection).await else { return };
    let mut open = Vec::new();
    while let Some(Ok((request, mut reply))) = connection.accept().await {
        let path = request.uri().path();
        open.extend(send(&mut reply, answer(path), path.ends_with("/Watch")));
    }
}

/// Returns the sender that must be kept for the call to stay open.
fn send(
    reply: &mut SendResponse<Bytes>,
    messages: Vec<Vec<u8>>,
    goes_on: bool,
) -> Option<h2::SendStream<Bytes>> {
    let head = Response::builder().header("content-type", "application/grpc");
    if messages == [NO_TOKEN] {
        let refusal =
            head.header("grpc-status", "16").header("grpc-message", "etcdserver: invalid auth token");
        reply.send_response(refusal.body(()).expect("a head"), true).ok()?;
        return None;
    }
    let mut body = reply.send_response(head.body(()).expect("a head"), false).ok()?;
    for message in messages {
        body.send_data(message.into(), false).ok()?;
    }
    if goes_on {
        return Some(body);
    }
    let good = HeaderMap::from_iter([("grpc-status".parse().ok()?, HeaderValue::from_static("0"))]);
    body.send_trailers(good).ok()?;
    None
}
