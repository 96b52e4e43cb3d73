//! Accepts connections: limits their number, and the time for a request to arrive and a response to be read.

mod connections;
mod head;
mod local;
mod stream;
mod transport;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use evenkeel_core::time::{Millis, Mono};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::{Request, service};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tower::Service as _;

use crate::tls::NodeLife;
pub(crate) use connections::source;
use connections::{ConnectionLimits, ConnectionShare, ConnectionSlot, ConnectionTable};
pub(crate) use head::HeadError;
use head::HeadParser;
pub(crate) use local::LocalSocket;
use stream::ConnectionStream;
use transport::{CallerStream, Transport};
pub(crate) use transport::{ListenSecurity, TlsMode};

/// The maximum number of connections, if this process may open enough files.
const CONNECTIONS_MAX: usize = 1024;
/// At most one in this many of the process's files is a connection.
const FILES_PER_CONNECTION: usize = 2;
/// One address may have at most one in this many of the connections.
const SHARES: usize = 4;
/// Further connections for other nodes and `health` only.
const RESERVE: usize = 32;
/// The connections on the node's socket, which take none from those of the port.
const SOCKET_LIMITS: ConnectionLimits = ConnectionLimits { total: 64, per_address: 64, reserve: 0 };
/// The time limit for the headers of a request, and for silence between requests.
const HEADERS_PATIENCE: Duration = Duration::from_secs(30);
const HEADERS_MAX: usize = 64;
/// The limit of a head in bytes: nothing more is kept of a request before its caller is known.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// An encrypted connection serves no longer than this, so that each caller's certificate is looked at again.
const TLS_TERM: Millis = Millis::secs(3_600);
/// The pause before the next try if no connection can be accepted, for want of file handles.
const BREATH: Duration = Duration::from_millis(100);

/// The address of the caller; every request on the port carries it as an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) SocketAddr);

/// An open connection; every request carries it as an extension.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    slot: ConnectionSlot,
    heads: Mutex<HeadParser>,
    of_node: AtomicBool,
    transport: Transport,
    since: Mono,
}

impl OpenConnection {
    fn new(place: ConnectionSlot, transport: Transport) -> Self {
        let since = evenkeel::clock::now().mono;
        Self { slot: place, heads: Mutex::default(), of_node: AtomicBool::new(false), transport, since }
    }

    /// Whether nothing but a refusal is answered on it, since it would have to be encrypted.
    pub(crate) fn lacks_tls(&self) -> bool {
        self.transport == Transport::PlainRefused
    }

    /// Whether it is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.transport, Transport::Encrypted(_))
    }

    /// The life of the node that has proved itself on it.
    pub(crate) fn life(&self) -> Option<&NodeLife> {
        match &self.transport {
            Transport::Encrypted(life) => life.as_ref(),
            Transport::Plain | Transport::PlainRefused | Transport::Local(_) => None,
        }
    }

    /// The number of the user of this host that has called on the node's socket.
    pub(crate) fn local_user(&self) -> Option<u32> {
        match self.transport {
            Transport::Local(user) => Some(user),
            _ => None,
        }
    }

    /// Whether the caller has to make another connection for its next request.
    fn is_old(&self) -> bool {
        self.is_encrypted() && evenkeel::clock::now().mono - self.since >= TLS_TERM
    }

    /// Whether only nodes and `health` are answered on it, since all other connections are taken.
    pub(crate) fn is_spare(&self) -> bool {
        self.slot.spare
    }

    /// The fault of the latest head on it.
    pub(crate) fn fault(&self) -> Option<HeadError> {
        self.heads().fault()
    }

    /// Marks it as a connection of a cluster node, which has proved its identity on it.
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

/// A request in progress; its end is noted when it is dropped.
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

/// The body of a response, which is in progress until its end.
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

/// Where a node listens.
pub(crate) struct Listeners {
    /// The port.
    pub(crate) port: Arc<TcpListener>,
    /// The socket for this host, if there is one.
    pub(crate) socket: Option<LocalSocket>,
}

/// A caller that has connected.
enum AcceptedCaller {
    Port(TcpStream, SocketAddr),
    /// On the socket; with the number of its user.
    Socket(UnixStream, u32),
}

impl Listeners {
    /// Waits for the next caller.
    async fn accept(&self) -> std::io::Result<AcceptedCaller> {
        let on_socket = async {
            match &self.socket {
                Some(socket) => socket.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.port.accept() => {
                accepted.map(|(stream, caller)| AcceptedCaller::Port(stream, caller))
            }
            accepted = on_socket => accepted.map(|(stream, user)| AcceptedCaller::Socket(stream, user)),
        }
    }
}

/// Serves until the process ends, then lets responses in progress end.
pub(crate) async fn serve(
    listeners: Listeners,
    router: Router,
    security: ListenSecurity,
    mut ending: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let table = Arc::new(ConnectionTable::new(bounds(getrlimit(Resource::Nofile).current)));
    let on_socket = Arc::new(ConnectionTable::new(SOCKET_LIMITS));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADERS_PATIENCE)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX);
    let server = Arc::new(ConnectionServer { http, router, security, ending: ending.clone() });
    loop {
        let accepted = tokio::select! {
            accepted = listeners.accept() => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::warn!("no connection can be taken: {e}");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        // If every connection has a request in progress, no further one is accepted.
        let place = match &accepted {
            AcceptedCaller::Port(stream, caller) => {
                let _ = stream.set_nodelay(true);
                table.admit(caller.ip(), server.security.share(caller.ip()))
            }
            AcceptedCaller::Socket(..) => on_socket.admit(Ipv4Addr::UNSPECIFIED.into(), ConnectionShare::All),
        };
        let Some(place) = place else { continue };
        tokio::spawn(server.clone().connection(graceful.watcher(), accepted, place));
    }
    drop(listeners);
    graceful.shutdown().await;
}

/// The connection limits of a process that may open this many files.
fn bounds(files: Option<u64>) -> ConnectionLimits {
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    let most = (files / FILES_PER_CONNECTION).clamp(SHARES, CONNECTIONS_MAX);
    ConnectionLimits { total: most, per_address: most / SHARES, reserve: RESERVE }
}

/// What serves each connection.
struct ConnectionServer {
    http: http1::Builder,
    router: Router,
    security: ListenSecurity,
    ending: watch::Receiver<bool>,
}

impl ConnectionServer {
    /// Serves a connection until it ends, or has to give way to another one.
    async fn connection(self: Arc<Self>, watcher: Watcher, accepted: AcceptedCaller, place: ConnectionSlot) {
        let close = place.close.clone();
        tokio::select! {
            () = self.serve(watcher, accepted, place) => {}
            () = close.notified() => {}
        }
    }

    async fn serve(&self, watcher: Watcher, accepted: AcceptedCaller, place: ConnectionSlot) {
        let mut ending = self.ending.clone();
        let (secured, caller) = match accepted {
            AcceptedCaller::Socket(stream, user) => {
                (Some((CallerStream::Local(stream), Transport::Local(user))), None)
            }
            AcceptedCaller::Port(stream, caller) => tokio::select! {
                secured = self.security.accept(stream, caller.ip()) => (secured, Some(Caller(caller))),
                _ = ending.wait_for(|ending| *ending) => return,
            },
        };
        let Some((stream, transport)) = secured else { return };
        let open = Arc::new(OpenConnection::new(place, transport));
        let wire = ConnectionStream::new(stream, open.clone());
        let answer = service::service_fn(|request| self.answer(request, caller, open.clone()));
        // A connection that the caller breaks is no fault of the node.
        let _ = watcher.watch(self.http.serve_connection(TokioIo::new(wire), answer)).await;
    }

    fn answer(
        &self,
        mut request: Request<Incoming>,
        caller: Option<Caller>,
        open: Arc<OpenConnection>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + Send + use<> {
        let under_way = RequestGuard::new(open.clone());
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let last = open.is_spare() || open.heads().is_last() || open.is_old();
        request.extensions_mut().insert(open);
        let answered = self.router.clone().call(request.map(Body::new));
        async move {
            // Yields after each request, so that a caller with many requests does not delay the others.
            tokio::task::yield_now().await;
            let mut response: Response = answered.await?;
            if last {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| Body::new(ResponseBody { body, _under_way: under_way })))
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
