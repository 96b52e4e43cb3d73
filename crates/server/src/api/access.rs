//! What is checked of every request by its head: host names of this node, same-origin requests, JSON bodies.
//!
//! Any web page can make a browser talk to loopback, so the checks are the same there as on a network.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use evenkeel::audit::Proof;
use evenkeel::clock;

use super::access_policy::{AccessPolicy, host_of};
use super::forwarded::{self, Forwarded};
use super::headers::{set, text};
use super::http_metrics::METRICS;
use super::wrong_keys::WrongKeyMarker;
use super::{ApiError, App, audited, health, hooks, proxy_user};
use crate::listen::OpenConnection;

/// The content security policy: no foreign resources, no inline scripts, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Checks every request before it is handled.
pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let resolved = forwarded::resolve(&app.access.proxies, &mut request)
        .and_then(|()| proxy_user::resolve(&app.access, &mut request));
    let page = is_page(request.uri().path());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let began = clock::now().mono;
    let asker = audited::asker(Proof::Nobody, &request);
    let elsewhere = allowed_origin(&app.access, request.headers());
    let encrypted = is_encrypted(&request);
    let mut response = match resolved.and_then(|()| checked(&app.access, &request)) {
        Ok(()) if elsewhere.is_some() && method == Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let took = u64::try_from((clock::now().mono - began).0).unwrap_or(0);
    app.http_metrics.answered(&method, route, response.status(), Duration::from_millis(took));
    let tried_key = response.extensions().get::<WrongKeyMarker>().is_some();
    if audited::is_denial(&response) && (tried_key || !audited::is_question(&method)) {
        let why = audited::response_text(&response);
        let asker = audited::with_tried_user(asker, &response);
        app.denials.note(&app.handle, asker, &method, &hooks::masked(&path), why).await;
    }
    let headers = response.headers_mut();
    if encrypted {
        secure_cookies(headers);
    }
    set(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(headers, header::CONTENT_SECURITY_POLICY, POLICY);
    set(headers, header::X_FRAME_OPTIONS, "DENY");
    // With `no-referrer` a browser says `Origin: null` of the own forms, too.
    set(headers, header::REFERRER_POLICY, "same-origin");
    let readers = if elsewhere.is_some() { "cross-origin" } else { "same-origin" };
    set(headers, HeaderName::from_static("cross-origin-resource-policy"), readers);
    if let Some(origin) = elsewhere {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        set(headers, header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, DELETE");
        set(headers, header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, evenkeel-client");
        set(headers, header::VARY, "origin");
    }
    // The name of such a file changes with its contents.
    let lasts = path.starts_with("/assets/") && response.status().is_success();
    let keep = match page {
        true if lasts => "public, max-age=31536000, immutable",
        true => "no-cache",
        false => "no-store",
    };
    set(response.headers_mut(), header::CACHE_CONTROL, keep);
    response
}

/// Marks the cookies of a response: a browser that got them over https sends them over nothing else.
fn secure_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<_> = headers.get_all(header::SET_COOKIE).iter().cloned().collect();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        let secure =
            cookie.to_str().ok().and_then(|text| HeaderValue::try_from(format!("{text}; Secure")).ok());
        headers.append(header::SET_COOKIE, secure.unwrap_or(cookie));
    }
}

/// The origin by which the caller uses this node, which [`guard`] has checked.
pub(super) fn own_origin(request: &Request) -> String {
    let said = request.extensions().get::<Forwarded>().and_then(|said| said.host.as_deref());
    let host = said.or_else(|| text(request.headers(), &header::HOST)).unwrap_or_default();
    format!("{}://{host}", if is_encrypted(request) { "https" } else { "http" })
}

/// Whether the caller's own connection is encrypted: to this node, or to the proxy in front of it.
fn is_encrypted(request: &Request) -> bool {
    let said = request.extensions().get::<Forwarded>().and_then(|said| said.scheme);
    let open = request.extensions().get::<Arc<OpenConnection>>();
    said.map_or_else(|| open.is_some_and(|open| open.is_encrypted()), |scheme| scheme == "https")
}

/// Checks a request by its head alone: no byte of its body is read before the sender is known.
fn checked(door: &AccessPolicy, request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let open = request.extensions().get::<Arc<OpenConnection>>();
    if let Some(fault) = open.and_then(|open| open.fault()) {
        return Err(ApiError::invalid(fault.fix()));
    }
    if open.is_some_and(|open| open.lacks_tls()) {
        let text = "this port speaks https: write https:// before the address; see docs/security.md";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "lacks_tls", text));
    }
    if open.is_some_and(|open| open.is_spare()) && !is_of_reserve(request) {
        let text = "all connections for callers from your address are taken: close some, or try again";
        return Err(ApiError::unavailable(text));
    }
    let host = named(door, request)?;
    foreign(door, request, host)?;
    // What a webhook's sender sends is not looked at.
    let is_other = is_form(headers, request.uri().path()) || hooks::is_hook(request);
    if [Method::POST, Method::PUT].contains(request.method()) && !is_json(headers) && !is_other {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "send a JSON body with Content-Type: application/json",
        ));
    }
    Ok(())
}

/// Whether the request may use the reserve of connections.
fn is_of_reserve(request: &Request) -> bool {
    let path = request.uri().path();
    path.starts_with("/peer/") || health::is_probe(path)
}

/// The host name that the request uses for this node, checked against the names of the node.
fn named<'a>(door: &AccessPolicy, request: &'a Request) -> Result<&'a str, ApiError> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    if hosts.next().is_some() {
        return Err(ApiError::invalid("a request has one Host header: send it once"));
    }
    let said = request.extensions().get::<Forwarded>();
    // A monitoring system knows the node by an address at most, and brings a token.
    let anywhere = |path: &str| health::is_probe(path) || path == METRICS;
    let accepts = |name: &str| door.accepts_host(name) || anywhere(request.uri().path());
    let unknown = |name: &str| {
        ApiError::forbidden(format!(
            "this node is not called {name:?}: use the name that it advertises, or start it with --allowed-host {}",
            host_of(name).unwrap_or(name)
        ))
    };
    // Behind a proxy that says which host its caller asked, the proxy may use any name for this node.
    if let Some(asked) = said.and_then(|said| said.host.as_deref()) {
        return if accepts(asked) { Ok(asked) } else { Err(unknown(asked)) };
    }
    if !accepts(host) {
        return Err(unknown(host));
    }
    let target = request.uri();
    if target.scheme_str().is_some_and(|scheme| !scheme.eq_ignore_ascii_case("http")) {
        return Err(ApiError::invalid("this node is no proxy: ask for a path, such as /api/v1/jobs"));
    }
    match target.authority() {
        Some(other) if !accepts(other.as_str()) => Err(unknown(other.as_str())),
        Some(other) if !other.as_str().eq_ignore_ascii_case(host) => Err(ApiError::invalid(
            "the address and the Host header name two hosts: send the same, or a path alone",
        )),
        _ => Ok(host),
    }
}

/// Refuses a request that a page of another site made a browser send. Such a page cannot read the response, but
/// it could change things and keep the node busy. It may only link to the console.
fn foreign(door: &AccessPolicy, request: &Request, host: &str) -> Result<(), ApiError> {
    let headers = request.headers();
    if allowed_origin(door, headers).is_some() {
        return Ok(());
    }
    let said = request.extensions().get::<Forwarded>().and_then(|said| said.scheme);
    // Plain http may come from a proxy that is not named, to which its callers speak https.
    let scheme = said.or_else(|| is_encrypted(request).then_some("https"));
    let asks = [Method::GET, Method::HEAD].contains(request.method());
    let may = if asks { "ask for anything" } else { "change anything" };
    if let Some(origin) = text(headers, &header::ORIGIN)
        && !is_own(origin, host, scheme)
    {
        return Err(ApiError::forbidden(format!(
            "a page of {origin} may not {may} here: use the node's own"
        )));
    }
    let said = |name: &'static str| text(headers, &HeaderName::from_static(name));
    let opens = asks && is_page(request.uri().path()) && said("sec-fetch-dest") == Some("document");
    match said("sec-fetch-site") {
        Some(site) if !["same-origin", "none"].contains(&site) && !opens => {
            Err(ApiError::forbidden(format!("a page from elsewhere may not {may} here: use the node's own")))
        }
        _ => Ok(()),
    }
}

/// Whether an origin is this node under the host name that the request uses, and the scheme if it is known.
fn is_own(origin: &str, host: &str, scheme: Option<&str>) -> bool {
    let Some((by, named)) = origin.split_once("://") else { return false };
    named == host && scheme.map_or(["http", "https"].contains(&by), |scheme| by == scheme)
}

/// The origin of a page elsewhere that the settings allow.
fn allowed_origin(door: &AccessPolicy, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    door.origins.contains(origin.to_str().ok()?).then(|| origin.clone())
}

fn is_page(path: &str) -> bool {
    !path.starts_with("/api/") && !path.starts_with("/peer/") && path != METRICS
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = text(headers, &header::CONTENT_TYPE).and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether a request is a form that the login page sends.
fn is_form(headers: &HeaderMap, path: &str) -> bool {
    let kind = text(headers, &header::CONTENT_TYPE).and_then(|kind| kind.split(';').next());
    ["/login", "/logout"].contains(&path) && kind == Some("application/x-www-form-urlencoded")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{ClusterKey, KeyRing};

    #[test]
    fn a_door_knows_its_own_names_only() {
        let ring = |text: &str| Arc::new(KeyRing::new(ClusterKey::new(text.to_owned()), []));
        let door = AccessPolicy::new(
            ["Node-1.example".to_owned(), "10.0.0.7".to_owned()],
            7700,
            ring("correct-horse-battery"),
            ring("0123456789abcdef"),
        );
        for known in
            ["127.0.0.1", "localhost:7700", "[::1]:7700", "127.0.0.9:1", "node-1.example:7700", "10.0.0.7"]
        {
            assert!(door.accepts_host(known), "{known}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example:7700",
            "10.0.0.8:7700",
            "127.0.0.1.nip.io",
            "127.0.0.1:80:evil.example",
            "127.0.0.1:evil",
            "[::1]evil.example",
            "me@127.0.0.1",
            "127.0.0.1:80@evil.example",
        ] {
            assert!(!door.accepts_host(other), "{other}");
        }
    }
}
