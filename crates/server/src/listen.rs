//! Connections: how many there may be, and how long one may take to say what it wants and to hear the answer.

mod connections;
mod head;
mod stream;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::{Request, service};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::Service as _;

use connections::{ConnectionLimits, ConnectionSlot, ConnectionTable};
pub(crate) use head::HeadError;
use head::HeadParser;
use stream::ConnectionStream;

/// How many connections there may be, where this process may open as many files.
const CONNECTIONS_MAX: usize = 1024;
/// Of the files that this process may open no more than one in so many is a connection.
const FILES_PER_CONNECTION: usize = 2;
/// One address may have one in so many of the connections.
const SHARES: usize = 4;
/// Beyond these there may be so many for other nodes and `health`.
const RESERVE: usize = 32;
/// A caller that has not sent its headers by then, or is silent so long between requests, is cut off.
const HEADERS_PATIENCE: Duration = Duration::from_secs(30);
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// When no connection can be taken, for want of file handles, it is tried again after this.
const BREATH: Duration = Duration::from_millis(100);

/// Where a request comes from; every request carries it along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) SocketAddr);

/// An open connection; every request carries it along.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    slot: ConnectionSlot,
    heads: Mutex<HeadParser>,
    of_node: AtomicBool,
}

impl OpenConnection {
    fn new(place: ConnectionSlot) -> Self {
        Self { slot: place, heads: Mutex::default(), of_node: AtomicBool::new(false) }
    }

    /// Whether only nodes and `health` are answered on it, since all others are taken.
    pub(crate) fn is_spare(&self) -> bool {
        self.slot.spare
    }

    /// What is wrong with what came on it.
    pub(crate) fn fault(&self) -> Option<HeadError> {
        self.heads().fault()
    }

    /// A node of the cluster has shown who it is on it.
    pub(crate) fn is_of_node(&self) {
        self.of_node.store(true, Ordering::Relaxed);
    }

    fn heads(&self) -> MutexGuard<'_, HeadParser> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, bytes: &[u8]) {
        self.heads().see(bytes);
    }

    fn is_between(&self) -> bool {
        self.heads().is_between()
    }

    fn is_busy(&self) -> bool {
        self.slot.is_busy()
    }
}

/// A request under way; its end is noted when it is dropped.
struct RequestGuard(Arc<OpenConnection>);

impl RequestGuard {
    fn new(open: Arc<OpenConnection>) -> Self {
        open.slot.begins();
        Self(open)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.slot.ends(self.0.of_node.load(Ordering::Relaxed));
    }
}

/// The body of an answer, which is under way as long as there is more of it.
struct ResponseBody {
    body: Body,
    _under_way: RequestGuard,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Serves until the process ends, then lets answers under way end.
pub(crate) async fn serve(listener: Arc<TcpListener>, router: Router, mut ending: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    let table = Arc::new(ConnectionTable::new(bounds(getrlimit(Resource::Nofile).current)));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADERS_PATIENCE)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        let (stream, caller) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::warn!("no connection can be taken: {e}");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        // Where all have requests under way, one more is not taken.
        let Some(place) = table.admit(caller.ip()) else { continue };
        tokio::spawn(connection((&http, &graceful), stream, (caller, place), router.clone()));
    }
    drop(listener);
    graceful.shutdown().await;
}

/// How many connections there may be where the process may open so many files.
fn bounds(files: Option<u64>) -> ConnectionLimits {
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    let most = (files / FILES_PER_CONNECTION).clamp(SHARES, CONNECTIONS_MAX);
    ConnectionLimits { total: most, per_address: most / SHARES, reserve: RESERVE }
}

/// Answers on a connection until it ends, or is to be closed for another one.
fn connection(
    (http, graceful): (&http1::Builder, &GracefulShutdown),
    stream: TcpStream,
    (caller, place): (SocketAddr, ConnectionSlot),
    router: Router,
) -> impl Future<Output = ()> + Send + use<> {
    let close = place.close.clone();
    let open = Arc::new(OpenConnection::new(place));
    let wire = ConnectionStream::new(stream, open.clone());
    let answer = service::service_fn(move |mut request: Request<Incoming>| {
        let under_way = RequestGuard::new(open.clone());
        request.extensions_mut().insert(Caller(caller));
        request.extensions_mut().insert(open.clone());
        let last = open.is_spare() || open.heads().is_last();
        let answered = router.clone().call(request.map(Body::new));
        async move {
            // Whoever sends many requests at once waits after each for everybody else.
            tokio::task::yield_now().await;
            let mut response: Response = answered.await?;
            if last {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| Body::new(ResponseBody { body, _under_way: under_way })))
        }
    });
    let connection = graceful.watch(http.serve_connection(TokioIo::new(wire), answer));
    async move {
        tokio::select! {
            // A caller that breaks off is no concern of the node.
            _ = connection => {}
            () = close.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        let of = |files| {
            let ConnectionLimits { total: most, per_address: share, reserve } = bounds(files);
            (most, share, reserve)
        };
        assert_eq!(of(None), (1024, 256, 32));
        assert_eq!(of(Some(1_048_576)), (1024, 256, 32));
        assert_eq!(of(Some(1024)), (512, 128, 32));
        assert_eq!(of(Some(0)), (4, 1, 32));
    }
}
