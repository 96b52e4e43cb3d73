//! The requester of a change, and whether the audit log has its entry: what every handler of a change takes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use evenkeel::audit::{AuditOutcome, Proof, Requester};
use evenkeel_core::ids::{IdError, PrincipalName, RequestId};
use evenkeel_core::input::{Answer, Command, CommandKind, Precondition, Refusal};
use evenkeel_core::principal::JobRights;

use super::app::App;
use super::error::{ApiError, ErrorSummary, ROLE};
use super::idempotency;
use crate::client::CLIENT;
use crate::listen::Caller;
use crate::queries::NamedObjects;

/// The length limit of a recorded reason.
const WHY_MAX: usize = 400;

/// The audit state of a request: recorded by this node; by another node; unknown. Any other number: not yet recorded.
const NOTED: u8 = 1;
const ELSEWHERE: u8 = 2;
const DOUBTFUL: u8 = 3;

/// The user whose password a refused caller has tried.
#[derive(Clone, Debug)]
pub(super) struct TriedUser(pub(super) PrincipalName);

/// The requester of a change, and whether the audit log has its entry.
#[derive(Clone, Debug)]
pub(crate) struct AuditedRequest {
    pub(crate) asker: Requester,
    /// What the caller wants of the object that it changes.
    wanted: Option<Precondition>,
    /// What decides on each job, where labels do.
    rights: Option<JobRights>,
    /// Its `Idempotency-Key`.
    key: Option<String>,
    noted: Arc<AtomicU8>,
}

impl AuditedRequest {
    pub(crate) fn new(asker: Requester) -> Self {
        Self { asker, wanted: None, rights: None, key: None, noted: Arc::default() }
    }

    /// The same request, whose command is done only if its object is as it is wanted.
    pub(super) fn with_precondition(self, wanted: Option<Precondition>) -> Self {
        Self { wanted, ..self }
    }

    /// The same request, whose commands change jobs only where these rights allow it.
    pub(super) fn with_rights(self, rights: Option<JobRights>) -> Self {
        Self { rights, ..self }
    }

    /// What the caller wants of the object that it changes, for a request that only asks what a change would do.
    pub(super) fn precondition(&self) -> Option<&Precondition> {
        self.wanted.as_ref()
    }

    /// The same request with its `Idempotency-Key`.
    pub(super) fn with_key(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// The id of the run that it requests, if it has a key.
    ///
    /// # Errors
    /// The text is not valid as a request id, which cannot happen.
    pub(super) fn request_id(&self) -> Result<Option<RequestId>, IdError> {
        self.key.as_deref().map(|key| idempotency::request_id(&self.asker.proof, key)).transpose()
    }

    /// Sends a command to the node, which records it.
    pub(crate) async fn ask(&self, app: &App, command: Command) -> Answer {
        self.noted.store(NOTED, Ordering::Relaxed);
        let command = match &self.wanted {
            Some(wanted) => Command::If(wanted.clone(), Box::new(command)),
            None => command,
        };
        let named = NamedObjects::of(&command);
        let command = match &self.rights {
            Some(rights) => Command::Within(Box::new(rights.clone()), Box::new(command)),
            None => command,
        };
        match app.handle.ask_as(self.asker.clone(), command).await {
            // The requester may have mistyped a name; the node suggests none.
            Answer::Refused(Refusal::NotFound, text) => {
                Answer::Refused(Refusal::NotFound, named.missing(&app.handle).unwrap_or(text))
            }
            answer => answer,
        }
    }

    /// The outcome to record of this request, which was decided so unless a node has recorded it; `None` when one has.
    pub(super) fn outcome(&self, decided: AuditOutcome) -> Option<AuditOutcome> {
        match self.noted.load(Ordering::Relaxed) {
            NOTED | ELSEWHERE => None,
            DOUBTFUL => Some(AuditOutcome::Unknown),
            _ => Some(decided),
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

    /// Marks the request as recorded.
    pub(super) fn mark_noted(&self) {
        self.noted.store(NOTED, Ordering::Relaxed);
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

/// The requester: what is proved of the caller, and what the caller claims.
pub(super) fn asker(proof: Proof, request: &Request) -> Requester {
    let from = request.extensions().get::<Caller>().map(|caller| caller.0.ip().to_string());
    // Within the host there is no address.
    let from = from.unwrap_or_else(|| "the node's socket".to_owned());
    Requester::new(proof, &from, &client_identity(request.headers()))
}

/// The same requester, which also claims to be the user whose password it tried.
pub(super) fn with_tried_user(asker: Requester, response: &Response) -> Requester {
    match response.extensions().get::<TriedUser>() {
        Some(TriedUser(user)) => {
            Requester::new(asker.proof, &asker.from, &format!("user {user}, {}", asker.claims))
        }
        None => asker,
    }
}

/// The claim of the caller about itself: the user of the command line, or the browser.
pub(super) fn client_identity(headers: &HeaderMap) -> String {
    let said = headers.get(CLIENT).or_else(|| headers.get(header::USER_AGENT));
    said.map(|said| String::from_utf8_lossy(said.as_bytes()).into_owned()).unwrap_or_default()
}

/// Whether a request with this method changes nothing.
pub(super) fn is_question(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

/// The text of a refusal; of an invalid body only that it is invalid, for it may contain anything.
pub(super) fn response_text(response: &Response) -> String {
    const SENSELESS: &str = "the body makes no sense";
    let said =
        response.extensions().get::<ErrorSummary>().map(|said| said.message.as_str()).unwrap_or_default();
    let said = if said.starts_with(SENSELESS) { SENSELESS } else { said };
    said.chars().take(WHY_MAX).collect()
}

/// Whether a response means that the caller was not authenticated. One that lacks a role was.
pub(super) fn is_denial(response: &Response) -> bool {
    let known = response.extensions().get::<ErrorSummary>().is_some_and(|said| said.code == ROLE);
    [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status()) && !known
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn who_has_proved_who_he_is_was_not_denied() {
        let answer = |status, code| ApiError::new(status, code, "why").into_response();
        assert!(is_denial(&answer(StatusCode::UNAUTHORIZED, "unauthorized")));
        assert!(is_denial(&ApiError::forbidden("a page from elsewhere").into_response()));
        assert!(is_denial(&StatusCode::FORBIDDEN.into_response()), "whoever said it");
        assert!(!is_denial(&ApiError::conflict("other").into_response()));
        assert!(!is_denial(&answer(StatusCode::FORBIDDEN, ROLE)));
    }
}
