//! Connections to other nodes: TLS on both sides, to the very life of the node that is called.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::Uri;
use evenkeel_core::ids::Member;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use crate::tls::{self, NodeLife, PEER_HOST};

/// Connects to one life of a node.
#[derive(Clone)]
pub(super) struct PeerConnector {
    tcp: HttpConnector,
    tls: TlsConnector,
    to: Arc<NodeLife>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// Nothing answers, or the connection broke.
    Unreached(String),
    /// What answers shows no certificate of this cluster, or does not accept this node's.
    Stranger(String),
    /// Another life, or another node, answers.
    Another(Member),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreached(why) | Self::Stranger(why) => f.write_str(why),
            Self::Another(member) => write!(f, "{member} answers there"),
        }
    }
}

impl std::error::Error for ConnectError {}

impl PeerConnector {
    /// Connects to this life with these settings.
    pub(super) fn new(config: ClientConfig, to: NodeLife) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        Self { tcp, tls: TlsConnector::from(Arc::new(config)), to: Arc::new(to) }
    }

    async fn connect(mut self, uri: Uri) -> Result<TokioIo<PeerStream>, ConnectError> {
        let tcp = self.tcp.call(uri).await.map_err(|e| ConnectError::Unreached(super::causes(&e)))?;
        let name = ServerName::try_from(PEER_HOST).map_err(|e| ConnectError::Stranger(e.to_string()))?;
        let stream = self.tls.connect(name, tcp.into_inner()).await.map_err(|e| match tls_error(&e) {
            Some(why) => ConnectError::Stranger(stranger(why)),
            None => ConnectError::Unreached(e.to_string()),
        })?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        match shown.and_then(tls::life_of) {
            Some(life) if life == *self.to => Ok(TokioIo::new(PeerStream(stream))),
            Some(life) if life.cluster == self.to.cluster => Err(ConnectError::Another(life.member)),
            Some(_) => Err(ConnectError::Stranger("a node of another cluster answers there".to_owned())),
            None => Err(ConnectError::Stranger("what answers there is no member".to_owned())),
        }
    }
}

impl Service<Uri> for PeerConnector {
    type Response = TokioIo<PeerStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<PeerStream>, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// The fault that TLS found, if it is the reason of this error.
pub(super) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Says that the two nodes do not accept each other, and the fix.
pub(super) fn stranger(why: &rustls::Error) -> String {
    format!(
        "it is no node of this cluster, or does not take this one for one ({why}): give its host the cluster's identity \
         with `evenkeel cluster join-token`, and set the clocks of both right"
    )
}

/// A connection to a node.
pub(super) struct PeerStream(TlsStream<TcpStream>);

impl Connection for PeerStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
