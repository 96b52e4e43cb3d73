//! Addresses of nodes, paths and queries.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::Value;
use ureq::http::Uri;

use crate::client::socket::socket_path;
use crate::error::{ClientError, ClientErrorKind};

/// The address without spaces and a slash at its end.
///
/// # Errors
/// It is no address of a node.
pub(crate) fn checked(address: &str) -> Result<String, ClientError> {
    let address = address.trim().trim_end_matches('/');
    let is_known = address.starts_with("http://")
        || address.starts_with("https://")
        || socket_path(address).is_some_and(std::path::Path::is_absolute);
    match is_known {
        true => Ok(address.to_owned()),
        false => Err(ClientError::new(
            ClientErrorKind::Settings,
            format!(
                "{address:?} is no address of a node: write https://HOST:PORT, http://HOST:PORT or unix:PATH"
            ),
        )),
    }
}

/// Whether an address is on this host.
#[must_use]
pub fn is_here(address: &str) -> bool {
    let Ok(uri) = address.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.is_ok_and(|ip| ip.to_canonical().is_loopback()) || host.eq_ignore_ascii_case("localhost")
}

/// Whether what is sent to this address would cross a network unencrypted.
#[must_use]
pub fn is_unencrypted(address: &str) -> bool {
    address.starts_with("http://") && !is_here(address)
}

/// The port of an address on this host.
pub(crate) fn loopback_port(address: &str) -> Option<u16> {
    let uri: Uri = address.parse().ok().filter(|_| is_here(address))?;
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    Some(uri.port_u16().unwrap_or(usual))
}

/// Escapes a name for a path: only characters that no path could mistake stay.
#[must_use]
pub fn escape(text: &str) -> String {
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

/// A path whose placeholders, as `{name}`, are replaced by these texts in their order.
pub(crate) fn path_of(template: &str, values: &[String]) -> String {
    let (mut path, mut values) = (String::new(), values.iter());
    let mut rest = template;
    while let Some((before, (_, after))) =
        rest.split_once('{').and_then(|(before, inner)| Some((before, inner.split_once('}')?)))
    {
        path.push_str(before);
        path.push_str(&values.next().map(|value| escape(value)).unwrap_or_default());
        rest = after;
    }
    path + rest
}

/// The query of an address with the fields of this value, or nothing. Fields without a value and `false` are left out,
/// which means the same.
pub(crate) fn query_of<T: Serialize>(query: &T) -> String {
    let fields = match serde_json::to_value(query) {
        Ok(Value::Object(fields)) => fields,
        _ => return String::new(),
    };
    let given = fields.into_iter().filter_map(|(key, value)| {
        let text = match value {
            Value::Null | Value::Bool(false) => return None,
            Value::String(text) => text,
            other => other.to_string(),
        };
        Some(format!("{}={}", escape(&key), escape(&text)))
    });
    let pairs: Vec<String> = given.collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_in_order_and_escaped() {
        let values = ["team-a/report 1".to_owned(), "7".to_owned()];
        assert_eq!(
            path_of("/jobs/{name}/versions/{version}", &values),
            "/jobs/team-a%2Freport%201/versions/7"
        );
        assert_eq!(path_of("/nodes", &[]), "/nodes");
    }

    #[test]
    fn a_query_has_what_is_given() {
        #[derive(Serialize)]
        struct SampleQuery {
            find: Option<&'static str>,
            after: Option<&'static str>,
            limit: Option<u32>,
            fold: bool,
        }
        let none = SampleQuery { find: None, after: None, limit: None, fold: false };
        assert_eq!(query_of(&none), "");
        let all = SampleQuery { find: Some("a&b"), after: Some("c=d"), limit: Some(0), fold: true };
        assert_eq!(query_of(&all), "?after=c%3Dd&find=a%26b&fold=true&limit=0");
    }

    #[test]
    fn only_what_stays_on_this_host_may_be_unencrypted() {
        for safe in [
            "http://127.0.0.1:7700",
            "http://localhost:1",
            "http://[::1]:1",
            "http://127.9.9.9",
            "https://10.0.0.7:7700",
            "https://evil.example",
            "unix:/run/evenkeel.sock",
        ] {
            assert!(!is_unencrypted(safe), "{safe}");
        }
        for other in [
            "http://10.0.0.7:7700",
            "http://localhost.evil.example",
            "http://127.0.0.1@evil.example",
            "http://[2001:db8::1]:1",
            "http://",
        ] {
            assert!(is_unencrypted(other), "{other}");
        }
    }

    #[test]
    fn other_addresses_are_refused_with_the_forms() {
        assert_eq!(checked(" http://h:1/ "), Ok("http://h:1".to_owned()));
        for wrong in ["", "h:7700", "ftp://h:1", "unix:relative"] {
            let refused = checked(wrong).expect_err("it is no address");
            assert_eq!(refused.kind, ClientErrorKind::Settings, "{wrong}");
            assert!(refused.message.contains("https://HOST:PORT"), "{}", refused.message);
        }
    }
}
