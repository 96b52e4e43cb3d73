//! The API client: JSON over HTTP to one node.

mod chosen;
mod socket;
mod trust;

use std::cell::OnceCell;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ureq::http::{Method, Request, Response, Uri};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body, Timeout};

use crate::api::message_of;
use crate::exit::{CliError, ExitKind};
use crate::host;
use crate::key::{ClusterKey, existing_own_key, read_key};
use crate::output::OutputFormat;
use socket::{request_base, socket_agent, socket_path};
pub(crate) use trust::{is_here, read_certificates};

/// The size limit of a response, so that a wrong address cannot fill the memory.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How often a read is repeated after a broken connection: a node that continues in another program breaks them all.
const REPEATS: u32 = 3;
/// The pause before each repetition.
const BREATH: Duration = Duration::from_millis(100);

/// The time limit of a connection attempt.
const CONNECT: Duration = Duration::from_secs(3);
/// The time limit of a health check, if another node can be asked instead.
const ALIVE: Duration = Duration::from_secs(3);
/// The same for the only node: a machine may stall for seconds.
const ALIVE_ALONE: Duration = Duration::from_secs(15);
/// The time limit of any other response: some wait for the registry, or for another node.
const ANSWER: Duration = Duration::from_secs(60);
/// The advice if no node answers.
const START: &str = "start one with `evenkeel dev`, or say where it is with --server URL or EVENKEEL_SERVER";

/// Added to the refusal of a node that has not proved to have this user's own key.
const OWN_KEY_IS_OTHER: &str =
    "; this user's own key is not the one of that node, or its port is forwarded, so it was not sent";

/// The message for a change whose response was lost.
pub(crate) const UNKNOWN: &str = "it is not known whether that was done, so look before you ask again";

/// The header with the address of the serving leader, in the refusal of a standby node.
pub(crate) const LEADER: &str = "evenkeel-leader";

/// The header with the user of the command line, as the client claims.
pub(crate) const CLIENT: &str = "evenkeel-client";

/// The header of a health check that asks the node to prove that it has the caller's key, and of the proof.
pub(crate) const CHALLENGE: &str = "evenkeel-challenge";
pub(crate) const PROOF: &str = "evenkeel-proof";

/// Where the node is, how to be let in, and how to print: every client verb takes these.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectArgs {
    /// The address of any node, or unix:PATH for the socket of one on this host. Give several with commas or by repeating the flag; the first that answers gets the request
    #[arg(
        long,
        value_name = "URL",
        env = "EVENKEEL_SERVER",
        default_value = "http://127.0.0.1:7700",
        value_delimiter = ','
    )]
    pub(crate) server: Vec<String>,
    /// The file with the cluster's key; without it, a node of this user on this host is asked with the user's own key
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CLUSTER_KEY_FILE")]
    pub(crate) cluster_key_file: Option<PathBuf>,
    /// The certificates of authorities whose servers are trusted, in PEM; by default those of the cluster's identity, if this host has it. Those that this host trusts are trusted too
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CA_FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Send the key over http to other hosts too, where others can read it
    #[arg(long, env = "EVENKEEL_ALLOW_PLAIN_HTTP")]
    pub(crate) allow_plain_http: bool,
    /// The format of the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: OutputFormat,
}

/// A client of one node.
#[derive(Debug)]
pub(crate) struct ApiClient {
    /// For all addresses but sockets.
    agent: Agent,
    /// The addresses of nodes, in the order in which they are tried.
    bases: Vec<String>,
    /// The address that answered.
    chosen: OnceCell<ChosenNode>,
    key: KnownKey,
    /// Which servers are trusted.
    trust: TlsConfig,
    allow_plain_http: bool,
}

/// The node that is asked.
#[derive(Clone, Debug)]
struct ChosenNode {
    base: String,
    /// Whether it has proved that it has this user's own key.
    has_own_key: bool,
}

/// The key that this client knows.
enum KnownKey {
    /// None: the user has no node on this host and named no file.
    None,
    /// The user gave this one for the nodes that the user named.
    Given(String),
    /// The user's own on this host. Only a node of this host that proves that it has it gets it.
    Own(ClusterKey),
}

/// Without the key.
impl std::fmt::Debug for KnownKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Given(_) => "Given",
            Self::Own(_) => "Own",
        })
    }
}

/// The members of a cluster, as a node lists them.
#[derive(Deserialize)]
struct MemberList {
    nodes: Vec<ListedMember>,
}

#[derive(Deserialize)]
struct ListedMember {
    address: String,
}

impl ConnectArgs {
    /// A client of the node at `--server`.
    ///
    /// # Errors
    /// The address is invalid, or the key cannot be read.
    pub(crate) fn client(&self) -> Result<ApiClient, CliError> {
        let bases = self.server.iter().map(|base| base.trim().trim_end_matches('/'));
        let bases: Vec<String> = bases.filter(|base| !base.is_empty()).map(ToOwned::to_owned).collect();
        const FORMS: &str = "write https://HOST:PORT, http://HOST:PORT or unix:PATH";
        let is_known = |base: &str| {
            base.starts_with("http://")
                || base.starts_with("https://")
                || socket_path(base).is_some_and(|path| path.is_absolute())
        };
        if let Some(base) = bases.iter().find(|base| !is_known(base)) {
            return Err(CliError::usage(format!("--server is {base:?}: {FORMS}")));
        }
        if bases.is_empty() {
            return Err(CliError::usage(format!("--server is empty: {FORMS}")));
        }
        let key = match (&self.cluster_key_file, existing_own_key()) {
            (Some(file), _) => KnownKey::Given(read_key(file)?),
            (None, Some(own)) => KnownKey::Own(ClusterKey::new(read_key(&own)?)),
            (None, None) => KnownKey::None,
        };
        if let KnownKey::Given(_) = key {
            bases.iter().try_for_each(|base| trust::check_encrypted(base, self.allow_plain_http))?;
        }
        let trust = trust::trusting(self.ca_file.as_deref(), &bases)?;
        let (agent, chosen) = (agent("", (CONNECT, Some(ANSWER)), &trust), OnceCell::new());
        Ok(ApiClient { agent, bases, chosen, key, trust, allow_plain_http: self.allow_plain_http })
    }
}

/// An HTTP agent for this address, with time limits for the connection and for the beginning of a response.
fn agent(base: &str, (connect, answer): (Duration, Option<Duration>), trust: &TlsConfig) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(connect))
        .timeout_recv_response(answer)
        .max_redirects(0)
        .proxy(None)
        .tls_config(trust.clone())
        .build();
    match socket_path(base) {
        Some(path) => socket_agent(config, path),
        None => config.into(),
    }
}

impl ApiClient {
    /// The key to send to this address of the chosen node or of the leader that it names.
    fn key_for(&self, base: &str) -> Option<&str> {
        match &self.key {
            KnownKey::None => None,
            KnownKey::Given(key) => Some(key),
            KnownKey::Own(key) => {
                let proven = self.chosen.get().is_some_and(|node| node.has_own_key);
                (proven && loopback_port(base).is_some()).then(|| key.text())
            }
        }
    }

    /// The address of the node, for messages.
    pub(crate) fn shown(&self) -> &str {
        self.chosen.get().map(|node| &node.base).or(self.bases.first()).map_or("", String::as_str)
    }

    /// Sends a read.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        let mut repeats = REPEATS;
        loop {
            let response = self.send(Method::GET, path, None)?;
            let status = response.status().as_u16();
            match read_body(response) {
                Err(e) if is_broken_connection(&e) && repeats > 0 => repeats -= 1,
                heard => return self.understand(status, heard),
            }
            std::thread::sleep(BREATH);
        }
    }

    /// Sends a command.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CliError> {
        let body = serde_json::to_vec(body).map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?;
        self.post_json(path, &body)
    }

    /// Sends a command with a body that is JSON already.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub(crate) fn post_json<T: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T, CliError> {
        self.read(self.send(Method::POST, path, Some(body))?)
    }

    /// Creates or replaces an object.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub(crate) fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CliError> {
        let body = serde_json::to_vec(body).map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?;
        self.read(self.send(Method::PUT, path, Some(&body))?)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        self.read(self.send(Method::DELETE, path, None)?)
    }

    /// Reads a stream of bytes, and passes them to `each` as they come.
    ///
    /// # Errors
    /// No node answers, the request is refused, or `each` fails.
    pub(crate) fn stream(
        &self,
        path: &str,
        mut each: impl FnMut(&[u8]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let response = self.send(Method::GET, path, None)?;
        if !response.status().is_success() {
            return Err(self
                .read::<serde_json::Value>(response)
                .err()
                .unwrap_or_else(|| self.unexpected_answer("no error")));
        }
        let mut reader = response.into_body().into_reader();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => each(buffer.get(..n).unwrap_or_default())?,
                Err(e) => {
                    return Err(CliError::new(ExitKind::Failed, format!("{} broke off: {e}", self.shown())));
                }
            }
        }
    }

    /// Sends a request, and repeats it to the serving leader if the node names another one.
    fn send(&self, method: Method, path: &str, body: Option<&[u8]>) -> Result<Response<Body>, CliError> {
        let response = self.sent(&self.node()?.base, method.clone(), path, body)?;
        let Some(leader) = response.headers().get(LEADER) else { return Ok(response) };
        let leader = String::from_utf8_lossy(leader.as_bytes()).into_owned();
        self.is_member(&leader)?;
        self.sent(&leader, method, path, body)
    }

    /// Checks that a member of the cluster answers at this address: the request may carry the key, and may be a
    /// command. The members are listed by the node that the user named, which got the key already.
    fn is_member(&self, leader: &str) -> Result<(), CliError> {
        let doubt = |why: &str| {
            let text = format!(
                "{} says that {leader:?} serves, which {why}: nothing was sent there; if it is right, name it with --server",
                self.chosen.get().map_or("the server", |node| &node.base)
            );
            CliError::new(ExitKind::Denied, text)
        };
        let address = leader.strip_prefix("https://").or_else(|| leader.strip_prefix("http://"));
        let address = address.ok_or_else(|| doubt("is no https://HOST:PORT"))?;
        if self.key_for(leader).is_some() {
            trust::check_encrypted(leader, self.allow_plain_http).map_err(|_| doubt("is unencrypted"))?;
        }
        let nodes: MemberList = self
            .read(self.sent(&self.node()?.base, Method::GET, "/nodes", None)?)
            .map_err(|_| doubt("cannot be looked up in its list of nodes"))?;
        match nodes.nodes.iter().any(|node| node.address == address) {
            true => Ok(()),
            false => Err(doubt("is not in its list of nodes")),
        }
    }

    fn sent(
        &self,
        base: &str,
        method: Method,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Response<Body>, CliError> {
        let mut repeats = if method == Method::GET { REPEATS } else { 0 };
        let sent = loop {
            match self.sent_once(base, &method, path, body)? {
                Err(e) if is_broken_connection(&e) && repeats > 0 => repeats -= 1,
                sent => break sent,
            }
            std::thread::sleep(BREATH);
        };
        sent.map_err(|e| match method != Method::GET && may_be_done(&e) {
            true => CliError::new(ExitKind::Unknown, format!("{base} broke off ({e}): {UNKNOWN}")),
            false => CliError::new(ExitKind::Unreachable, format!("no node answers at {base}: {e}\n{START}")),
        })
    }

    fn sent_once(
        &self,
        base: &str,
        method: &Method,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Result<Response<Body>, ureq::Error>, CliError> {
        let mut request =
            Request::builder().method(method).uri(format!("{}/api/v1{path}", request_base(base)));
        request = request.header(CLIENT, host::whoami());
        if let Some(key) = self.key_for(base) {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let bad = |e: ureq::http::Error| CliError::usage(format!("--server is {base:?}: {e}"));
        let agent = match socket_path(base) {
            Some(_) => agent(base, (CONNECT, Some(ANSWER)), &self.trust),
            None => self.agent.clone(),
        };
        Ok(match body {
            Some(body) => {
                agent.run(request.header("content-type", "application/json").body(body).map_err(bad)?)
            }
            None => agent.run(request.body(()).map_err(bad)?),
        })
    }

    /// Parses the response to a change.
    fn read<T: DeserializeOwned>(&self, response: Response<Body>) -> Result<T, CliError> {
        let status = response.status().as_u16();
        let heard = read_body(response).map_err(|e| {
            CliError::new(ExitKind::Unknown, format!("{} broke off ({e}): {UNKNOWN}", self.shown()))
        })?;
        self.understand(status, Ok(heard))
    }

    fn understand<T: DeserializeOwned>(
        &self,
        status: u16,
        text: Result<Vec<u8>, ureq::Error>,
    ) -> Result<T, CliError> {
        let text =
            text.map_err(|e| CliError::new(ExitKind::Failed, format!("{} broke off: {e}", self.shown())))?;
        if (200..300).contains(&status) {
            return serde_json::from_slice(&text).map_err(|e| self.unexpected_answer(&e.to_string()));
        }
        let exit = match status {
            400 | 413 | 415 | 422 => ExitKind::Invalid,
            401 | 403 => ExitKind::Denied,
            429 => ExitKind::Unavailable,
            404 => ExitKind::NotFound,
            409 | 412 => ExitKind::Conflict,
            408 | 503 => ExitKind::Unavailable,
            504 => ExitKind::Unknown,
            _ => ExitKind::Failed,
        };
        let fix = if status == 401 && self.withholds_own_key() { OWN_KEY_IS_OTHER } else { "" };
        Err(message_of(&text).map_or_else(
            || self.unexpected_answer(&format!("status {status}")),
            |message| CliError::new(exit, message + fix),
        ))
    }

    /// Whether this client has a key of its own that the node did not get.
    fn withholds_own_key(&self) -> bool {
        matches!(self.key, KnownKey::Own(_)) && !self.chosen.get().is_some_and(|node| node.has_own_key)
    }

    fn unexpected_answer(&self, what: &str) -> CliError {
        CliError::new(
            ExitKind::Failed,
            format!("what answers at {} is no evenkeel node: {what}", self.shown()),
        )
    }
}

/// The port of an address on this host.
fn loopback_port(base: &str) -> Option<u16> {
    let uri: Uri = base.parse().ok()?;
    let host = uri.host()?;
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let here = ip.is_ok_and(|ip| ip.is_loopback()) || host.eq_ignore_ascii_case("localhost");
    here.then(|| uri.port_u16().unwrap_or(80))
}

/// Reads a whole response.
fn read_body(response: Response<Body>) -> Result<Vec<u8>, ureq::Error> {
    response.into_body().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()
}

/// Whether a request without a response may have been received.
fn may_be_done(error: &ureq::Error) -> bool {
    let late =
        matches!(error, ureq::Error::Timeout(at) if !matches!(at, Timeout::Connect | Timeout::Resolve));
    late || is_broken_connection(error)
}

/// Whether a node accepted the connection and then broke it: the outcome is unknown.
fn is_broken_connection(error: &ureq::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let ureq::Error::Io(e) = error else { return false };
    matches!(e.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Escapes a name for a path: only characters that no path could mistake stay.
#[must_use]
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests;
