//! The errors of a registry: three kinds, because the driver does three things.

/// An engine's failure. Its text says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Not now: try again. The disk is full, the file is locked, the engine is out of reach.
    #[error("{0}")]
    Unavailable(String),
    /// Not with these settings: do not start. A bad URL, a file of another program, a newer layout, no right to write.
    #[error("{0}")]
    Refused(String),
    /// Not any more: stop. The file is damaged, or was replaced while it was in use.
    #[error("{0}")]
    Fatal(String),
}
