//! Why a text is no schedule, in words its author can act on.

use alloc::string::{String, ToString};
use core::fmt;

/// Why a text is no schedule: it points at the part that is wrong and says what is allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    message: String,
}

impl ScheduleError {
    pub(super) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string() }
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for ScheduleError {}

/// Longest quotation of foreign text in a message, in characters.
const QUOTE: usize = 48;

/// Foreign text in backquotes, made harmless for a terminal and cut when it is long.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::from("`");
    out.extend(text.chars().take(QUOTE).flat_map(char::escape_debug));
    if text.chars().nth(QUOTE).is_some() {
        out.push('…');
    }
    out.push('`');
    out
}
