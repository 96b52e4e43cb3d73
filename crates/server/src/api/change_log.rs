//! Records each change that the API is asked for in the audit log.
//!
//! The node records a command that reaches it before it tries it. A request that is decided earlier, mostly a
//! refusal, is recorded here, afterwards. A route that is not in the list is refused, so that none escapes the audit.

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use evenkeel::audit::{AuditAction, AuditOutcome, Proof, UPGRADE_BEGINS};
use evenkeel_core::input::CommandKind;

use super::audited::{AuditedRequest, asker, is_question, response_text};
use super::changes::CHANGES;
use super::known_caller::KnownCaller;
use super::{ApiError, App, hooks, idempotency, precondition, reads};

/// Makes sure that each change is recorded, even if it is refused early or the caller disconnects.
pub(super) async fn noted(
    State(app): State<App>,
    path: Option<MatchedPath>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let path = path.as_ref().map_or("", MatchedPath::as_str);
    if is_question(&method) || reads::find(&method, path).is_some() {
        return next.run(request).await;
    }
    let known = CHANGES.iter().find(|change| change.method == method && change.path == path);
    // A change that would not be recorded is refused, even if a handler for it exists.
    let Some(known) = known else { return super::error::wrong_method().await.into_response() };
    let caller = request.extensions().get::<KnownCaller>();
    let proof = caller.map_or(Proof::Nobody, |caller| caller.proof.clone());
    let rights = caller.and_then(|caller| caller.job_rights(known.demand.role));
    let asked = AuditedRequest::new(asker(proof, &request)).with_rights(rights);
    let wanted = precondition::wanted(request.headers(), known.kind());
    let key = idempotency::key(request.headers(), known.kind());
    let (asked, refused) = match (wanted, key) {
        (Ok(wanted), Ok(key)) => (asked.with_precondition(wanted).with_key(key), None),
        (Err(refused), _) | (_, Err(refused)) => (asked, Some(refused)),
    };
    let hooked = caller.and_then(hooks::audit_action);
    let action = hooked.unwrap_or_else(|| known.audit_action(params.as_ref().ok()));
    request.extensions_mut().insert(asked.clone());
    // In a task of its own: a caller that disconnects does not abort a change half way.
    let answered = tokio::spawn(async move {
        let response = match refused {
            Some(refused) => refused.into_response(),
            None => next.run(request).await,
        };
        let (well, why) = (response.status().is_success(), response_text(&response));
        finish(&app, asked, action, (well, why)).await;
        response
    });
    answered.await.unwrap_or_else(|e| ApiError::internal(e.to_string()).into_response())
}

async fn finish(app: &App, asked: AuditedRequest, action: AuditAction, (well, why): (bool, String)) {
    let begins = well && action.verb == CommandKind::UPGRADE.verb;
    let why = if begins { UPGRADE_BEGINS.to_owned() } else { why };
    let effects = [CommandKind::FORGET.verb, CommandKind::JOIN_TOKEN.verb, CommandKind::LOGIN_LINK.verb];
    let changed = begins || effects.contains(&action.verb.as_str());
    let done = if changed { AuditOutcome::Applied } else { AuditOutcome::Unchanged };
    let Some(outcome) = asked.outcome(if well { done } else { AuditOutcome::Refused }) else { return };
    app.handle.log_decision(asked.asker, action, outcome, why).await;
}
