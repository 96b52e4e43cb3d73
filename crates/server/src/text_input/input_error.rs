//! A mistake in a text, and the formats of texts.

use std::fmt;

/// The formats that users write in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    Toml,
    Yaml,
    Json,
}

/// A mistake in a text: its position, counted from 1, and the fix.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputError {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// The path of the wrong value, as `jobs[3].retry`; empty for the text as a whole.
    pub(crate) value: String,
    /// The mistake and the fix.
    pub(crate) text: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}
