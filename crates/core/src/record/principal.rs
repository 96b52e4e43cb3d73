//! The registry data of a principal.

use alloc::boxed::Box;
use serde::{Deserialize, Serialize};

use crate::principal::Principal;

/// A principal, or the tombstone of a deleted one, under `keys::principal`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrincipalRecord {
    /// It exists.
    Live {
        /// The declaration.
        principal: Box<Principal>,
        /// Rises with every change of the entry.
        version: u64,
    },
    /// It was deleted; its version goes on counting when it is created again.
    Deleted {
        /// The version of this entry.
        version: u64,
    },
    /// The entry has no valid seal, so the principal is not let in. No registry has this: the process around the node makes
    /// it of an entry that it does not trust.
    Unsealed {
        /// What the entry says.
        principal: Box<Principal>,
        /// The version of this entry.
        version: u64,
    },
}

impl PrincipalRecord {
    /// The version of the entry.
    #[must_use]
    pub fn version(&self) -> u64 {
        match self {
            Self::Live { version, .. } | Self::Deleted { version } | Self::Unsealed { version, .. } => {
                *version
            }
        }
    }

    /// The principal, unless it was deleted or its entry has no valid seal.
    #[must_use]
    pub fn live(&self) -> Option<&Principal> {
        match self {
            Self::Live { principal, .. } => Some(principal),
            Self::Deleted { .. } | Self::Unsealed { .. } => None,
        }
    }

    /// The same entry as one without a valid seal. A tombstone stays one: who can write it can delete the entry, too.
    #[must_use]
    pub fn unsealed(self) -> Self {
        match self {
            Self::Live { principal, version } => Self::Unsealed { principal, version },
            other => other,
        }
    }
}
