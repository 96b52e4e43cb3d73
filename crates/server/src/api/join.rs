//! Join tokens: a node makes one for whom it is asked, and gives the cluster's identity for it, once.

use std::sync::{Mutex, PoisonError};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use evenkeel::audit::{AuditAction, AuditOutcome, Requester};
use evenkeel_core::ids::NodeName;
use evenkeel_core::input::CommandKind;
use evenkeel_core::time::{Millis, Mono, SpanLimits, TimeSpan};
use serde::Deserialize;
use serde_json::{Value, json};

use super::audited::AuditedRequest;
use super::{ApiError, App, read_body};
use crate::join::{JoinRequest, JoinToken, new_secret};
use crate::key::digest;
use crate::listen::{Caller, OpenConnection};
use crate::text_input::ReadTarget;

/// How long a token is accepted by default, and at most.
const TERM: Millis = Millis::secs(3_600);
const TERM_LIMITS: SpanLimits =
    SpanLimits::ANY.at_least(Millis::secs(1)).at_most(Millis::secs(7 * 24 * 3_600));
/// The maximum number of tokens that wait to be used; the oldest gives way.
const TOKENS_MAX: usize = 1_000;
/// The size limit of a request that shows a token, and the time limit for it to arrive.
const BYTES_MAX: usize = 4 * 1024;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// The tokens that this process has made. They end with it.
#[derive(Default)]
pub(crate) struct JoinTokens(Mutex<Vec<OpenToken>>);

struct OpenToken {
    /// The digest of the secret.
    digest: String,
    until: Mono,
    node: Option<NodeName>,
    asker: Requester,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenError {
    /// This process has not made it, or it was used, or its time is over.
    Unknown,
    /// It is for another node.
    Another,
}

impl JoinTokens {
    fn add(&self, secret: &str, token: OpenToken) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= TOKENS_MAX {
            open.remove(0);
        }
        open.push(OpenToken { digest: digest(secret.as_bytes()), ..token });
    }

    /// Uses a token up; returns the requester that it was made for.
    fn take(&self, secret: &str, node: &NodeName, now: Mono) -> Result<Requester, TokenError> {
        let shown = digest(secret.as_bytes());
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|token| now < token.until);
        let at = open.iter().position(|token| token.digest == shown).ok_or(TokenError::Unknown)?;
        match open.get(at).is_some_and(|token| token.node.as_ref().is_none_or(|named| named == node)) {
            true => Ok(open.remove(at).asker),
            false => Err(TokenError::Another),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenBody {
    /// The only node that may use it.
    #[serde(rename = "for")]
    node: Option<NodeName>,
    /// How long it is accepted.
    ttl: Option<String>,
}

/// Makes a token.
pub(super) async fn make(
    State(app): State<App>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let TokenBody { node, ttl } =
        if body.is_empty() { TokenBody::default() } else { read_body(&body, ReadTarget::Body)? };
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
    Ok(Json(json!({ "token": token.to_string(), "until": until.unwrap_or_default() })))
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

#[cfg(test)]
mod tests {
    use evenkeel::audit::Proof;

    use super::*;

    #[test]
    fn a_token_is_accepted_once_in_time_and_for_its_node() {
        let tokens = JoinTokens::default();
        let asker = Requester::new(Proof::Key, "10.0.0.7", "ann@ops1");
        let name = |text: &str| text.parse::<NodeName>().expect("a name");
        let add = |secret: &str, node: Option<&str>| {
            let node = node.map(name);
            tokens.add(
                secret,
                OpenToken { digest: String::new(), until: Mono(100), node, asker: asker.clone() },
            );
        };
        add("one", None);
        add("two", Some("b"));
        add("three", None);
        assert_eq!(tokens.take("other", &name("a"), Mono(1)), Err(TokenError::Unknown));
        assert_eq!(tokens.take("one", &name("a"), Mono(1)), Ok(asker.clone()));
        assert_eq!(tokens.take("one", &name("a"), Mono(1)), Err(TokenError::Unknown), "it is used up");
        assert_eq!(tokens.take("two", &name("a"), Mono(1)), Err(TokenError::Another));
        assert_eq!(tokens.take("two", &name("b"), Mono(99)), Ok(asker.clone()), "that has not used it up");
        assert_eq!(tokens.take("three", &name("a"), Mono(100)), Err(TokenError::Unknown), "its time is over");
    }

    #[test]
    fn no_more_tokens_wait_than_the_limit() {
        let tokens = JoinTokens::default();
        for n in 0..=TOKENS_MAX {
            let asker = Requester::new(Proof::Key, "", "");
            tokens
                .add(&n.to_string(), OpenToken { digest: String::new(), until: Mono(9), node: None, asker });
        }
        let node = "a".parse().expect("a name");
        assert_eq!(tokens.take("0", &node, Mono(1)).err(), Some(TokenError::Unknown));
        assert!(tokens.take("1", &node, Mono(1)).is_ok());
    }
}
