//! Schedule errors: why a text is no schedule, in words its author can act on.

use alloc::string::{String, ToString};
use core::fmt;

use crate::ids::is_unseen;

/// Why a text is no schedule: it points at the part that is wrong and says what is allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    message: String,
    /// The address and the length of the wrong part, while the text is still at hand.
    part: Option<(usize, usize)>,
    span: Option<ErrorSpan>,
    never: bool,
}

/// The position of an error in the text of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorSpan {
    /// The line, from 0.
    pub line: usize,
    /// The character of that line, from 0.
    pub column: usize,
    /// How many characters are wrong, at least one.
    pub length: usize,
}

impl ScheduleError {
    pub(super) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), part: None, span: None, never: false }
    }

    /// Ends the message with what to write instead.
    pub(super) fn adding(mut self, hint: Option<String>) -> Self {
        if let Some(hint) = hint {
            self.message.push_str("; ");
            self.message.push_str(&hint);
        }
        self
    }

    /// The text is a schedule, and never due.
    pub(super) fn never(self) -> Self {
        Self { never: true, ..self }
    }

    /// Whether the text is a schedule, though one that is never due.
    #[must_use]
    pub fn is_never(&self) -> bool {
        self.never
    }

    /// Points at a part of the text, unless something points already.
    pub(super) fn on(mut self, part: &str) -> Self {
        self.part = self.part.or(Some((part.as_ptr() as usize, part.len())));
        self
    }

    /// Sets the position in `text` of the part at fault, which may be no part of it.
    pub(super) fn within(mut self, text: &str) -> Self {
        let begin = text.as_ptr() as usize;
        self.span = self.part.take().and_then(|(at, length)| {
            let (before, rest) = text.split_at_checked(at.checked_sub(begin)?)?;
            let part = rest.get(..length)?;
            let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
            Some(ErrorSpan {
                line: before.matches('\n').count(),
                column: line.chars().count(),
                length: part.chars().count().max(1),
            })
        });
        self
    }

    /// The position of the error in the text, if one part is to blame.
    #[must_use]
    pub fn span(&self) -> Option<ErrorSpan> {
        self.span
    }

    /// The line of `text` that is wrong, and below it marks under the wrong part; nothing when the text as a whole is.
    #[must_use]
    pub fn marked(&self, text: &str) -> Option<String> {
        const SHOWN: usize = 100;
        let place = self.span?;
        let line: alloc::vec::Vec<char> = text.split('\n').nth(place.line)?.chars().collect();
        let begin = place.column.saturating_sub(SHOWN / 2);
        let seen = line.iter().skip(begin).take(SHOWN);
        let seen: String = seen.map(|c| if is_unseen(*c) { ' ' } else { *c }).collect();
        let marks = "^".repeat(place.length.min(SHOWN - (place.column - begin)));
        Some(alloc::format!("{seen}\n{}{marks}", " ".repeat(place.column - begin)))
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
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("`");
    out.extend(text.chars().take(QUOTE).flat_map(char::escape_debug));
    if text.chars().nth(QUOTE).is_some() {
        out.push('…');
    }
    out.push('`');
    out
}
