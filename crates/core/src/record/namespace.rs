//! The registry data of a namespace.

use alloc::boxed::Box;
use serde::{Deserialize, Serialize};

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

/// A namespace, or the tombstone of a deleted one, under `keys::namespace`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamespaceRecord {
    /// The namespace exists.
    Live(Box<NamespaceSpec>),
    /// It was deleted; its version goes on counting when it is created again.
    Deleted {
        /// The version of this entry.
        version: u64,
    },
}

impl NamespaceRecord {
    /// The version of the entry.
    #[must_use]
    pub fn version(&self) -> u64 {
        match self {
            Self::Live(spec) => spec.version,
            Self::Deleted { version } => *version,
        }
    }

    /// The namespace, unless it was deleted.
    #[must_use]
    pub fn live(&self) -> Option<&NamespaceSpec> {
        match self {
            Self::Live(spec) => Some(spec),
            Self::Deleted { .. } => None,
        }
    }
}
