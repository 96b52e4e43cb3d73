//! What a probe asks without a key: whether this node works, and whether it may be given work.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use evenkeel_core::ids::NodeName;
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::headers::text;
use super::route_docs::{RouteDocs, does};
use crate::client::{CHALLENGE, PROOF};
use crate::listen::Caller;
use crate::queries;

/// Whether the process works: a supervisor starts a node anew that does not say so. A node that lost its registry says it:
/// its runs would end with it.
pub(super) const HEALTH: &str = "/api/v1/health";
/// Whether the node is a member that may act and stays: what a load balancer asks.
pub(super) const READY: &str = "/api/v1/ready";

/// What the description says of both; they need no key.
pub(super) const PROBES: [(&str, RouteDocs); 2] = [
    (HEALTH, does("Says whether the process works; 503 once only a restart helps").answers::<ProbeAnswer>()),
    (READY, does("Says whether the node may be given work; 503 while it may not").answers::<ProbeAnswer>()),
];

/// What a probe is answered, whatever the status.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ProbeAnswer {
    /// `member`, or why the node is no member that may act and stays.
    status: String,
    /// The node.
    #[schemars(with = "String")]
    node: NodeName,
    /// The version of its program.
    version: &'static str,
}

/// The longest challenge that is answered, in characters.
const CHALLENGE_MAX: usize = 64;

/// Whether a path is one of these: answered under any host name, since a probe knows the node by an address at most.
pub(super) fn is_probe(path: &str) -> bool {
    [HEALTH, READY].contains(&path)
}

pub(super) async fn health(
    State(app): State<App>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
) -> Response {
    let status = match queries::is_closed(&app.handle) {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::OK,
    };
    answer(&app, status, caller, &headers)
}

pub(super) async fn ready(
    State(app): State<App>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
) -> Response {
    let status = match obstacle(&app) {
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
        None => StatusCode::OK,
    };
    answer(&app, status, caller, &headers)
}

/// Why the node is no member that may act and stays.
fn obstacle(app: &App) -> Option<String> {
    let handle = &app.handle;
    if queries::is_closed(handle) {
        return Some("closed from outside: start it again".to_owned());
    }
    if queries::is_leaving(handle) {
        return Some("leaving".to_owned());
    }
    if !queries::is_member(handle) {
        return Some("not a member".to_owned());
    }
    handle.history_trouble()
}

/// Both answers say the same, whatever their status. A caller on this host that names the node rightly may ask it to prove
/// that it has the cluster's key.
fn answer(app: &App, status: StatusCode, caller: Option<Extension<Caller>>, headers: &HeaderMap) -> Response {
    let word = obstacle(app).unwrap_or_else(|| "member".to_owned());
    let body =
        ProbeAnswer { status: word, node: app.handle.name().clone(), version: env!("CARGO_PKG_VERSION") };
    let mut response = (status, Json(body)).into_response();
    let here = caller.is_some_and(|Extension(caller)| caller.0.ip().is_loopback());
    let named = text(headers, &header::HOST).is_some_and(|host| app.access.accepts_host(host));
    let challenge = headers.get(CHALLENGE).and_then(|challenge| challenge.to_str().ok());
    let answered = |text: &&str| here && named && text.len() <= CHALLENGE_MAX && is_hex(text);
    if let Some(challenge) = challenge.filter(answered) {
        let proof = app.access.keys().proofs(app.access.port, challenge);
        let proof = proof.parse().ok().map(|proof| (HeaderName::from_static(PROOF), proof));
        response.headers_mut().extend(proof);
    }
    response
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
