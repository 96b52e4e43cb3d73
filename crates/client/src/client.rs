//! The client: JSON over HTTP to one node, chosen among several.

mod chosen;
mod condition;
pub(crate) mod socket;

use std::cell::OnceCell;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::input::Precondition;
use evenkeel_tls::{ServerTrust, explain};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Body, Timeout};

use crate::address::{checked, is_unencrypted, loopback_port};
use crate::error::{ClientError, ClientErrorKind};
use crate::key::ClusterKey;
use socket::{request_base, socket_agent, socket_path};

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

/// Added to the refusal of a node that has not proved to have this user's own key.
const OWN_KEY_IS_OTHER: &str =
    "; this user's own key is not the one of that node, or its port is forwarded, so it was not sent";

/// The message for a change whose response was lost.
pub const OUTCOME_UNKNOWN: &str = "it is not known whether that was done, so look before you ask again";

/// The header with the address of the serving leader, in the refusal of a standby node.
pub const LEADER: &str = "evenkeel-leader";

/// The header with the user of the command line, as the client claims.
pub const CLIENT: &str = "evenkeel-client";

/// The header of a health check that asks the node to prove that it has the caller's key.
pub const CHALLENGE: &str = "evenkeel-challenge";
/// The header of the proof.
pub const PROOF: &str = "evenkeel-proof";

/// How a client reaches nodes, and who it is.
#[derive(Debug, Default)]
pub struct ClientSettings {
    /// The addresses of nodes, in the order in which they are tried: `https://HOST:PORT`, `http://HOST:PORT` or `unix:PATH`.
    pub servers: Vec<String>,
    /// The key or the token.
    pub key: ClientKey,
    /// The certificates of authorities whose servers are trusted, and of servers themselves, beside those that this host
    /// trusts.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Whether a given key may cross a network unencrypted, where others can read it.
    pub allow_plain_http: bool,
    /// What the client calls itself in the audit log, as `ann@laptop`. It is a claim and proves nothing.
    pub caller: String,
}

/// The key or token that a client sends.
#[derive(Clone, Default)]
pub enum ClientKey {
    /// None.
    #[default]
    None,
    /// This one, to the nodes that the settings name and to the leader that they name.
    Given(String),
    /// The key of this user on this host. Only a node of this host that proves that it has it gets it.
    Own(ClusterKey),
}

/// Without the key.
impl std::fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Given(_) => "Given",
            Self::Own(_) => "Own",
        })
    }
}

/// A client of one node. It blocks: asynchronous programs call it on a thread of their own.
#[derive(Clone, Debug)]
pub struct ApiClient {
    /// For all addresses but sockets.
    agent: Agent,
    /// The addresses of nodes, in the order in which they are tried.
    bases: Vec<String>,
    /// The address that answered.
    chosen: OnceCell<ChosenNode>,
    key: ClientKey,
    /// Which servers are trusted.
    trust: Arc<ClientConfig>,
    allow_plain_http: bool,
    caller: String,
    /// What must be so of the objects that it changes.
    wanted: Option<Precondition>,
}

/// The node that is asked.
#[derive(Clone, Debug)]
struct ChosenNode {
    base: String,
    /// Whether it has proved that it has this user's own key.
    has_own_key: bool,
}

/// The settings of TLS: servers with one of these certificates or of these authorities are accepted, and those that this
/// host trusts if an address is encrypted.
fn trusting(
    authorities: Vec<CertificateDer<'static>>,
    bases: &[String],
) -> Result<Arc<ClientConfig>, ClientError> {
    let bad = |why: rustls::Error| {
        ClientError::new(ClientErrorKind::Settings, format!("a trusted certificate is not valid: {why}"))
    };
    let mut trust = ServerTrust::default();
    authorities.into_iter().try_for_each(|certificate| trust.list(certificate)).map_err(bad)?;
    // Reading them takes a while, and a leader that a node of this host names is of this host's cluster.
    if bases.iter().any(|base| base.starts_with("https://")) {
        trust.add_authorities(rustls_native_certs::load_native_certs().certs);
    }
    trust.client_config().map_err(bad)
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

fn unusable(base: &str, why: &ureq::http::Error) -> ClientError {
    ClientError::new(ClientErrorKind::Settings, format!("{base:?} is no address of a node: {why}"))
}

/// Refuses an address to which the key would go unencrypted over a network.
fn check_encrypted(base: &str, allow_plain_http: bool) -> Result<(), ClientError> {
    match is_unencrypted(base) && !allow_plain_http {
        false => Ok(()),
        true => Err(ClientError::new(
            ClientErrorKind::Settings,
            format!(
                "the key would cross the network to {base} unencrypted: write https://, or allow plain HTTP"
            ),
        )),
    }
}

/// The sentence in a refusal.
fn message_of(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    // A node of an earlier version has it elsewhere.
    let message = body.get("detail").or_else(|| body.pointer("/error/message"))?;
    message.as_str().map(str::to_owned)
}

/// An HTTP agent for this address, with time limits for the connection and for the beginning of a response.
fn agent(base: &str, (connect, answer): (Duration, Option<Duration>), trust: &Arc<ClientConfig>) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(connect))
        .timeout_recv_response(answer)
        .max_redirects(0)
        .proxy(None)
        .build();
    match socket_path(base) {
        Some(path) => socket_agent(config, path),
        None => evenkeel_tls::agent(config, trust.clone()),
    }
}

impl ApiClient {
    /// A client with these settings. Nothing is sent yet.
    ///
    /// # Errors
    /// An address is not valid, there is none, or a given key would cross a network unencrypted.
    pub fn new(settings: ClientSettings) -> Result<Self, ClientError> {
        let ClientSettings { servers, key, authorities, allow_plain_http, caller } = settings;
        let bases = servers.iter().map(|address| checked(address)).collect::<Result<Vec<_>, _>>()?;
        if bases.is_empty() {
            checked("")?;
        }
        if let ClientKey::Given(_) = key {
            bases.iter().try_for_each(|base| check_encrypted(base, allow_plain_http))?;
        }
        let trust = trusting(authorities, &bases)?;
        let (agent, chosen) = (agent("", (CONNECT, Some(ANSWER)), &trust), OnceCell::new());
        Ok(Self { agent, bases, chosen, key, trust, allow_plain_http, caller, wanted: None })
    }

    /// A client of the node at this address, without a key.
    ///
    /// # Errors
    /// The address is not valid.
    pub fn at(address: &str) -> Result<Self, ClientError> {
        Self::new(ClientSettings { servers: vec![address.to_owned()], ..ClientSettings::default() })
    }

    /// The key to send to this address of the chosen node or of the leader that it names.
    fn key_for(&self, base: &str) -> Option<&str> {
        match &self.key {
            ClientKey::None => None,
            ClientKey::Given(key) => Some(key),
            ClientKey::Own(key) => {
                let proven = self.chosen.get().is_some_and(|node| node.has_own_key);
                (proven && loopback_port(base).is_some()).then(|| key.text())
            }
        }
    }

    /// The address of the node, for messages.
    pub fn shown(&self) -> &str {
        self.chosen.get().map(|node| &node.base).or(self.bases.first()).map_or("", String::as_str)
    }

    /// Sends a request of an operation. A change without a body has an empty object as one.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub(crate) fn request<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, ClientError> {
        match *method {
            Method::GET => self.get(path),
            Method::DELETE => self.delete(path),
            _ if body.is_null() => self.read(self.send(method.clone(), path, Some(b"{}"))?),
            _ => self.read(self.send(method.clone(), path, Some(body.to_string().as_bytes()))?),
        }
    }

    /// Sends a read.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let mut repeats = REPEATS;
        loop {
            let response = self.send(Method::GET, path, None)?;
            let status = response.status().as_u16();
            match read_body(response) {
                Err(e) if is_broken_connection(&e) && repeats > 0 => repeats -= 1,
                body => return self.understand(status, body),
            }
            std::thread::sleep(BREATH);
        }
    }

    /// Sends a command.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let body =
            serde_json::to_vec(body).map_err(|e| ClientError::new(ClientErrorKind::Failed, e.to_string()))?;
        self.post_json(path, &body)
    }

    /// Sends a command with a body that is JSON already.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub fn post_json<T: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T, ClientError> {
        self.read(self.send(Method::POST, path, Some(body))?)
    }

    /// Creates or replaces an object.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let body =
            serde_json::to_vec(body).map_err(|e| ClientError::new(ClientErrorKind::Failed, e.to_string()))?;
        self.read(self.send(Method::PUT, path, Some(&body))?)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.read(self.send(Method::DELETE, path, None)?)
    }

    /// Reads a stream of bytes, and passes them to `each` as they come.
    ///
    /// # Errors
    /// No node answers, the request is refused, or `each` fails.
    pub fn stream<E: From<ClientError>>(
        &self,
        path: &str,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let response = self.send(Method::GET, path, None)?;
        if !response.status().is_success() {
            let refused = self.read::<serde_json::Value>(response).err();
            return Err(refused.unwrap_or_else(|| self.unexpected_answer("no error")).into());
        }
        let mut reader = response.into_body().into_reader();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => each(buffer.get(..n).unwrap_or_default())?,
                Err(e) => {
                    let broken = format!("{} broke off: {e}", self.shown());
                    return Err(ClientError::new(ClientErrorKind::Failed, broken).into());
                }
            }
        }
    }

    /// Sends a request, and repeats it to the serving leader if the node names another one.
    fn send(&self, method: Method, path: &str, body: Option<&[u8]>) -> Result<Response<Body>, ClientError> {
        let response = self.sent(&self.node()?.base, method.clone(), path, body)?;
        let Some(leader) = response.headers().get(LEADER) else { return Ok(response) };
        let leader = String::from_utf8_lossy(leader.as_bytes()).into_owned();
        self.is_member(&leader)?;
        self.sent(&leader, method, path, body)
    }

    /// Checks that a member of the cluster answers at this address: the request may carry the key, and may be a
    /// command. The members are listed by the node that the user named, which got the key already.
    fn is_member(&self, leader: &str) -> Result<(), ClientError> {
        let doubt = |why: &str| {
            let text = format!(
                "{} says that {leader:?} serves, which {why}: nothing was sent there; if it is right, name it as a server",
                self.chosen.get().map_or("the server", |node| &node.base)
            );
            ClientError::new(ClientErrorKind::Denied, text)
        };
        let address = leader.strip_prefix("https://").or_else(|| leader.strip_prefix("http://"));
        let address = address.ok_or_else(|| doubt("is no https://HOST:PORT"))?;
        if self.key_for(leader).is_some() {
            check_encrypted(leader, self.allow_plain_http).map_err(|_| doubt("is unencrypted"))?;
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
    ) -> Result<Response<Body>, ClientError> {
        let mut repeats = if method == Method::GET { REPEATS } else { 0 };
        let sent = loop {
            match self.sent_once(base, &method, path, body)? {
                Err(e) if is_broken_connection(&e) && repeats > 0 => repeats -= 1,
                sent => break sent,
            }
            std::thread::sleep(BREATH);
        };
        sent.map_err(|e| match method != Method::GET && may_be_done(&e) {
            true => ClientError::new(
                ClientErrorKind::Unknown,
                format!("{base} broke off ({e}): {OUTCOME_UNKNOWN}"),
            ),
            false => unreached(base, &e),
        })
    }

    fn sent_once(
        &self,
        base: &str,
        method: &Method,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Result<Response<Body>, ureq::Error>, ClientError> {
        let mut request =
            Request::builder().method(method).uri(format!("{}/api/v1{path}", request_base(base)));
        if !self.caller.is_empty() {
            request = request.header(CLIENT, &self.caller);
        }
        if let Some(key) = self.key_for(base) {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if let Some((header, value)) = self.condition().filter(|_| *method != Method::GET) {
            request = request.header(header, value);
        }
        let bad = |e: ureq::http::Error| unusable(base, &e);
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
    fn read<T: DeserializeOwned>(&self, response: Response<Body>) -> Result<T, ClientError> {
        let status = response.status().as_u16();
        let body = read_body(response).map_err(|e| {
            ClientError::new(
                ClientErrorKind::Unknown,
                format!("{} broke off ({e}): {OUTCOME_UNKNOWN}", self.shown()),
            )
        })?;
        self.understand(status, Ok(body))
    }

    fn understand<T: DeserializeOwned>(
        &self,
        status: u16,
        text: Result<Vec<u8>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let text = text.map_err(|e| {
            ClientError::new(ClientErrorKind::Failed, format!("{} broke off: {e}", self.shown()))
        })?;
        if (200..300).contains(&status) {
            return serde_json::from_slice(&text).map_err(|e| self.unexpected_answer(&e.to_string()));
        }
        let kind = ClientErrorKind::of_status(status);
        let fix = if status == 401 && self.withholds_own_key() { OWN_KEY_IS_OTHER } else { "" };
        Err(message_of(&text).map_or_else(
            || self.unexpected_answer(&format!("status {status}")),
            |message| ClientError::new(kind, message + fix),
        ))
    }

    /// Whether this client has a key of its own that the node did not get.
    fn withholds_own_key(&self) -> bool {
        matches!(self.key, ClientKey::Own(_)) && !self.chosen.get().is_some_and(|node| node.has_own_key)
    }

    fn unexpected_answer(&self, what: &str) -> ClientError {
        ClientError::new(
            ClientErrorKind::Failed,
            format!("what answers at {} is no evenkeel node: {what}", self.shown()),
        )
    }
}

/// Reads a whole response.
fn read_body(response: Response<Body>) -> Result<Vec<u8>, ureq::Error> {
    response.into_body().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()
}

/// Says that nothing was sent to a node, and why.
fn unreached(base: &str, error: &ureq::Error) -> ClientError {
    let (kind, why) = match error {
        ureq::Error::Rustls(tls) => {
            let why = format!("{base} is not trusted: {}", explain(tls));
            return ClientError::new(ClientErrorKind::Untrusted, why);
        }
        ureq::Error::Io(e) => (ClientErrorKind::Unreachable, e.to_string()),
        e => (ClientErrorKind::Unreachable, e.to_string()),
    };
    ClientError::new(kind, format!("no node answers at {base}: {why}"))
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

#[cfg(test)]
mod tests;
