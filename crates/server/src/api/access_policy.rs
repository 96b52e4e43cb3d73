//! What requests are checked against: the host names of this node, and the cluster's key.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::body_budget::BodyBudget;
use super::guesses::PasswordGuesses;
use super::login_codes::LoginCodes;
use super::passwords::PasswordHashing;
use super::session_subject::{SessionOwner, SessionSubject};
use super::token_text::NotedUses;
use super::wrong_keys::WrongKeys;
use crate::key::{KeyRing, number};
use crate::proxies::{ProxyLogin, TrustedProxies};

/// What keys sign for the epochs of their sessions.
const EPOCH: &str = "evenkeel sessions 1";

/// What requests are checked against.
pub(crate) struct AccessPolicy {
    pub(super) hosts: BTreeSet<String>,
    /// The origins of pages elsewhere that may use this node.
    pub(super) origins: BTreeSet<String>,
    /// The proxies whose word about their callers is believed.
    pub(super) proxies: TrustedProxies,
    /// How they say for whom they vouch, if they do.
    pub(super) proxy_login: Option<ProxyLogin>,
    /// Whether the log says already that somebody else does.
    stranger_noted: AtomicBool,
    keys: Arc<KeyRing>,
    /// The keys with which nodes of this cluster sign sessions.
    sessions: Arc<KeyRing>,
    /// The port of this node.
    pub(super) port: u16,
    pub(super) wrong_keys: WrongKeys,
    /// The guesses of users' passwords.
    pub(super) guesses: PasswordGuesses,
    /// The codes of login links.
    pub(crate) login_codes: LoginCodes,
    pub(super) passwords: PasswordHashing,
    /// The uses of tokens that were written lately.
    pub(super) uses: NotedUses,
    /// The memory budget for the bodies of all requests.
    pub(crate) bodies: BodyBudget,
}

impl AccessPolicy {
    /// An access policy for a node on this port that accepts the host names of loopback and these.
    pub(crate) fn new(
        names: impl IntoIterator<Item = String>,
        port: u16,
        keys: Arc<KeyRing>,
        sessions: Arc<KeyRing>,
    ) -> Self {
        let mut hosts: BTreeSet<String> = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(ToOwned::to_owned));
        Self {
            hosts,
            origins: BTreeSet::new(),
            proxies: TrustedProxies::default(),
            proxy_login: None,
            stranger_noted: AtomicBool::new(false),
            keys,
            sessions,
            port,
            wrong_keys: WrongKeys::default(),
            guesses: PasswordGuesses::default(),
            login_codes: LoginCodes::default(),
            passwords: PasswordHashing::default(),
            uses: NotedUses::default(),
            bodies: BodyBudget::new(),
        }
    }

    /// The keys with which nodes of this cluster sign sessions.
    pub(crate) fn sessions(&self) -> &KeyRing {
        &self.sessions
    }

    /// The epochs of sessions that the cluster's keys began, the first key's first: a key that is no longer accepted ends
    /// them.
    pub(super) fn key_epochs(&self) -> Vec<u64> {
        self.keys.signatures(EPOCH).iter().map(|digits| number(digits)).collect()
    }

    /// The epoch of sessions that this key begins; `None` if it is none of the cluster's.
    pub(super) fn epoch_of_key(&self, shown: &str) -> Option<u64> {
        self.keys.signature_of(shown.as_bytes(), EPOCH).map(|digits| number(&digits))
    }

    /// The holder of the cluster's key, as the subject of a session.
    pub(crate) fn key_subject(&self) -> SessionSubject {
        SessionSubject {
            owner: SessionOwner::Key,
            epoch: self.key_epochs().first().copied().unwrap_or_default(),
        }
    }

    /// The same, which also answers pages of these origins, and believes these proxies, also for whom they vouch.
    #[must_use]
    pub(crate) fn reached_by(
        self,
        origins: BTreeSet<String>,
        proxies: TrustedProxies,
        proxy_login: Option<ProxyLogin>,
    ) -> Self {
        Self { origins, proxies, proxy_login, ..self }
    }

    /// Whether this is the first caller that vouches for a person and is no proxy.
    pub(super) fn is_first_stranger(&self) -> bool {
        !self.stranger_noted.swap(true, Ordering::Relaxed)
    }

    /// The cluster's keys.
    pub(crate) fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Whether a `Host` header names this node, whatever the port.
    pub(super) fn accepts_host(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority).map(str::to_ascii_lowercase) else { return false };
        // A name may end with the dot of the root.
        self.hosts.contains(host.trim_end_matches('.'))
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// The host of `HOST`, `HOST:PORT` or `[IPv6]:PORT`; `None` of anything else.
pub(super) fn host_of(authority: &str) -> Option<&str> {
    let end = match authority.rfind(']') {
        Some(end) => end + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at_checked(end)?;
    let port = if port.is_empty() { port } else { port.strip_prefix(':')? };
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(host)
}
