//! The registry data of a secret.

use alloc::string::String;
use serde::{Deserialize, Serialize};

use super::declared::{Declared, Versioned};
use crate::ids::SecretName;
use crate::time::Wall;

/// A secret as the registry keeps it: only who has the cluster's own secret can open it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SealedSecret {
    /// Its name, with its namespace.
    pub name: SecretName,
    /// The encrypted text, as the program around the node wrote it.
    pub sealed: String,
    /// Rises with every change of the entry.
    pub version: u64,
    /// When it was set.
    pub since: Wall,
    /// Who set it.
    pub by: String,
}

impl Versioned for SealedSecret {
    fn version(&self) -> u64 {
        self.version
    }
}

/// A secret, or the tombstone of a deleted one, under `keys::secret`.
pub type SecretRecord = Declared<SealedSecret>;
