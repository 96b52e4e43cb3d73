//! Join tokens: a node makes one for whom it is asked, and gives the cluster's identity for it, once.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use evenkeel::audit::{AuditAction, AuditOutcome};
use evenkeel_client::requests::JoinTokenBody;
use evenkeel_core::input::CommandKind;
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};

use super::audited::AuditedRequest;
use super::join_tokens::{OpenToken, TokenError};
use super::{ApiError, App, read_body};
use crate::join::{JoinRequest, JoinToken, new_secret};
use crate::listen::{Caller, OpenConnection};
use crate::text_input::ReadTarget;
use evenkeel_client::types::JoinTokenAnswer;

/// How long a token is accepted by default, and at most.
const TERM: Millis = Millis::secs(3_600);
const TERM_LIMITS: SpanLimits =
    SpanLimits::ANY.at_least(Millis::secs(1)).at_most(Millis::secs(7 * 24 * 3_600));
/// The size limit of a request that shows a token, and the time limit for it to arrive.
const BYTES_MAX: usize = 4 * 1024;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Makes a token.
pub(super) async fn make(
    State(app): State<App>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<JoinTokenAnswer>, ApiError> {
    let JoinTokenBody { node, ttl } =
        if body.is_empty() { JoinTokenBody::default() } else { read_body(&body, ReadTarget::Body)? };
    let term = match ttl {
        Some(text) => {
            TimeSpan::parse("ttl", &text, TERM_LIMITS).map_err(|e| ApiError::invalid(e.to_string()))?.into()
        }
        None => std::time::Duration::from_millis(TERM.0.unsigned_abs()),
    };
    let address =
        app.handle.with_node(|node| Some(node.view().member(&node.member()?)?.info.address.clone()));
    let address =
        address.ok_or_else(|| ApiError::unavailable("this node is no member just now: ask another one"))?;
    let secret = new_secret().map_err(|e| ApiError::internal(e.message))?;
    let now = evenkeel::clock::now();
    let term = Millis(i64::try_from(term.as_millis()).unwrap_or(TERM.0));
    let asker = asked.asker.clone();
    app.joins.add(&secret, OpenToken { digest: String::new(), until: now.mono + term, node, asker });
    let until = jiff::Timestamp::from_millisecond((now.wall + term).0).map(|at| at.to_string());
    let token = JoinToken { address, authority: app.tls.authority(), secret };
    Ok(Json(JoinTokenAnswer { token: token.to_string(), until: until.unwrap_or_default() }))
}

/// Gives the cluster's identity to a caller with a token.
pub(super) async fn join(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let encrypted =
        request.extensions().get::<std::sync::Arc<OpenConnection>>().is_some_and(|open| open.is_encrypted());
    if !encrypted {
        return Err(ApiError::invalid("the cluster's identity is given over https only"));
    }
    let from =
        request.extensions().get::<Caller>().map(|caller| caller.0.ip().to_string()).unwrap_or_default();
    let body = app.access.bodies.take(request.into_body(), BYTES_MAX, PATIENCE).await?;
    let JoinRequest { secret, node } = read_body(&body, ReadTarget::Body)?;
    let asker = app.joins.take(&secret, &node, evenkeel::clock::now().mono).map_err(refused)?;
    let action =
        AuditAction::new(CommandKind::JOIN.verb, &format!("node {node}")).of_node(Some(node.clone()));
    let text = app.tls.identity_text().map_err(|e| ApiError::internal(e.message))?;
    tracing::info!("node {node} at {from} has got the cluster's identity with a join token");
    let what =
        format!("a host at {from} got the cluster's identity with the token that this caller had made");
    app.handle.log_decision(asker, action, AuditOutcome::Applied, what).await;
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], Body::from(text)).into_response())
}

fn refused(error: TokenError) -> ApiError {
    let why = match error {
        TokenError::Unknown => {
            "this node has not made that token since it started, or it was used, or its time is over: make another one \
             with `evenkeel cluster join-token`"
        }
        TokenError::Another => "that token is for another node: make one for this node",
    };
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", why)
}
