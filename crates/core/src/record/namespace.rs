//! The registry data of a namespace.

use serde::{Deserialize, Serialize};

use super::declared::{Declared, Versioned};
use crate::ids::JobName;
use crate::namespace::NamespaceSettings;

/// The present state of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamespaceSpec {
    /// The declaration.
    pub namespace: NamespaceSettings,
    /// Rises with every change of the entry.
    pub version: u64,
    /// The latest job that was created while the number of jobs was limited. A node that knows it knows all before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<CreatedJob>,
}

/// A job at its creation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CreatedJob {
    /// Its name.
    pub job: JobName,
    /// The version of its spec then.
    pub version: u64,
}

impl Versioned for NamespaceSpec {
    fn version(&self) -> u64 {
        self.version
    }
}

/// A namespace, or the tombstone of a deleted one, under `keys::namespace`.
pub type NamespaceRecord = Declared<NamespaceSpec>;
