//! Connections: how many there may be, and how long one may take to say what it wants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::{Request, service};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower::Service as _;

/// More callers than this wait in the system's queue.
const CONNECTIONS_MAX: usize = 1024;
/// A caller that has not sent its headers by then, or is silent so long between requests, is cut off.
const HEADERS_PATIENCE: Duration = Duration::from_secs(30);
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// When no connection can be taken, for want of file handles, it is tried again after this.
const BREATH: Duration = Duration::from_millis(100);

/// Where a request comes from; every request carries it along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) SocketAddr);

/// Serves until the process ends, then lets answers under way end.
pub(crate) async fn serve(listener: Arc<TcpListener>, router: Router, mut ending: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADERS_PATIENCE)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            _ = ending.wait_for(|ending| *ending) => break,
        };
        let (stream, caller, place) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::warn!("no connection can be taken: {e}");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let router = router.clone();
        let answer = service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Caller(caller));
            router.clone().call(request.map(Body::new))
        });
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), answer));
        tokio::spawn(async move {
            // A caller that breaks off is no concern of the node.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(tokio::net::TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = room.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, caller) = listener.accept().await?;
    Ok((stream, caller, place))
}
