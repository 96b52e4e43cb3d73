//! What proxies that the settings name say of their callers. What others say of themselves is ignored.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName};

use super::ApiError;
use crate::listen::Caller;
use crate::proxies::TrustedProxies;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What a proxy says of a request; a request has it as an extension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Forwarded {
    /// The host that the caller asked.
    pub(super) host: Option<String>,
    /// The scheme that it used.
    pub(super) scheme: Option<&'static str>,
}

/// Notes in a request what a trusted proxy says of it: its caller, in place of the proxy, and [`Forwarded`].
pub(super) fn resolve(proxies: &TrustedProxies, request: &mut Request) -> Result<(), ApiError> {
    let Some(Caller(proxy)) = request.extensions().get::<Caller>().copied() else { return Ok(()) };
    if !proxies.contains(proxy.ip()) {
        return Ok(());
    }
    let forwarded = forwarded(request.headers())?;
    let caller = caller(proxies, request.headers())?.map_or(proxy, |ip| SocketAddr::new(ip, 0));
    request.extensions_mut().insert(Caller(caller));
    request.extensions_mut().insert(forwarded);
    Ok(())
}

/// The caller behind the proxies: the last address in the list that is no proxy itself. The caller may have written
/// those before it.
fn caller(proxies: &TrustedProxies, headers: &HeaderMap) -> Result<Option<IpAddr>, ApiError> {
    let mut first = None;
    for text in listed(headers, &FOR)?.into_iter().rev() {
        let ip = address(text).ok_or_else(|| senseless(&FOR))?;
        first = Some(ip);
        if !proxies.contains(ip) {
            break;
        }
    }
    Ok(first)
}

fn forwarded(headers: &HeaderMap) -> Result<Forwarded, ApiError> {
    let scheme = match listed(headers, &PROTO)?.pop() {
        None => None,
        Some("http") => Some("http"),
        Some("https") => Some("https"),
        Some(_) => return Err(senseless(&PROTO)),
    };
    let host = listed(headers, &HOST)?.pop().map(ToOwned::to_owned);
    Ok(Forwarded { host, scheme })
}

/// The parts of a header that each proxy adds to, in their order.
fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Vec<&'a str>, ApiError> {
    let mut parts = Vec::new();
    for value in headers.get_all(name) {
        let value = value.to_str().map_err(|_| senseless(name))?;
        parts.extend(value.split(',').map(str::trim).filter(|part| !part.is_empty()));
    }
    Ok(parts)
}

/// An address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    bare.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip())).map(|ip| ip.to_canonical())
}

fn senseless(name: &HeaderName) -> ApiError {
    ApiError::invalid(format!("the proxy's header {name} makes no sense: correct the proxy's settings"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    use super::*;

    fn proxies(networks: &[&str]) -> TrustedProxies {
        TrustedProxies::new(networks.iter().map(|text| text.parse().expect("a network")).collect())
    }

    /// The caller of a request from this address with these headers, and what the proxy says of it.
    fn seen(
        proxies: &TrustedProxies,
        from: &str,
        headers: &[(&str, &str)],
    ) -> Result<(String, Option<Forwarded>), StatusCode> {
        let builder =
            headers.iter().fold(Request::get("/"), |builder, (name, value)| builder.header(*name, *value));
        let mut request = builder.body(Body::empty()).expect("a request");
        request.extensions_mut().insert(Caller(SocketAddr::new(from.parse().expect("an address"), 9)));
        resolve(proxies, &mut request).map_err(|refusal| refusal.into_response().status())?;
        let caller = request.extensions().get::<Caller>().map(|caller| caller.0.ip().to_string());
        Ok((caller.expect("a caller"), request.extensions().get().cloned()))
    }

    #[test]
    fn only_named_proxies_are_believed() {
        let own = proxies(&["10.0.0.0/24", "2001:db8::5"]);
        let said = [
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-host", "jobs.example"),
            ("x-forwarded-proto", "https"),
        ];
        let forwarded = Forwarded { host: Some("jobs.example".to_owned()), scheme: Some("https") };
        for proxy in ["10.0.0.9", "::ffff:10.0.0.9", "2001:db8::5"] {
            assert_eq!(
                seen(&own, proxy, &said),
                Ok(("192.0.2.7".to_owned(), Some(forwarded.clone()))),
                "{proxy}"
            );
        }
        for other in ["10.0.1.9", "127.0.0.1", "2001:db8::6"] {
            assert_eq!(seen(&own, other, &said), Ok((other.to_owned(), None)));
        }
        assert_eq!(seen(&proxies(&[]), "10.0.0.9", &said), Ok(("10.0.0.9".to_owned(), None)));
        let nothing = Some(Forwarded::default());
        assert_eq!(
            seen(&own, "10.0.0.9", &[]),
            Ok(("10.0.0.9".to_owned(), nothing)),
            "the proxy itself asks"
        );
    }

    #[test]
    fn the_last_address_that_is_no_proxy_is_the_caller() {
        let own = proxies(&["10.0.0.0/24"]);
        let caller = |lists: &[&str]| {
            let headers: Vec<_> = lists.iter().map(|list| ("x-forwarded-for", *list)).collect();
            seen(&own, "10.0.0.9", &headers).map(|(caller, _)| caller)
        };
        for (lists, expected) in [
            (&["192.0.2.7"][..], "192.0.2.7"),
            (&["203.0.113.1, 192.0.2.7"], "192.0.2.7"),
            (&["203.0.113.1, 192.0.2.7, 10.0.0.8"], "192.0.2.7"),
            (&["203.0.113.1", "192.0.2.7"], "192.0.2.7"),
            (&["10.0.0.7, 10.0.0.8"], "10.0.0.7"),
            (&["192.0.2.7:4711"], "192.0.2.7"),
            (&["[2001:db8::7]:4711"], "2001:db8::7"),
            (&["2001:db8::7"], "2001:db8::7"),
            (&["::ffff:192.0.2.7"], "192.0.2.7"),
            (&["a word, 192.0.2.7"], "192.0.2.7"),
        ] {
            assert_eq!(caller(lists), Ok(expected.to_owned()), "{lists:?}");
        }
        for senseless in ["unknown", "192.0.2.7, unknown", "_hidden"] {
            assert_eq!(caller(&[senseless]), Err(StatusCode::BAD_REQUEST), "{senseless}");
        }
        let proto = |value| seen(&own, "10.0.0.9", &[("x-forwarded-proto", value)]).map(|(_, said)| said);
        assert_eq!(proto("gopher"), Err(StatusCode::BAD_REQUEST));
        assert!(proto("http, https").is_ok_and(|said| said.is_some_and(|said| said.scheme == Some("https"))));
    }
}
