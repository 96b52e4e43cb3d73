//! Requests over the socket of a node on this host.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, Error, config::Config};

/// What the address of a socket begins with.
const SCHEME: &str = "unix:";
/// The address that requests over a socket have: the node answers to it, and no name is looked up.
const PLACEHOLDER: &str = "http://127.0.0.1";

/// The path of the socket that an address names, if it names one.
pub(crate) fn socket_path(base: &str) -> Option<&Path> {
    base.strip_prefix(SCHEME).map(Path::new)
}

/// The address for requests to this one.
pub(super) fn request_base(base: &str) -> &str {
    if socket_path(base).is_some() { PLACEHOLDER } else { base }
}

/// An HTTP agent for the socket at this path.
pub(super) fn socket_agent(config: Config, path: &Path) -> Agent {
    Agent::with_parts(config, SocketConnector { path: path.to_owned() }, DefaultResolver::default())
}

/// Connects to one socket, whatever the address of a request.
#[derive(Debug)]
struct SocketConnector {
    path: PathBuf,
}

impl Connector for SocketConnector {
    type Out = SocketTransport;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        let stream = UnixStream::connect(&self.path)?;
        let config = &details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(SocketTransport { stream, buffers }))
    }
}

/// A connection to a socket.
struct SocketTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl std::fmt::Debug for SocketTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocketTransport").finish_non_exhaustive()
    }
}

impl Transport for SocketTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(limit(timeout))?;
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream.write_all(output).map_err(|e| fault(e, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(limit(timeout))?;
        let input = self.buffers.input_append_buf();
        let amount = loop {
            match self.stream.read(input) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|e| fault(e, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Each request has a connection of its own, which costs next to nothing on one host.
    fn is_open(&mut self) -> bool {
        false
    }
}

fn limit(timeout: NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|left| *left)
}

fn fault(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}
