//! Jobs that make an HTTP request: its address, its content, and the answers that count as success.

mod codes;
mod template;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use serde::{Deserialize, Serialize};

use super::defaults::{is_default, is_yes, yes};
use crate::characters::refuse_hidden;
use crate::spelling;
use crate::time::Millis;

pub use codes::StatusCodes;
pub use template::{BODY_MAX, TemplatePart, fill, read};

/// The longest time of a request whose job has no `timeout`: none waits for ever.
pub const HTTP_TIMEOUT: Millis = Millis::secs(300);
/// The most redirects that a job may follow.
pub const REDIRECTS_MAX: u32 = 10;
/// The most headers that a job may give.
pub const HEADERS_MAX: usize = 64;

/// The longest address and the longest header, in bytes: what servers take.
const TEXT_MAX: usize = 4096;
/// The allowed methods. Those for tunnels and loops are not among them.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// The headers that a job may not give, since they belong to the connection.
const FRAMING: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// The headers that every request has, beside those that begin with [`OWN`].
const KEY: &str = "idempotency-key";
const OWN: &str = "evenkeel-";

/// A job's `http` as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// The address: `http://…` or `https://…`.
    pub url: String,
    /// The method; GET when empty, POST where there is a body.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// Additional headers; `{{secret:NAME}}` stands for the content of a file of the node.
    /// Every request of a run has its own ones beside these.
    #[serde(
        default,
        deserialize_with = "super::written::entries",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub headers: BTreeMap<String, String>,
    /// The body: a text in which `{{run}}` and the like stand for facts of the run, `{{parameter:NAME}}` for the value of a
    /// parameter, and `{{secret:NAME}}` for the content of a file of the node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// The status codes that count as success; 200-299 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub success: StatusCodes,
    /// How many redirects are followed; none when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub redirects: u32,
    /// A file with the certificates that are trusted instead of the host's, on each node.
    #[serde(default, deserialize_with = "super::written::filled", skip_serializing_if = "String::is_empty")]
    pub ca: String,
    /// `false`: the server's certificate is not checked.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub verify: bool,
}

impl Http {
    /// A request with every default.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_string(),
            method: String::new(),
            headers: BTreeMap::new(),
            body: String::new(),
            success: StatusCodes::default(),
            redirects: 0,
            ca: String::new(),
            verify: true,
        }
    }

    /// The method, given or by default.
    #[must_use]
    pub fn method(&self) -> &str {
        match (self.method.as_str(), self.body.is_empty()) {
            ("", true) => "GET",
            ("", false) => "POST",
            (said, _) => said,
        }
    }

    /// The names of the secrets in its headers and its body.
    #[must_use]
    pub fn secrets(&self) -> BTreeSet<&str> {
        let texts = self.headers.values().chain([&self.body]);
        let pieces = texts.flat_map(|text| read(text).unwrap_or_default());
        let secret = |piece| match piece {
            TemplatePart::Secret { name, json: _ } => Some(name),
            TemplatePart::Text(_) | TemplatePart::Fact { .. } | TemplatePart::Parameter { .. } => None,
        };
        pieces.filter_map(secret).collect()
    }

    /// The names of the parameters in its body.
    #[must_use]
    pub fn parameters(&self) -> BTreeSet<&str> {
        let pieces = read(&self.body).unwrap_or_default().into_iter();
        let parameter = |piece| match piece {
            TemplatePart::Parameter { name, json: _ } => Some(name),
            TemplatePart::Text(_) | TemplatePart::Fact { .. } | TemplatePart::Secret { .. } => None,
        };
        pieces.filter_map(parameter).collect()
    }

    /// Refuses an invalid request, with the field and the fix.
    pub(super) fn validate(&self) -> Result<(), String> {
        self.validate_url()?;
        if !METHODS.contains(&self.method()) {
            let meant = spelling::nearest(&self.method.to_ascii_uppercase(), METHODS.iter().copied());
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
            let all = METHODS.join(", ");
            return Err(format!("http.method is {:?}: use one of {all}{meant}", self.method));
        }
        if !self.body.is_empty() && ["GET", "HEAD"].contains(&self.method()) {
            return Err(format!(
                "http.body goes with POST, PUT or PATCH, and the method is {}: leave one of them out",
                self.method()
            ));
        }
        read(&self.body).map_err(|wrong| format!("http.body, {wrong}"))?;
        if self.headers.len() > HEADERS_MAX {
            return Err(format!(
                "http.headers has {}, allowed are at most {HEADERS_MAX}",
                self.headers.len()
            ));
        }
        self.headers.iter().try_for_each(|(name, value)| header(name, value))?;
        if let Some(name) = self.twice() {
            return Err(format!("http.headers has {name} twice, for case does not matter: once is enough"));
        }
        self.success.validate()?;
        if self.redirects > REDIRECTS_MAX {
            return Err(format!("http.redirects is {}, allowed are 0 to {REDIRECTS_MAX}", self.redirects));
        }
        self.validate_trust()
    }

    fn validate_url(&self) -> Result<(), String> {
        if self.url.contains("{{") {
            return Err("http.url: only http.body is filled in; say there what the run is".into());
        }
        check_address("http.url", &self.url)
    }

    /// The name of a header that is given twice in different case: which of the two is sent would be chance.
    fn twice(&self) -> Option<&str> {
        let mut names = self.headers.keys().enumerate();
        let before =
            |at: usize, name: &str| self.headers.keys().take(at).any(|n| n.eq_ignore_ascii_case(name));
        names.find(|(at, name)| before(*at, name)).map(|(_, name)| name.as_str())
    }

    fn validate_trust(&self) -> Result<(), String> {
        let (said, secure) = (!self.ca.is_empty() || !self.verify, self.url.starts_with("https://"));
        if said && !secure {
            return Err("http.ca and http.verify are about https, and http.url is not: leave them out".into());
        }
        if !self.ca.is_empty() && !self.verify {
            return Err("http.ca is not looked at with verify = false: leave one of them out".into());
        }
        if !self.ca.is_empty() && !self.ca.starts_with('/') || self.ca.contains('\0') {
            return Err(format!("http.ca is {:?}: write the whole path, which begins with /", self.ca));
        }
        Ok(())
    }
}

/// Checks that this key of a job is an address to which a request can be sent.
pub(super) fn check_address(field: &str, url: &str) -> Result<(), String> {
    // The address is not shown: it may contain passwords and tokens, and refusals are written down.
    let fail = |why: &str| Err(format!("{field}: {why}"));
    if url.len() > TEXT_MAX {
        return Err(format!("{field} is longer than {TEXT_MAX} bytes"));
    }
    refuse_hidden(field, url)?;
    if !url.bytes().all(|b| b.is_ascii_graphic()) || url.contains('\\') {
        return fail("write blanks, backslashes and what is not ASCII percent-encoded, as %20");
    }
    let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
        return fail("write http://HOST/PATH or https://HOST/PATH");
    };
    if url.contains('#') {
        return fail("what follows # is never sent: leave it out");
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return fail("it holds a user or a password: give an Authorization header instead");
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or((!port.is_empty()).then_some(port))),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return fail("it names no host");
    }
    if port.is_some_and(|port| port.parse::<u16>().ok().is_none_or(|port| port == 0)) {
        return fail("its port is no number from 1 to 65535");
    }
    Ok(())
}

/// Refuses a header that is invalid, or that a job may not give.
fn header(name: &str, value: &str) -> Result<(), String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || name.len() > TEXT_MAX || !name.bytes().all(token) {
        return Err(format!("http.headers names {name:?}, which is no header's name"));
    }
    let lower = name.to_ascii_lowercase();
    if lower == KEY || lower.starts_with(OWN) {
        return Err(format!(
            "http.headers names {name}: it is set for every run and never the job's own, leave it out"
        ));
    }
    if FRAMING.contains(&lower.as_str()) {
        return Err(format!("http.headers names {name}, which the connection sets itself: leave it out"));
    }
    let shown = |b: u8| b == b'\t' || (b' '..=b'~').contains(&b);
    if value.len() > TEXT_MAX || !value.bytes().all(shown) {
        return Err(format!(
            "http.headers gives {name} what no header holds: one short line of ASCII is allowed"
        ));
    }
    template::read_header(value).map_err(|wrong| format!("http.headers, {name}, {wrong}"))
}

#[cfg(test)]
mod tests;
