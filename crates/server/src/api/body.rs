//! Bodies that take no fields.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ApiError, read_body};
use crate::text_input::ReadTarget;

/// An empty body, or `{}`. Unknown keys are refused: a caller would believe that an ignored key has an effect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EmptyBody {}

impl EmptyBody {
    /// # Errors
    /// The body has fields.
    pub(super) fn of(body: &[u8]) -> Result<Self, ApiError> {
        if body.is_empty() || body == b"null" { Ok(Self {}) } else { read_body(body, ReadTarget::Body) }
    }
}

impl<S: Send + Sync> FromRequest<S> for EmptyBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|e| ApiError::invalid(e.body_text()))?;
        Self::of(&body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_which_something_is_said_is_refused() {
        for fine in ["", "{}", " {} ", "null"] {
            assert!(EmptyBody::of(fine.as_bytes()).is_ok(), "{fine}");
        }
        for other in ["{\"node\": \"a\"}", "[1]", "{", "1"] {
            assert!(EmptyBody::of(other.as_bytes()).is_err(), "{other}");
        }
    }
}
