//! How moments, time zones and names are written.

use evenkeel_core::time::Wall;
use serde::Serialize;

/// A moment in the API's format.
#[must_use]
pub fn moment(at: Wall) -> String {
    at.to_string()
}

/// A time zone in the API's format.
#[must_use]
pub fn zone(declared: &str) -> String {
    if declared.is_empty() { "UTC".to_owned() } else { declared.to_owned() }
}

/// The JSON name of a value, without the quotes.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}
