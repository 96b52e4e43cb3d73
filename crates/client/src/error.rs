//! Why a request of the client failed.

use std::fmt;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientErrorKind {
    /// Something else failed, as a server that is no node.
    Failed,
    /// The settings of the client are not valid, as the address of a node.
    Settings,
    /// No node answers at any address. Nothing was done.
    Unreachable,
    /// A server answers whose certificate is not trusted. Nothing was done, and no key was sent.
    Untrusted,
    /// There is no such object.
    NotFound,
    /// The node refuses the request because it is not valid. Nothing was done.
    Invalid,
    /// The present state does not allow it. Nothing was done.
    Conflict,
    /// The node cannot do it at present: try again.
    Unavailable,
    /// The caller may not do it.
    Denied,
    /// It is not known whether a change was made, because its answer never came.
    Unknown,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError {
    /// Its kind.
    pub kind: ClientErrorKind,
    /// What happened, in a sentence that mostly has the fix.
    pub message: String,
}

impl ClientError {
    /// A failure of this kind.
    pub fn new(kind: ClientErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClientError {}

impl ClientErrorKind {
    /// What an HTTP status of a refusal means.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            400 | 413 | 415 | 422 => Self::Invalid,
            401 | 403 => Self::Denied,
            404 => Self::NotFound,
            409 | 412 => Self::Conflict,
            408 | 429 | 503 => Self::Unavailable,
            504 => Self::Unknown,
            _ => Self::Failed,
        }
    }
}
