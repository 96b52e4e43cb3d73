//! Parses the values of flags that several commands have.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use crate::exit::{CliError, ExitKind};
use crate::{text_input, zones};

/// The most rows of one page of a list.
const PAGE_ROWS: u32 = 1000;

/// Checks a time: how long ago, or a moment; it is sent as written.
pub(super) fn when(text: &str) -> Result<String, String> {
    zones::when(text, zones::now()).map(|_| text.to_owned())
}

/// Checks conditions on labels; they are sent as written. An empty one would mean all jobs: a variable that is not set is none.
pub(super) fn conditions(text: &str) -> Result<String, String> {
    match text.split(',').any(|condition| condition.trim().is_empty()) {
        true => Err("a condition is empty: write one, as team=billing".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Parses the value of a flag, or of an argument, that goes into a request.
///
/// # Errors
/// The value is not valid.
pub(super) fn parsed<T: FromStr<Err: Display>>(flag: &str, text: &str) -> Result<T, CliError> {
    text.parse().map_err(|e| CliError::invalid(format!("{flag} is {text:?}: {e}")))
}

/// Parses where the next page of a list begins.
///
/// # Errors
/// The node sent what it could not take.
pub(super) fn next_page<T: FromStr<Err: Display>>(after: &str) -> Result<T, CliError> {
    let broken = |e| CliError::new(ExitKind::Failed, format!("the node names a next page {after:?}: {e}"));
    after.parse().map_err(broken)
}

/// How many rows of a list to ask for, of those that are still wanted.
pub(super) fn page_limit(wanted: usize) -> u32 {
    u32::try_from(wanted).unwrap_or(u32::MAX).min(PAGE_ROWS)
}

/// Parses one of the words that an enum defines.
pub(super) fn chosen<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|e: serde_json::Error| text_input::query(&e.to_string()))
}
