//! Errors of the API; the only place where they become HTTP status codes.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use evenkeel::HistoryError;
use evenkeel_core::ids::IdError;
use evenkeel_core::input::{Answer, Refusal};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::exit::{CliError, ExitKind};
use crate::text_input::{self, InputError, ReadTarget};

/// An error response in the form of RFC 9457: `{"title": …, "status": …, "detail": …, "code": …}`.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// The version that the object has, where the request is for another one.
    version: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), version: None }
    }

    /// The kind of refusal.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// The message, of which the error stays the owner.
    pub(crate) fn text(&self) -> &str {
        &self.message
    }

    /// The message.
    pub(crate) fn message(self) -> String {
        self.message
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// The refusal of a known caller that lacks a role.
    pub(crate) fn lacks_role(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, ROLE, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// It is unknown whether the change was made.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, UNKNOWN, message)
    }

    /// Whether it is unknown if the change was made.
    pub(super) fn is_unknown(&self) -> bool {
        self.code == UNKNOWN
    }

    /// Whether there is no such object.
    pub(super) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

/// Marks a response to which the address of the serving leader is to be added.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandbyMarker;

/// The text of a refusal, for the audit log.
#[derive(Clone, Debug)]
pub(super) struct ErrorSummary {
    pub(super) code: &'static str,
    pub(super) message: String,
}

/// The media type of an error response.
pub(crate) const PROBLEM: &str = "application/problem+json";
const UNKNOWN: &str = "unknown";
/// The code of a refusal of a known caller that lacks a role.
pub(super) const ROLE: &str = "role";
const STANDBY: &str = "standby";

impl ApiError {
    /// The JSON body.
    pub(crate) fn body(&self) -> String {
        let title = self.status.canonical_reason().unwrap_or_default();
        let status = self.status.as_u16();
        let mut body = json!({ "title": title, "status": status, "detail": self.message, "code": self.code });
        if let Some(version) = self.version {
            body["version"] = version.into();
        }
        body.to_string()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, PROBLEM)];
        let mut response = (self.status, kind, self.body()).into_response();
        response.extensions_mut().insert(ErrorSummary { code: self.code, message: self.message });
        if self.code == STANDBY {
            response.extensions_mut().insert(StandbyMarker);
        }
        response
    }
}

impl From<(Refusal, String)> for ApiError {
    fn from((refusal, message): (Refusal, String)) -> Self {
        match refusal {
            Refusal::NotFound => Self::not_found(message),
            Refusal::Invalid => Self::invalid(message),
            Refusal::Conflict => Self::conflict(message),
            Refusal::Unavailable => Self::unavailable(message),
            Refusal::Unknown => Self::unknown(message),
            Refusal::Stale(version) => Self {
                version: Some(version),
                ..Self::new(StatusCode::PRECONDITION_FAILED, "stale", message)
            },
            Refusal::Forbidden => Self::lacks_role(message),
            Refusal::Standby => Self::new(StatusCode::SERVICE_UNAVAILABLE, STANDBY, message),
        }
    }
}

impl From<IdError> for ApiError {
    fn from(error: IdError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<HistoryError> for ApiError {
    fn from(error: HistoryError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<QueryRejection> for ApiError {
    fn from(error: QueryRejection) -> Self {
        let text = error.body_text();
        let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
        Self::invalid(text_input::query(text))
    }
}

impl From<PathRejection> for ApiError {
    fn from(error: PathRejection) -> Self {
        let text = error.body_text();
        Self::invalid(text.strip_prefix("Invalid URL: ").unwrap_or(&text))
    }
}

/// The message of an error response of another node.
pub(crate) fn message_of(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    // A node of an earlier version has it elsewhere.
    let message = body.get("detail").or_else(|| body.pointer("/error/message"))?;
    message.as_str().map(str::to_owned)
}

/// Parses a body that a user wrote.
///
/// # Errors
/// The first mistake in the body: which value is wrong, its position, and what is allowed.
pub(crate) fn read_body<T: DeserializeOwned>(body: &[u8], kind: ReadTarget) -> Result<T, ApiError> {
    text_input::json(body, kind).map_err(|InputError { line, column, value, text }| {
        let value = if value.is_empty() || value == "." { String::new() } else { format!("{value}, ") };
        ApiError::invalid(format!("the body makes no sense: {value}line {line}, column {column}: {text}"))
    })
}

/// Turns the error of a call to another node, made in the caller's name, into a response.
impl From<CliError> for ApiError {
    fn from(failure: CliError) -> Self {
        let message = failure.message;
        match failure.exit {
            ExitKind::NotFound => Self::not_found(message),
            ExitKind::Invalid | ExitKind::Usage => Self::invalid(message),
            ExitKind::Conflict => Self::conflict(message),
            ExitKind::Unreachable | ExitKind::Unavailable | ExitKind::Denied => Self::unavailable(message),
            ExitKind::Unknown => Self::unknown(message),
            ExitKind::Failed => Self::internal(message),
        }
    }
}

/// The empty response of a change that was made.
pub(crate) fn done(answer: Answer) -> Result<Json<serde_json::Value>, ApiError> {
    match answer {
        Answer::Refused(refusal, message) => Err((refusal, message).into()),
        _ => Ok(Json(json!({ "done": true }))),
    }
}

/// The answer to a method that an address does not know.
pub(super) async fn wrong_method() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "wrong_method",
        "this address knows other methods: see docs/api.md",
    )
}
