//! Headers of requests and responses.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// Sets a header to a fixed value.
pub(super) fn set(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}

/// The value of a header, if it is text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
