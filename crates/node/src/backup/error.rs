//! Why a backup, restore or migration fails.

use evenkeel_registry::RegistryError;

/// Why a backup, restore or migration failed. Each text says the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// A registry cannot be used.
    #[error("{0}")]
    Registry(#[from] RegistryError),
    /// The state of the registry or cluster does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// The input is no backup, or no registry that outlives its process.
    #[error("{0}")]
    Invalid(String),
}
