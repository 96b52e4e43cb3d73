//! Parses the values of flags that several commands have.

use serde::de::DeserializeOwned;

use crate::{text_input, zones};

/// Checks a time: how long ago, or a moment; it is sent as written.
pub(super) fn when(text: &str) -> Result<String, String> {
    zones::when(text, zones::now()).map(|_| text.to_owned())
}

/// Parses one of the words that an enum defines.
pub(super) fn chosen<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|e: serde_json::Error| text_input::query(&e.to_string()))
}
