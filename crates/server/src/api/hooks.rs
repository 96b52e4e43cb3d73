//! Webhooks: a program outside runs one job with a token that may do nothing else.
//!
//! The token is in the head of the request or, for senders that cannot set headers, in the path. A path is written in many
//! logs, so here it is in none: [`masked`] is what audit entries have of it.

use axum::Json;
use axum::extract::rejection::{QueryRejection, RawPathParamsRejection};
use axum::extract::{MatchedPath, Query, RawPathParams, Request, State};
use axum::http::{HeaderMap, header};
use evenkeel::audit::AuditAction;
use evenkeel_core::input::{CommandKind, RunOptions};
use evenkeel_core::job::RunParameters;
use serde_json::Map;

use super::audited::AuditedRequest;
use super::headers::text;
use super::known_caller::KnownCaller;
use super::token_text::TokenText;
use super::{ApiError, App, idempotency, jobs};
use evenkeel_client::types::RunAnswer;

/// The address at which a trigger token runs its job.
pub(crate) const HOOKS: &str = "/api/v1/hooks";
/// The same with the token in it.
pub(super) const HOOKS_WITH_TOKEN: &str = "/api/v1/hooks/{token}";
/// The size limit of a body, which is read and not looked at: senders describe what happened to them in a form of their own.
pub(super) const BODY_BYTES_MAX: usize = 64 << 10;
/// What stands for a part of a path that may be a secret.
const MASK: &str = "***";

/// Whether a request is for the address of webhooks, by its route.
pub(super) fn is_hook(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    [Some(HOOKS), Some(HOOKS_WITH_TOKEN)].contains(&route)
}

/// What a request for a webhook shows as its token: in its path, or else in its head. `None` where it shows nothing.
pub(super) fn shown(
    request: &Request,
    params: Result<&RawPathParams, &RawPathParamsRejection>,
) -> Option<String> {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if route == Some(HOOKS_WITH_TOKEN) {
        // A path that is no text is no token.
        let in_path = params.ok().and_then(|params| params.iter().find(|(name, _)| *name == "token"));
        return Some(in_path.map(|(_, token)| token.to_owned()).unwrap_or_default());
    }
    let shown = text(request.headers(), &header::AUTHORIZATION)?;
    Some(shown.strip_prefix("Bearer ").unwrap_or_default().to_owned())
}

/// A path without its secrets: what follows `hooks`, and each part that looks like a token.
pub(super) fn masked(path: &str) -> String {
    let mut last = "";
    let mut parts = Vec::new();
    for part in path.split('/') {
        let is_secret = !part.is_empty() && last == "hooks" || TokenText::is_meant(part);
        parts.push(if is_secret { MASK } else { part });
        last = if part.is_empty() { last } else { part };
    }
    parts.join("/")
}

/// The audit action of a webhook, whose address does not name the job; `None` for another caller.
pub(super) fn audit_action(caller: &KnownCaller) -> Option<AuditAction> {
    let job = caller.trigger.clone()?;
    Some(AuditAction::new(CommandKind::RUN.verb, &format!("job {job}")).of_job(Some(job)))
}

/// Runs the job of the token that the request shows. A request that a sender repeats under the same id runs it once.
pub(super) async fn run(
    State(app): State<App>,
    caller: KnownCaller,
    asked: AuditedRequest,
    headers: HeaderMap,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<RunAnswer>, ApiError> {
    let lost = || ApiError::internal("the token of this request has no job");
    let job = caller.trigger.ok_or_else(lost)?;
    let request = match asked.request_id()? {
        Some(key) => Some(key),
        None => idempotency::delivery(&headers, &asked.asker.proof)?,
    };
    let options = RunOptions { node: None, parameters: parameters(query?.0)? };
    jobs::run_once(&app, &asked, job, options, request).await.map(Json)
}

/// The parameters of the run, which are the keys of the query.
fn parameters(query: Vec<(String, String)>) -> Result<RunParameters, ApiError> {
    let mut given = Map::new();
    for (name, value) in query {
        if given.contains_key(&name) {
            return Err(ApiError::invalid(format!("parameter {name:?} is given twice: once is enough")));
        }
        given.insert(name, value.into());
    }
    serde_json::from_value(given.into()).map_err(|e| ApiError::invalid(format!("the query: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_may_have_a_token_is_shown_without_it() {
        for (path, shown) in [
            ("/api/v1/hooks", "/api/v1/hooks"),
            ("/api/v1/hooks/", "/api/v1/hooks/"),
            ("/api/v1/hooks/evk1.00.ci", "/api/v1/hooks/***"),
            ("/api/v1/hooks//evk2.00", "/api/v1/hooks//***"),
            ("/api/v1/hooks/%65vk1.00.ci/x", "/api/v1/hooks/***/x"),
            ("/evk1.00.ci", "/***"),
            ("/api/v1/jobs/hooks", "/api/v1/jobs/hooks"),
        ] {
            assert_eq!(masked(path), shown);
        }
    }
}
