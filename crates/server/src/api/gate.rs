//! Who is let in: names this node answers to, pages it serves itself, JSON bodies of bounded size, the cluster's key.
//!
//! Any web page can make a browser talk to loopback, so the checks are the same there as on a network.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use evenkeel::audit::Proof;

use super::error::Standby;
use super::{ApiError, App, changes};
use crate::client::LEADER;
use crate::key::Key;

/// The largest body, and that of `jobs/apply`.
const BODY_BYTES_MAX: usize = 1 << 20;
const APPLY_BYTES_MAX: usize = 16 << 20;
/// A body must have arrived after this long.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// Nothing is loaded from elsewhere, nothing inline is run, nobody frames the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// What the doorkeeper knows.
pub(crate) struct Door {
    hosts: BTreeSet<String>,
    key: Option<Arc<Key>>,
}

impl Door {
    /// A door that answers to loopback's names and to these.
    pub(crate) fn new(names: impl IntoIterator<Item = String>, key: Option<Arc<Key>>) -> Self {
        let mut hosts: BTreeSet<String> = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(ToOwned::to_owned));
        Self { hosts, key }
    }

    /// The cluster's key, where there is one.
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_deref()
    }

    /// Whether a `Host` header names this node, whatever the port.
    fn knows(&self, authority: &str) -> bool {
        let host = host_of(authority).to_ascii_lowercase();
        // A name may end with the dot of the root.
        let host = host.trim_end_matches('.');
        self.hosts.contains(host)
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

fn host_of(authority: &str) -> &str {
    match authority.rfind(']') {
        Some(end) => authority.get(..=end).unwrap_or(authority),
        None => authority.split(':').next().unwrap_or(authority),
    }
}

/// Every request comes through here.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let page = !path.starts_with("/api/") && !path.starts_with("/peer/");
    let (method, path) = (request.method().clone(), path.to_owned());
    let asker = changes::asker(Proof::Nobody, &request);
    let mut response = match checked(&app.door, request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    if changes::is_denial(&response) && !changes::is_question(&method) {
        let why = changes::said(&response);
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

/// Lets in who shows the cluster's key, where there is one.
pub(crate) async fn key(State(app): State<App>, request: Request, next: Next) -> Response {
    let shown =
        text(request.headers(), &header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    match &app.door.key {
        Some(key) if !key.is(shown.unwrap_or_default().as_bytes()) => {
            let what = if shown.is_some() { "is not the cluster's" } else { "is missing" };
            let fix = "give it with --cluster-key-file or as Authorization: Bearer KEY";
            let error =
                ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", format!("the key {what}: {fix}"));
            let mut response = error.into_response();
            set(response.headers_mut(), header::WWW_AUTHENTICATE, "Bearer");
            response
        }
        _ => pointed(&app, next.run(request).await),
    }
}

/// Says where the serving leader answers, where this node refuses because another one serves.
fn pointed(app: &App, mut response: Response) -> Response {
    if response.extensions().get::<Standby>().is_some() {
        let address = app.handle.look(|node| node.leader_elsewhere().map(|(_, address)| address.to_owned()));
        let value = address.and_then(|address| HeaderValue::try_from(format!("http://{address}")).ok());
        response.headers_mut().extend(value.map(|value| (HeaderName::from_static(LEADER), value)));
    }
    response
}

async fn checked(door: &Door, request: Request) -> Result<Request, ApiError> {
    let headers = request.headers();
    let host = text(headers, &header::HOST).unwrap_or_default();
    if !door.knows(host) {
        let name = host_of(host);
        return Err(ApiError::forbidden(format!(
            "this node is not called {name:?}: use the name that it advertises, or start it with --allowed-host {name}"
        )));
    }
    if [Method::GET, Method::HEAD].contains(request.method()) {
        return Ok(request);
    }
    if let Some(origin) = text(headers, &header::ORIGIN)
        && origin.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme)).map(|(_, of)| of)
            != Some(host)
    {
        return Err(ApiError::forbidden(format!("a page of {origin} may not change anything here")));
    }
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return Err(ApiError::forbidden("a page from elsewhere may not change anything here"));
    }
    if [Method::POST, Method::PUT].contains(request.method()) && !is_json(headers) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "send a JSON body with Content-Type: application/json",
        ));
    }
    // Of a node nothing is read before it is known.
    if request.uri().path().starts_with("/peer/") { Ok(request) } else { whole(request).await }
}

/// Takes the body in at once, bounded in size and time, so that no handler has to.
async fn whole(request: Request) -> Result<Request, ApiError> {
    let max = if request.uri().path() == "/api/v1/jobs/apply" { APPLY_BYTES_MAX } else { BODY_BYTES_MAX };
    let (parts, body) = request.into_parts();
    let late = || ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body did not arrive in time");
    let large = |_| {
        let text = format!("the body is larger than {max} bytes or broke off: send less at once");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text)
    };
    let read = tokio::time::timeout(BODY_PATIENCE, to_bytes(body, max)).await;
    let bytes = read.map_err(|_| late())?.map_err(large)?;
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

    #[test]
    fn a_door_knows_its_own_names_only() {
        let door = Door::new(["Node-1.example".to_owned(), "10.0.0.7".to_owned()], None);
        for known in
            ["127.0.0.1", "localhost:7700", "[::1]:7700", "127.0.0.9:1", "node-1.example:7700", "10.0.0.7"]
        {
            assert!(door.knows(known), "{known}");
        }
        for other in ["", "evil.example", "localhost.evil.example:7700", "10.0.0.8:7700", "127.0.0.1.nip.io"]
        {
            assert!(!door.knows(other), "{other}");
        }
    }
}
