//! Bodies in which nothing can be said.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde::Deserialize;

use super::ApiError;

/// An empty body, or `{}`. A key that nobody reads would be taken for one that is kept.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

impl Nothing {
    /// # Errors
    /// It says something.
    pub(super) fn of(body: &[u8]) -> Result<Self, ApiError> {
        if body.is_empty() || body == b"null" { Ok(Self {}) } else { Ok(serde_json::from_slice(body)?) }
    }
}

impl<S: Send + Sync> FromRequest<S> for Nothing {
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
            assert!(Nothing::of(fine.as_bytes()).is_ok(), "{fine}");
        }
        for other in ["{\"node\": \"a\"}", "[1]", "{", "1"] {
            assert!(Nothing::of(other.as_bytes()).is_err(), "{other}");
        }
    }
}
