//! The registry data of an object that commands declare and delete.

use alloc::boxed::Box;
use serde::{Deserialize, Serialize};

/// A declared object, or the tombstone of a deleted one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Declared<T> {
    /// The object exists.
    Live(Box<T>),
    /// It was deleted; its version goes on counting when it is created again.
    Deleted {
        /// The version of this entry.
        version: u64,
    },
}

/// The present state of an object that is declared.
pub trait Versioned {
    /// Rises with every change of the entry.
    fn version(&self) -> u64;
}

impl<T: Versioned> Declared<T> {
    /// The version of the entry.
    #[must_use]
    pub fn version(&self) -> u64 {
        match self {
            Self::Live(spec) => spec.version(),
            Self::Deleted { version } => *version,
        }
    }

    /// The object, unless it was deleted.
    #[must_use]
    pub fn live(&self) -> Option<&T> {
        match self {
            Self::Live(spec) => Some(spec),
            Self::Deleted { .. } => None,
        }
    }
}
