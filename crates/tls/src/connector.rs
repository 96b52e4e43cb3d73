//! TLS for ureq, whose settings take root certificates only: a connector with a configuration of rustls.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector, Transport,
    TransportAdapter,
};
use ureq::{Agent, Error};

use crate::reason::tls_error;

/// An HTTP agent with this configuration of TLS. It takes no proxy. A server that is not trusted is the error
/// [`ureq::Error::Rustls`].
#[must_use]
pub fn agent(config: Config, tls: Arc<ClientConfig>) -> Agent {
    let connector = ().chain(TcpConnector::default()).chain(TlsConnector(tls));
    Agent::with_parts(config, connector, DefaultResolver::default())
}

/// Speaks TLS over the connection before it, if the address is https.
#[derive(Debug)]
struct TlsConnector(Arc<ClientConfig>);

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        before: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = before else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| Error::Tls("the host is no name for TLS"))?;
        let mut conn = ClientConnection::new(self.0.clone(), name)?;
        let transport: Box<dyn Transport> = Box::new(transport);
        let mut sock = TransportAdapter::new(transport, details.current_time.clone());
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock).map_err(fault)?;
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { buffers, stream: StreamOwned::new(conn, sock) })))
    }
}

/// A connection over TLS.
struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream.write_all(output).map_err(fault)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf()).map_err(fault)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// The error with its own kind: what TLS or ureq found is wrapped in one of input and output.
fn fault(error: io::Error) -> Error {
    match tls_error(&error) {
        Some(tls) => Error::Rustls(tls.clone()),
        None => Error::from(error),
    }
}
