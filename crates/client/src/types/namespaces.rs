//! Rows of namespaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A namespace with what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceRow {
    /// Its name.
    pub name: String,
    /// The number of its jobs, disabled ones too.
    pub jobs: usize,
    /// The limit of that number; none for any number.
    pub jobs_max: Option<u32>,
    /// How many of its runs may execute at once; none for any number.
    pub runs_max: Option<u32>,
    /// The number of its calendars.
    pub calendars: usize,
    /// The number of its runs that run now.
    pub running: usize,
    /// Rises with every change of its entry, also with each job that is created under a limit; 0 for `default` before it is
    /// declared.
    pub version: u64,
    /// Its description.
    pub description: String,
}

/// All namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespacePage {
    /// The namespaces, by name.
    pub namespaces: Vec<NamespaceRow>,
    /// Online nodes whose histories could not be read: their running runs are not counted.
    pub missing: Vec<String>,
}
