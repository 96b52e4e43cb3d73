//! Every change that the API offers, the identity of its caller, and its entry in the audit log.
//!
//! The node records a command that reaches it before it tries it. A request that is decided earlier, mostly a
//! refusal, is recorded here, afterwards. A route that is not in the list is refused, so that none escapes the audit.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use evenkeel::audit::{AuditAction, AuditOutcome, Proof, Requester, UPGRADE_BEGINS};
use evenkeel_core::ids::{JobName, NodeName, RunId};
use evenkeel_core::input::{Answer, Command, CommandKind, ObjectKind, Refusal};

use super::error::{ErrorSummary, REPLAYED, STALE};
use super::{ApiError, App, calendars, jobs, nodes, runs, settings, shards};
use crate::client::CLIENT;
use crate::listen::Caller;
use crate::queries::NamedObjects;

/// The length limit of a recorded reason.
const WHY_MAX: usize = 400;

/// A change that the API offers.
#[derive(Debug)]
pub(crate) struct ApiChange {
    /// The HTTP method.
    pub(crate) method: Method,
    /// The path.
    pub(crate) path: &'static str,
    verbs: RouteVerbs,
    on: MethodFilter,
    handler: RouteHandler,
}

/// The verbs of a route.
#[derive(Clone, Copy, Debug)]
enum RouteVerbs {
    /// One verb, and the kind of object.
    One(CommandKind),
    /// The path names one of the verbs of this kind of object.
    InPath(ObjectKind),
}

use RouteVerbs::{InPath, One};

type RouteHandler = fn(MethodFilter) -> MethodRouter<App>;

const fn post(path: &'static str, verbs: RouteVerbs, handler: RouteHandler) -> ApiChange {
    ApiChange { method: Method::POST, path, verbs, on: MethodFilter::POST, handler }
}

const fn put(path: &'static str, verbs: RouteVerbs, handler: RouteHandler) -> ApiChange {
    ApiChange { method: Method::PUT, path, verbs, on: MethodFilter::PUT, handler }
}

const fn delete(path: &'static str, verbs: RouteVerbs, handler: RouteHandler) -> ApiChange {
    ApiChange { method: Method::DELETE, path, verbs, on: MethodFilter::DELETE, handler }
}

/// All changes that the API offers, each with its handler.
pub(crate) const CHANGES: &[ApiChange] = &[
    post("/api/v1/jobs/apply", One(CommandKind::APPLY_JOBS), |m| on(m, jobs::apply)),
    post("/api/v1/jobs/claim", One(CommandKind::CLAIM), |m| on(m, jobs::claim)),
    delete("/api/v1/jobs/{name}", One(CommandKind::DELETE_JOB), |m| on(m, jobs::delete)),
    post("/api/v1/jobs/{name}/{verb}", InPath(ObjectKind::Job), |m| on(m, jobs::switch)),
    post("/api/v1/jobs/{name}/shards/{set}/{verb}", InPath(ObjectKind::Job), |m| on(m, shards::switch)),
    put("/api/v1/calendars/{name}", One(CommandKind::APPLY_CALENDAR), |m| on(m, calendars::put)),
    delete("/api/v1/calendars/{name}", One(CommandKind::DELETE_CALENDAR), |m| on(m, calendars::delete)),
    delete("/api/v1/runs/{run}/logs", One(CommandKind::FORGET), |m| on(m, runs::forget)),
    post("/api/v1/runs/{run}/kill", One(CommandKind::KILL), |m| on(m, runs::kill)),
    post("/api/v1/runs/{run}/restart", One(CommandKind::RESTART), |m| on(m, runs::restart)),
    post("/api/v1/nodes/{name}/{verb}", InPath(ObjectKind::Node), |m| on(m, nodes::switch)),
    post("/api/v1/cluster/settings", One(CommandKind::CONFIGURE), |m| on(m, settings::set)),
    post("/api/v1/cluster/finalize-upgrade", One(CommandKind::FINALIZE_UPGRADE), |m| {
        on(m, settings::finalize)
    }),
];

/// Adds the routes of all changes to a router that is nested at this prefix.
pub(super) fn add_routes(router: Router<App>, prefix: &str) -> Router<App> {
    CHANGES.iter().fold(router, |router, change| {
        let path = change.path.strip_prefix(prefix).unwrap_or(change.path);
        router.route(path, (change.handler)(change.on))
    })
}

/// The command with this verb among those on an object, or a refusal that lists all its verbs. `others` are verbs that
/// the caller handles itself.
pub(super) fn find_verb(
    object: &str,
    verb: &str,
    commands: Vec<Command>,
    others: &[CommandKind],
) -> Result<Command, ApiError> {
    let verb_of = |command: &Command| command.describe().map(|described| described.verb);
    let verbs: Vec<&str> =
        commands.iter().filter_map(verb_of).chain(others.iter().map(|other| other.verb)).collect();
    commands.into_iter().find(|command| verb_of(command) == Some(verb)).ok_or_else(|| {
        let (last, first) = verbs.split_last().unwrap_or((&"", &[]));
        ApiError::not_found(format!("a {object} knows no {verb:?}: use {} or {last}", first.join(", ")))
    })
}

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
        let named = NamedObjects::of(&command);
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
    let begins = well && action.verb == CommandKind::UPGRADE.verb;
    let why = if begins { UPGRADE_BEGINS.to_owned() } else { why };
    let outcome = match (asked.noted.load(Ordering::Relaxed), well) {
        (NOTED | ELSEWHERE, _) => return,
        (DOUBTFUL, _) => AuditOutcome::Unknown,
        (_, true) if begins || action.verb == CommandKind::FORGET.verb => AuditOutcome::Applied,
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
        let (verb, object) = match self.verbs {
            One(kind) => (kind.verb, kind.object),
            InPath(object) => (param("verb").unwrap_or_default(), object),
        };
        let (kind, name) = (object.as_str(), param("name").or_else(|| param("run")));
        let named = name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"));
        let job: Option<JobName> = match object {
            ObjectKind::Job => name.and_then(|name| name.parse().ok()),
            ObjectKind::Run => name.and_then(|run| run.parse::<RunId>().ok()).map(|run| run.job),
            _ => None,
        };
        let node: Option<NodeName> =
            name.filter(|_| object == ObjectKind::Node).and_then(|name| name.parse().ok());
        AuditAction::new(verb, &named).of_job(job).of_node(node)
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
