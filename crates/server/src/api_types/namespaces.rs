//! Rows of namespaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A namespace with what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NamespaceRow {
    /// Its name.
    pub(crate) name: String,
    /// The number of its jobs, disabled ones too.
    pub(crate) jobs: usize,
    /// The limit of that number; none for any number.
    pub(crate) jobs_max: Option<u32>,
    /// How many of its runs may execute at once; none for any number.
    pub(crate) runs_max: Option<u32>,
    /// The number of its calendars.
    pub(crate) calendars: usize,
    /// The number of its runs that run now.
    pub(crate) running: usize,
    /// Rises with every change of its entry, also with each job that is created under a limit; 0 for `default` before it is
    /// declared.
    pub(crate) version: u64,
    /// Its description.
    pub(crate) description: String,
}

/// All namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NamespacePage {
    /// The namespaces, by name.
    pub(crate) namespaces: Vec<NamespaceRow>,
    /// Online nodes whose histories could not be read: their running runs are not counted.
    pub(crate) missing: Vec<String>,
}
