//! The access policy: host names of this node, same-origin requests, JSON bodies of bounded size, the cluster's key.
//!
//! Any web page can make a browser talk to loopback, so the checks are the same there as on a network.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use evenkeel::audit::Proof;

use super::access_policy::{AccessPolicy, host_of};
use super::error::StandbyMarker;
use super::wrong_keys::{WrongKeyPenalty, WrongKeys};
use super::{ApiError, App, audited};
use crate::client::LEADER;
use crate::key::ClusterKey;
use crate::listen::{Caller, OpenConnection};

/// The size limit of a body, and of a body of `jobs/apply`.
const BODY_BYTES_MAX: usize = 1 << 20;
const APPLY_BYTES_MAX: usize = 16 << 20;
/// The time limit for a body to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// The content security policy: no foreign resources, no inline scripts, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Checks every request before it is handled.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let page = is_page(request.uri().path());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let asker = audited::asker(Proof::Nobody, &request);
    let mut response = match checked(&app.access, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let tried_key = response.extensions().get::<WrongKeyMarker>().is_some();
    if audited::is_denial(&response) && (tried_key || !audited::is_question(&method)) {
        let why = audited::response_text(&response);
        app.denials.note(&app.handle, asker, &method, &path, why).await;
    }
    let headers = response.headers_mut();
    set(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(headers, header::CONTENT_SECURITY_POLICY, POLICY);
    set(headers, header::X_FRAME_OPTIONS, "DENY");
    set(headers, header::REFERRER_POLICY, "no-referrer");
    set(headers, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(headers, header::CACHE_CONTROL, if page { "no-cache" } else { "no-store" });
    response
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}

/// Requires the cluster's key, if there is one, and then reads the body of the request.
pub(crate) async fn key(State(app): State<App>, request: Request, next: Next) -> Response {
    let shown =
        text(request.headers(), &header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if let Some(key) = &app.access.key {
        let from = request.extensions().get::<Caller>().map(|caller| caller.0.ip());
        if let Some(refusal) = unlocked(&app.access.wrong_keys, (key, shown), from).await {
            return refusal;
        }
    }
    match whole(&app.access, request).await {
        Ok(request) => pointed(&app, next.run(request).await),
        Err(refusal) => refusal.into_response(),
    }
}

/// Marks the refusal of a request that showed a wrong key.
#[derive(Clone, Copy, Debug)]
struct WrongKeyMarker;

/// Checks the key that a caller shows; returns the refusal if it is not let in.
async fn unlocked(
    wrong_keys: &WrongKeys,
    (key, shown): (&ClusterKey, Option<&str>),
    from: Option<IpAddr>,
) -> Option<Response> {
    const FIX: &str = "give it with --cluster-key-file or as Authorization: Bearer KEY";
    let Some(shown) = shown else { return Some(unauthorized(format!("the key is missing: {FIX}"))) };
    let now = evenkeel::clock::now().mono;
    if let Some(left) = from.and_then(|from| wrong_keys.locked_for(from, now)) {
        let seconds = left.0.unsigned_abs().div_ceil(1_000);
        let text = format!("too many wrong keys came from your address: try again in {seconds} s");
        let mut response = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "locked_out", text).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        return Some(response);
    }
    if key.is(shown.as_bytes()) {
        from.inspect(|from| wrong_keys.forget(*from));
        return None;
    }
    match from.map(|from| (from, wrong_keys.count(from, now))) {
        Some((from, WrongKeyPenalty::Lock(lock, in_a_row))) => {
            tracing::warn!("callers from {from} are locked out for {lock}: {in_a_row} wrong keys in a row");
        }
        Some((_, WrongKeyPenalty::Wait(wait))) => {
            tokio::time::sleep(Duration::from_millis(wait.0.unsigned_abs())).await;
        }
        Some((_, WrongKeyPenalty::None)) | None => {}
    }
    let mut response = unauthorized(format!("the key is not the cluster's: {FIX}"));
    response.extensions_mut().insert(WrongKeyMarker);
    Some(response)
}

fn unauthorized(text: String) -> Response {
    let mut response = ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", text).into_response();
    set(response.headers_mut(), header::WWW_AUTHENTICATE, "Bearer");
    response
}

/// Adds the address of the serving leader to a refusal of a standby node.
fn pointed(app: &App, mut response: Response) -> Response {
    if response.extensions().get::<StandbyMarker>().is_some() {
        let address =
            app.handle.with_node(|node| node.leader_elsewhere().map(|(_, address)| address.to_owned()));
        let value = address.and_then(|address| {
            let scheme = app.tls_mode.scheme(&address);
            HeaderValue::try_from(format!("{scheme}://{address}")).ok()
        });
        response.headers_mut().extend(value.map(|value| (HeaderName::from_static(LEADER), value)));
    }
    response
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
    foreign(request, host)?;
    if [Method::POST, Method::PUT].contains(request.method()) && !is_json(headers) {
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
    path.starts_with("/peer/") || path == "/api/v1/health"
}

/// The host name that the request uses for this node, checked against the names of the node.
fn named<'a>(door: &AccessPolicy, request: &'a Request) -> Result<&'a str, ApiError> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    if hosts.next().is_some() {
        return Err(ApiError::invalid("a request has one Host header: send it once"));
    }
    let unknown = |name: &str| {
        ApiError::forbidden(format!(
            "this node is not called {name:?}: use the name that it advertises, or start it with --allowed-host {}",
            host_of(name).unwrap_or(name)
        ))
    };
    if !door.accepts_host(host) {
        return Err(unknown(host));
    }
    let target = request.uri();
    if target.scheme_str().is_some_and(|scheme| !scheme.eq_ignore_ascii_case("http")) {
        return Err(ApiError::invalid("this node is no proxy: ask for a path, such as /api/v1/jobs"));
    }
    match target.authority() {
        Some(other) if !door.accepts_host(other.as_str()) => Err(unknown(other.as_str())),
        Some(other) if !other.as_str().eq_ignore_ascii_case(host) => Err(ApiError::invalid(
            "the address and the Host header name two hosts: send the same, or a path alone",
        )),
        _ => Ok(host),
    }
}

/// Refuses a request that a page of another site made a browser send. Such a page cannot read the response, but
/// it could change things and keep the node busy. It may only link to the console.
fn foreign(request: &Request, host: &str) -> Result<(), ApiError> {
    let headers = request.headers();
    let asks = [Method::GET, Method::HEAD].contains(request.method());
    let may = if asks { "ask for anything" } else { "change anything" };
    if let Some(origin) = text(headers, &header::ORIGIN)
        && origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) != Some(host)
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

fn is_page(path: &str) -> bool {
    !path.starts_with("/api/") && !path.starts_with("/peer/")
}

/// Reads the whole body, bounded in size and time, so that no handler has to.
async fn whole(door: &AccessPolicy, request: Request) -> Result<Request, ApiError> {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let max = if path == Some("/api/v1/jobs/apply") { APPLY_BYTES_MAX } else { BODY_BYTES_MAX };
    let (parts, body) = request.into_parts();
    let bytes = door.bodies.take(body, max, BODY_PATIENCE).await?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = text(headers, &header::CONTENT_TYPE).and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_tried_many_keys_is_locked_out_whatever_it_shows_next() {
        let (keys, key) = (WrongKeys::default(), ClusterKey::new("correct-horse-battery".to_owned()));
        let [guesser, other] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().ok());
        let status = async |shown, from| {
            let refusal = unlocked(&keys, (&key, Some(shown)), from).await?;
            Some((refusal.status().as_u16(), refusal.headers().contains_key(header::RETRY_AFTER)))
        };
        for _ in 0..6 {
            assert_eq!(status("wrong", guesser).await, Some((401, false)));
        }
        assert_eq!(status("wrong", guesser).await, Some((429, true)));
        assert_eq!(status("correct-horse-battery", guesser).await, Some((429, true)));
        assert_eq!(status("correct-horse-battery", other).await, None);
        let without = unlocked(&keys, (&key, None), guesser).await.map(|refusal| refusal.status());
        assert_eq!(without, Some(StatusCode::UNAUTHORIZED), "it learns what is missing");
    }

    #[test]
    fn a_door_knows_its_own_names_only() {
        let door = AccessPolicy::new(["Node-1.example".to_owned(), "10.0.0.7".to_owned()], None);
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
