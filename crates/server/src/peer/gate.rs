//! The server side of peer calls: authenticates requests and signs responses.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use evenkeel_core::ids::Member;
use evenkeel_core::time::Millis;

use super::envelope::RequestEnvelope;
use super::replay::ReplayError;
use super::{BODY_BYTES_MAX, BODY_PATIENCE, WINDOW};
use crate::api::{ApiError, App, REPLAYED, STALE};
use crate::key::{ClusterKey, digest};
use crate::listen::{Caller, OpenConnection};

/// The calling member: node and incarnation. Every accepted request has it as an extension.
#[derive(Clone, Debug)]
pub(super) struct PeerIdentity(pub(super) Member);

/// Accepts a request once, if it is signed with the cluster's key and addressed to this incarnation of this node.
pub(super) async fn gate(State(app): State<App>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().map(|caller| caller.0.ip());
    let envelope = match known(Some(app.access.key()), caller, &request) {
        Ok(envelope) => envelope,
        Err(refusal) => return refusal.into_response(),
    };
    if let Some(open) = request.extensions().get::<Arc<OpenConnection>>() {
        open.is_of_node();
    }
    let Some(own) = app.handle.with_node(evenkeel::core::node::Node::member) else {
        return ApiError::unavailable("this node is no member just now: ask another one").into_response();
    };
    let answer = match let_in(&app, &own, &envelope, request).await {
        Ok(mut request) => {
            request.extensions_mut().insert(PeerIdentity(envelope.from.clone()));
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    signed(Some(app.access.key()), &own, &envelope, answer).await
}

/// Authenticates the caller. With a key, the request must be signed; without one, the caller must be on this host.
fn known(
    key: Option<&ClusterKey>,
    caller: Option<IpAddr>,
    request: &Request,
) -> Result<RequestEnvelope, ApiError> {
    let refused = |why: String| ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", why);
    let read = RequestEnvelope::read(request.headers());
    let (envelope, signature) =
        read.map_err(|why| refused(format!("only nodes ask here, and sign: {why}")))?;
    let method = request.method();
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    match key {
        Some(key) if !envelope.is_signed(key, method, path, signature.as_deref()) => Err(refused(format!(
            "this request of {} is not signed with this cluster's key, or was changed on its way: give all nodes \
             the same --cluster-key-file",
            envelope.from
        ))),
        None if !caller.is_some_and(|caller| caller.is_loopback()) => Err(refused(
            "without a key only nodes of this host may ask: give all nodes --cluster-key-file".into(),
        )),
        _ => Ok(envelope),
    }
}

/// Reads the body of a caller's request, if it is for this incarnation, complete, near in time and new.
async fn let_in(
    app: &App,
    own: &Member,
    envelope: &RequestEnvelope,
    request: Request,
) -> Result<Request, ApiError> {
    if envelope.to != *own {
        let message = format!("this is {own}, not {}: read again who is a member", envelope.to);
        return Err(ApiError::new(StatusCode::CONFLICT, "other_life", message));
    }
    let (parts, body) = request.into_parts();
    let body = app.access.bodies.take(body, BODY_BYTES_MAX, BODY_PATIENCE).await?;
    if digest(&body) != envelope.digest {
        let message = "the body is not the one that was signed: it was changed on its way";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message));
    }
    let now = evenkeel::clock::now().wall;
    let mut seen = app.peer_server.seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.take(envelope.at, envelope.nonce, now).map_err(refused)?;
    drop(seen);
    Ok(Request::from_parts(parts, Body::from(body)))
}

fn refused(old: ReplayError) -> ApiError {
    match old {
        ReplayError::ClockSkew(by) => {
            let by = Millis(by.0.saturating_abs());
            let message =
                format!("the clocks here and there are {by} apart, {WINDOW} are allowed: set them right");
            ApiError::new(StatusCode::FORBIDDEN, STALE, message)
        }
        ReplayError::Replayed => {
            ApiError::new(StatusCode::FORBIDDEN, REPLAYED, "this request was let in already")
        }
        ReplayError::WindowFull => {
            ApiError::unavailable("too many requests of nodes at once: try again in a minute")
        }
    }
}

/// Adds the headers with which the caller verifies the member that answered, and its answer.
async fn signed(
    key: Option<&ClusterKey>,
    own: &Member,
    envelope: &RequestEnvelope,
    answer: Response,
) -> Response {
    let (mut parts, body) = answer.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return ApiError::internal("the answer is too large: ask for less at once").into_response();
    };
    parts.headers.extend(envelope.reply(key, own, parts.status.as_u16(), &body));
    Response::from_parts(parts, Body::from(body))
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use evenkeel_core::time::Wall;

    use super::*;

    fn request(key: Option<&ClusterKey>) -> Request {
        let (from, to) = ("a@1".parse().expect("a member"), "b@2".parse().expect("a member"));
        let envelope = RequestEnvelope { from, to, at: Wall(1), nonce: 1, digest: digest(b"") };
        let mut request = Request::get("/peer/v1/role").body(Body::empty()).expect("a request");
        *request.headers_mut() = envelope.write(key, &Method::GET, "/peer/v1/role");
        request
    }

    #[test]
    fn without_a_key_only_this_host_is_let_in() {
        let ip = |text: &str| Some(text.parse().expect("an address"));
        for own in ["127.0.0.1", "127.0.0.9", "::1"] {
            assert!(known(None, ip(own), &request(None)).is_ok(), "{own}");
        }
        for other in ["10.0.0.7", "192.168.1.1", "fe80::1", "0.0.0.0"] {
            assert!(known(None, ip(other), &request(None)).is_err(), "{other}");
        }
        assert!(known(None, None, &request(None)).is_err(), "nobody knows from where");
    }

    #[test]
    fn with_a_key_no_address_helps() {
        let key = ClusterKey::new("0123456789abcdef".to_owned());
        let own = Some("127.0.0.1".parse().expect("an address"));
        assert!(known(Some(&key), own, &request(None)).is_err());
        assert!(
            known(Some(&key), own, &request(Some(&ClusterKey::new("0123456789abcdeF".to_owned())))).is_err()
        );
        let elsewhere = Some("10.0.0.7".parse().expect("an address"));
        assert!(known(Some(&key), elsewhere, &request(Some(&key))).is_ok());
    }
}
