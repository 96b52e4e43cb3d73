//! The cookies of this node, each by a name of its own.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use evenkeel_core::time::Millis;

/// A cookie of this node.
pub(super) struct Cookie {
    name: &'static str,
    /// From which pages a browser that opens one of this node sends it.
    same_site: &'static str,
}

impl Cookie {
    /// A session: no page elsewhere makes a browser send it.
    pub(super) const SESSION: Self = Self { name: "evenkeel-session", same_site: "Strict" };
    /// A login that is under way at a provider, whose page sends the browser back here.
    pub(super) const LOGIN: Self = Self { name: "evenkeel-login", same_site: "Lax" };

    /// The values that a request has of it.
    pub(super) fn values<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let name = self.full_name(headers);
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter_map(move |(known, value)| (known == name).then_some(value))
    }

    /// The header that gives the browser this value for this time. No script reads it.
    pub(super) fn set(&self, headers: &HeaderMap, value: &str, keep: Millis) -> (HeaderName, HeaderValue) {
        let (name, seconds, site) = (self.full_name(headers), keep.0 / 1_000, self.same_site);
        let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={site}");
        (header::SET_COOKIE, HeaderValue::try_from(text).expect("a cookie has printable characters only"))
    }

    /// The header that takes it from the browser.
    pub(super) fn clear(&self, headers: &HeaderMap) -> (HeaderName, HeaderValue) {
        self.set(headers, "", Millis(0))
    }

    /// The name with the port: browsers do not tell ports apart, and a host may have nodes of several clusters.
    fn full_name(&self, headers: &HeaderMap) -> String {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let port = host.rsplit_once(':').map_or("", |(_, port)| port);
        let port = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" };
        format!("{}{}{port}", self.name, if port.is_empty() { "" } else { "-" })
    }
}
