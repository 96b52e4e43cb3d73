//! A request that is ready to be posted.

use serde_json::Value;

/// A request: where it is posted to, with which headers and which body.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::notify) struct ShapedRequest {
    pub(in crate::notify) url: String,
    pub(in crate::notify) headers: Vec<(&'static str, String)>,
    pub(in crate::notify) body: Vec<u8>,
}

impl ShapedRequest {
    /// A request with a body of JSON.
    pub(super) fn new(url: String, body: Vec<u8>) -> Self {
        Self { url, headers: vec![("content-type", "application/json".to_owned())], body }
    }

    /// A request with this body.
    pub(super) fn json(url: String, body: &Value) -> Self {
        Self::new(url, body.to_string().into_bytes())
    }

    /// The request with one header more.
    #[must_use]
    pub(super) fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}
