//! Connects to the server of an address: resolves the name once, checks the addresses, connects to the checked ones.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::job::Http;
use evenkeel_tls::{explain, tls_error};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::egress::EgressPolicy;
use super::tls::TlsConfigs;

/// How long one address may take to answer, and how long TLS may take.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection of either kind.
pub(super) trait HttpStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> HttpStream for T {}

/// The address without the parts that may be secret.
pub(super) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("{host}:{}", url.port_or_known_default().unwrap_or_default())
}

/// Connects to the server of this address, if the node may reach every address of its name.
pub(super) async fn connect(
    url: &Url,
    http: &Http,
    egress: &EgressPolicy,
    tls: &TlsConfigs,
) -> Result<Box<dyn HttpStream>, String> {
    let host = url.host().ok_or("the address names no host")?.to_owned();
    let port = url.port_or_known_default().ok_or("the address has no port")?;
    let addresses = resolve(&host, port).await?;
    for address in &addresses {
        allowed(url, &host, address.ip(), egress)?;
    }
    let tcp = first_that_answers(url, &addresses).await?;
    if url.scheme() != "https" {
        return Ok(Box::new(tcp));
    }
    let name = server_name(&host)?;
    let connector = TlsConnector::from(tls.of(http).await?);
    let fail = |why: &dyn std::fmt::Display| format!("{}: no TLS: {why}", shown(url));
    match timeout(CONNECT, connector.connect(name, tcp)).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(e)) => Err(match tls_error(&e) {
            Some(tls) => fail(&explain(tls)),
            None => fail(&e),
        }),
        Err(_) => Err(fail(&format!("nothing was agreed on within {CONNECT:?}"))),
    }
}

/// Resolves the host once: a later, different answer of the resolver is not used.
async fn resolve(host: &Host, port: u16) -> Result<Vec<SocketAddr>, String> {
    let name = match host {
        Host::Ipv4(ip) => return Ok(vec![(*ip, port).into()]),
        Host::Ipv6(ip) => return Ok(vec![(*ip, port).into()]),
        Host::Domain(name) => name,
    };
    let found = lookup_host((name.as_str(), port)).await;
    let found: Vec<SocketAddr> = found.map_err(|e| format!("no address of {name}: {e}"))?.collect();
    if found.is_empty() { Err(format!("no address of {name}")) } else { Ok(found) }
}

fn allowed(url: &Url, host: &Host, address: IpAddr, egress: &EgressPolicy) -> Result<(), String> {
    let Err(kind) = egress.check(address) else { return Ok(()) };
    let address = address.to_canonical();
    let kind = match kind {
        "this host" => "an address of this host itself".to_owned(),
        kind => format!("a {kind} address"),
    };
    let what = match host {
        Host::Domain(name) => format!("{name} is {address}, {kind}"),
        Host::Ipv4(_) | Host::Ipv6(_) => format!("it is {kind}"),
    };
    Err(format!(
        "{} may not be reached from this node: {what}; its operator can allow it with --http-allow {address}",
        shown(url)
    ))
}

async fn first_that_answers(url: &Url, addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let mut last = String::new();
    for address in addresses {
        let why: io::Error = match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Small requests must not wait for more data; a failure here does no harm.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(e)) => e,
            Err(_) => io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {CONNECT:?}")),
        };
        last = format!("{}: no connection to {}: {why}", shown(url), address.ip());
    }
    Err(last)
}

fn server_name(host: &Host) -> Result<ServerName<'static>, String> {
    match host {
        Host::Domain(name) => {
            ServerName::try_from(name.clone()).map_err(|_| format!("{name} is no name for TLS"))
        }
        Host::Ipv4(ip) => Ok(ServerName::IpAddress(IpAddr::V4(*ip).into())),
        Host::Ipv6(ip) => Ok(ServerName::IpAddress(IpAddr::V6(*ip).into())),
    }
}

/// The context that all requests of a node share.
pub(super) struct HttpContext {
    pub(super) egress: EgressPolicy,
    pub(super) tls: TlsConfigs,
}

impl HttpContext {
    pub(super) fn new(egress: EgressPolicy) -> Arc<Self> {
        Arc::new(Self { egress, tls: TlsConfigs::default() })
    }
}
