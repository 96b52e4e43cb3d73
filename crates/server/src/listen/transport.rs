//! How a connection is secured: its first byte says whether the caller speaks TLS.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connections::ConnectionShare;
use crate::proxies::TrustedProxies;
use crate::tls::{self, NodeLife, NodeTls};

/// The first byte of TLS: a record of its handshake. No request of HTTP begins with it.
const HANDSHAKE: u8 = 0x16;
/// The time limit for it to come.
const FIRST_BYTE_PATIENCE: Duration = Duration::from_secs(30);
/// The time limit of a handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// From where connections without TLS are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// From this host.
    Auto,
    /// From nowhere.
    On,
    /// From anywhere.
    Off,
}

/// How connections are secured.
pub(crate) struct ListenSecurity {
    /// The certificates of this node.
    pub(crate) tls: Arc<NodeTls>,
    /// From where connections without TLS are answered.
    pub(crate) mode: TlsMode,
    /// The proxies whose callers share no limit of one address.
    pub(crate) proxies: TrustedProxies,
}

/// How one connection is secured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// Not at all, which is allowed.
    Plain,
    /// Not at all, which is refused.
    PlainRefused,
    /// Not at all: it is on the node's socket, and of a process of this user.
    Local(u32),
    /// By TLS; with the life of the calling node, if a node calls.
    Encrypted(Option<NodeLife>),
}

impl TlsMode {
    /// The scheme with which a node at this address, `HOST:PORT`, is asked.
    pub(crate) fn scheme(self, address: &str) -> &'static str {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        match self {
            Self::Off => "http",
            Self::Auto if here => "http",
            Self::Auto | Self::On => "https",
        }
    }

    /// Whether requests from this address are answered without TLS.
    fn allows_plain(self, from: IpAddr) -> bool {
        match self {
            Self::Auto => from.to_canonical().is_loopback(),
            Self::On => false,
            Self::Off => true,
        }
    }
}

impl ListenSecurity {
    /// How many of the connections this address may have.
    pub(super) fn share(&self, from: IpAddr) -> ConnectionShare {
        if self.proxies.contains(from) { ConnectionShare::All } else { ConnectionShare::OneAddress }
    }

    /// Waits for the first byte of a caller and carries out the handshake, if it is one; `None` if nothing comes in time
    /// or the handshake fails.
    pub(super) async fn accept(&self, stream: TcpStream, from: IpAddr) -> Option<(CallerStream, Transport)> {
        let mut first = [0];
        // It stays where it is, so that whatever reads on finds it.
        if timeout(FIRST_BYTE_PATIENCE, stream.peek(&mut first)).await.ok()?.ok()? == 0 {
            return None;
        }
        if first != [HANDSHAKE] {
            let allowed = self.mode.allows_plain(from);
            let transport = if allowed { Transport::Plain } else { Transport::PlainRefused };
            return Some((CallerStream::Plain(stream), transport));
        }
        let handshake = TlsAcceptor::from(self.tls.server()).accept(stream);
        let stream = match timeout(HANDSHAKE_PATIENCE, handshake).await.ok()? {
            Ok(stream) => stream,
            Err(why) => {
                // A connection that just ends may be a load balancer's probe.
                match why.kind() {
                    std::io::ErrorKind::InvalidData => {
                        tracing::warn!("a caller at {from} and this node do not agree on TLS: {why}");
                    }
                    _ => tracing::debug!("a caller at {from} did not complete its TLS handshake: {why}"),
                }
                return None;
            }
        };
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let transport = Transport::Encrypted(shown.and_then(tls::life_of));
        Some((CallerStream::Encrypted(Box::new(stream)), transport))
    }
}

/// The bytes of a caller, without the encryption.
pub(super) enum CallerStream {
    Plain(TcpStream),
    Local(UnixStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for CallerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Local(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for CallerStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Local(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Local(stream) => Pin::new(stream).poll_flush(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Local(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_requests_are_answered_on_this_host_unless_the_settings_say_otherwise() {
        let from = |text: &str| text.parse().expect("an address");
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"].map(from) {
            assert!(TlsMode::Auto.allows_plain(here) && !TlsMode::On.allows_plain(here), "{here}");
        }
        for elsewhere in ["10.0.0.7", "192.168.1.1", "fe80::1", "0.0.0.0"].map(from) {
            assert!(
                !TlsMode::Auto.allows_plain(elsewhere) && TlsMode::Off.allows_plain(elsewhere),
                "{elsewhere}"
            );
        }
    }
}
