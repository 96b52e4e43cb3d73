//! Every change that the API offers, the identity of its caller, and its entry in the audit log.
//!
//! The node records a command that reaches it before it tries it. A request that is decided earlier, mostly a
//! refusal, is recorded here, afterwards. A route that is not in the list is refused, so that none escapes the audit.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use evenkeel::audit::{AuditAction, AuditOutcome, Proof, Requester, UPGRADE_BEGINS};
use evenkeel_core::ids::{JobName, NodeName, RunId};
use evenkeel_core::input::{Answer, Command, Refusal};

use super::error::{ErrorSummary, REPLAYED, STALE};
use super::{ApiError, App};
use crate::client::CLIENT;
use crate::listen::Caller;
use crate::queries::CommandObject;

/// The length limit of a recorded reason.
const WHY_MAX: usize = 400;

/// A change that the API offers.
#[derive(Debug)]
pub(crate) struct ApiChange {
    /// The HTTP method.
    pub(crate) method: Method,
    /// The path.
    pub(crate) path: &'static str,
    /// The verb in the audit log, or the name of the path parameter that holds it.
    verb: &'static str,
    /// The kind of object that is changed, and the path parameter that names the object.
    object: (&'static str, &'static str),
}

const fn change(
    method: Method,
    path: &'static str,
    verb: &'static str,
    object: (&'static str, &'static str),
) -> ApiChange {
    ApiChange { method, path, verb, object }
}

/// All changes that the API offers.
pub(crate) const CHANGES: &[ApiChange] = &[
    change(Method::POST, "/api/v1/jobs/apply", "apply", ("jobs", "")),
    change(Method::POST, "/api/v1/jobs/claim", "claim", ("node", "")),
    change(Method::DELETE, "/api/v1/jobs/{name}", "delete", ("job", "name")),
    change(Method::POST, "/api/v1/jobs/{name}/{verb}", "{verb}", ("job", "name")),
    change(Method::POST, "/api/v1/jobs/{name}/shards/{set}/{verb}", "{verb}", ("job", "name")),
    change(Method::PUT, "/api/v1/calendars/{name}", "apply", ("calendar", "name")),
    change(Method::DELETE, "/api/v1/calendars/{name}", "delete", ("calendar", "name")),
    change(Method::DELETE, "/api/v1/runs/{run}/logs", "forget", ("run", "run")),
    change(Method::POST, "/api/v1/runs/{run}/kill", "kill", ("run", "run")),
    change(Method::POST, "/api/v1/runs/{run}/restart", "restart", ("run", "run")),
    change(Method::POST, "/api/v1/nodes/{name}/{verb}", "{verb}", ("node", "name")),
    change(Method::POST, "/api/v1/cluster/settings", "set", ("settings", "")),
    change(Method::POST, "/api/v1/cluster/finalize-upgrade", "finalize-upgrade", ("layout", "")),
];

/// The audit state of a request: recorded by this node; by another node; unknown. Any other number: not yet recorded.
const NOTED: u8 = 1;
const ELSEWHERE: u8 = 2;
const DOUBTFUL: u8 = 3;

/// The requester of a change, and whether the audit log has its entry.
#[derive(Clone, Debug)]
pub(crate) struct AuditedRequest {
    pub(crate) asker: Requester,
    noted: Arc<AtomicU8>,
}

impl AuditedRequest {
    pub(crate) fn new(asker: Requester) -> Self {
        Self { asker, noted: Arc::default() }
    }

    /// Sends a command to the node, which records it.
    pub(crate) async fn ask(&self, app: &App, command: Command) -> Answer {
        self.noted.store(NOTED, Ordering::Relaxed);
        let named = CommandObject::of(&command);
        match app.handle.ask_as(self.asker.clone(), command).await {
            // The requester may have mistyped a name; the node suggests none.
            Answer::Refused(Refusal::NotFound, text) => {
                Answer::Refused(Refusal::NotFound, named.missing(&app.handle).unwrap_or(text))
            }
            answer => answer,
        }
    }

    /// Marks the request as forwarded: another node decides it and records it.
    pub(super) fn mark_forwarding(&self) {
        self.noted.store(DOUBTFUL, Ordering::Relaxed);
    }

    /// Marks the request as partly done: a failure from here on is no longer "nothing was done".
    pub(super) fn mark_partial(&self) {
        self.noted.store(DOUBTFUL, Ordering::Relaxed);
    }

    /// Marks the request as done completely.
    pub(super) fn mark_done(&self) {
        self.noted.store(0, Ordering::Relaxed);
    }

    /// Marks the request as not received by the other node.
    pub(super) fn mark_unsent(&self) {
        self.noted.store(0, Ordering::Relaxed);
    }

    /// Marks the request as answered by the other node.
    pub(super) fn mark_forwarded(&self) {
        self.noted.store(ELSEWHERE, Ordering::Relaxed);
    }
}

impl<S: Sync> FromRequestParts<S> for AuditedRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let nobody = || Self::new(Requester::new(Proof::Nobody, "", ""));
        Ok(parts.extensions.get().cloned().unwrap_or_else(nobody))
    }
}

/// The requester: what is proved of the caller, and what the caller claims.
pub(super) fn asker(proof: Proof, request: &Request) -> Requester {
    let from = request.extensions().get::<Caller>().map(|caller| caller.0.ip().to_string());
    Requester::new(proof, &from.unwrap_or_default(), &client_identity(request.headers()))
}

/// The claim of the caller about itself: the user of the command line, or the browser.
fn client_identity(headers: &HeaderMap) -> String {
    let said = headers.get(CLIENT).or_else(|| headers.get(header::USER_AGENT));
    said.map(|said| String::from_utf8_lossy(said.as_bytes()).into_owned()).unwrap_or_default()
}

/// Makes sure that each change is recorded, even if it is refused early or the caller disconnects.
pub(super) async fn noted(
    State(app): State<App>,
    path: Option<MatchedPath>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    if is_question(request.method()) {
        return next.run(request).await;
    }
    let method = request.method().clone();
    let path = path.as_ref().map_or("", MatchedPath::as_str);
    let known = CHANGES.iter().find(|change| change.method == method && change.path == path);
    // A change that would not be recorded is refused, even if a handler for it exists.
    let Some(known) = known else { return super::error::wrong_method().await.into_response() };
    let proof = if app.access.key().is_some() { Proof::Key } else { Proof::Local };
    let asked = AuditedRequest::new(asker(proof, &request));
    let action = known.audit_action(params.as_ref().ok());
    request.extensions_mut().insert(asked.clone());
    // In a task of its own: a caller that disconnects does not abort a change half way.
    let answered = tokio::spawn(async move {
        let response = next.run(request).await;
        let (well, why) = (response.status().is_success(), response_text(&response));
        finish(&app, asked, action, (well, why)).await;
        response
    });
    answered.await.unwrap_or_else(|e| ApiError::internal(e.to_string()).into_response())
}

/// Whether a request with this method changes nothing.
pub(super) fn is_question(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

async fn finish(app: &App, asked: AuditedRequest, action: AuditAction, (well, why): (bool, String)) {
    let begins = well && action.verb == "upgrade";
    let why = if begins { UPGRADE_BEGINS.to_owned() } else { why };
    let outcome = match (asked.noted.load(Ordering::Relaxed), well) {
        (NOTED | ELSEWHERE, _) => return,
        (DOUBTFUL, _) => AuditOutcome::Unknown,
        (_, true) if ["forget", "upgrade"].contains(&action.verb.as_str()) => AuditOutcome::Applied,
        (_, true) => AuditOutcome::Unchanged,
        (_, false) => AuditOutcome::Refused,
    };
    app.handle.log_decision(asked.asker, action, outcome, why).await;
}

/// The text of a refusal; of an invalid body only that it is invalid, for it may contain anything.
pub(super) fn response_text(response: &Response) -> String {
    const SENSELESS: &str = "the body makes no sense";
    let said =
        response.extensions().get::<ErrorSummary>().map(|said| said.message.as_str()).unwrap_or_default();
    let said = if said.starts_with(SENSELESS) { SENSELESS } else { said };
    said.chars().take(WHY_MAX).collect()
}

impl ApiChange {
    /// The audit action that a request at this address stands for.
    fn audit_action(&self, params: Option<&RawPathParams>) -> AuditAction {
        let param = |name: &str| params?.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        let verb = if self.verb == "{verb}" { param("verb").unwrap_or_default() } else { self.verb };
        let (kind, named) = self.object;
        let name = param(named);
        let object = name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"));
        let job: Option<JobName> = match kind {
            "job" => name.and_then(|name| name.parse().ok()),
            "run" => name.and_then(|run| run.parse::<RunId>().ok()).map(|run| run.job),
            _ => None,
        };
        let node: Option<NodeName> = name.filter(|_| kind == "node").and_then(|name| name.parse().ok());
        AuditAction::new(verb, &object).of_job(job).of_node(node)
    }
}

/// Whether a response means that the caller was not authenticated. A node of the cluster with a wrong clock, or whose
/// request came twice, is authenticated.
pub(super) fn is_denial(response: &Response) -> bool {
    let known = response
        .extensions()
        .get::<ErrorSummary>()
        .is_some_and(|said| [STALE, REPLAYED].contains(&said.code));
    [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status()) && !known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_proved_who_he_is_was_not_denied() {
        let answer = |status, code| ApiError::new(status, code, "why").into_response();
        assert!(is_denial(&answer(StatusCode::UNAUTHORIZED, "unauthorized")));
        assert!(is_denial(&ApiError::forbidden("a page from elsewhere").into_response()));
        assert!(is_denial(&StatusCode::FORBIDDEN.into_response()), "whoever said it");
        for code in [STALE, REPLAYED] {
            assert!(!is_denial(&answer(StatusCode::FORBIDDEN, code)), "{code}");
        }
        assert!(!is_denial(&ApiError::conflict("other").into_response()));
    }
}
