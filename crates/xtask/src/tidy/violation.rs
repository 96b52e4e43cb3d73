//! What a wall refuses: where it stands, and how to mend it.

use std::fmt;

/// Something a wall refuses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TidyViolation {
    /// The file, from the root.
    pub path: String,
    /// The line, counted from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl TidyViolation {
    /// A complaint about one line, counted from 0 as [`crate::rust::RustSource`] counts.
    pub fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: line + 1, message: message.into() }
    }

    /// A complaint about a whole file.
    pub fn about(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: 0, message: message.into() }
    }
}

impl fmt::Display for TidyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}
