//! What a guard says on standard error, in the format of its node's log.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock;

/// The variable by which a guard learns that its node's log is JSON.
pub(super) const LOG_FORMAT: &str = "EVENKEEL_LOG_FORMAT";
/// Its value then.
pub(super) const JSON: &str = "json";

/// Whether this process's log is JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Makes the guards of this process write JSON, as its log is: a line for each message, with `timestamp`, `level`, `message`
/// and `target`.
pub fn report_as_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// What a guard that this process starts has to know of the format.
pub(super) fn format_variable() -> Option<(&'static str, &'static str)> {
    IS_JSON.load(Ordering::Relaxed).then_some((LOG_FORMAT, JSON))
}

/// Writes a message of the guard.
pub(super) fn report(message: fmt::Arguments<'_>) {
    let is_json = std::env::var_os(LOG_FORMAT).is_some_and(|format| format == JSON);
    eprintln!("{}", line(message, is_json));
}

fn line(message: fmt::Arguments<'_>, is_json: bool) -> String {
    if !is_json {
        return format!("evenkeel guard: {message}");
    }
    let line = serde_json::json!({
        "timestamp": clock::now().wall.to_string(),
        "level": "WARN",
        "message": message.to_string(),
        "target": "evenkeel::guard",
    });
    line.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_in_either_format() {
        assert_eq!(line(format_args!("no {}", "cgroup"), false), "evenkeel guard: no cgroup");
        let json = line(format_args!("two\nlines \"quoted\""), true);
        assert!(!json.contains('\n'), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&read["message"], &read["level"]), (&"two\nlines \"quoted\"".into(), &"WARN".into()));
        assert!(read["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{json}");
    }
}
