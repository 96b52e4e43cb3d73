//! Rows of secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A secret, without what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SecretRow {
    /// Its name, with its namespace.
    pub(crate) name: String,
    /// Rises with every change.
    pub(crate) version: u64,
    /// When it was set.
    pub(crate) since: String,
    /// Who set it.
    pub(crate) by: String,
    /// Whether this node can open it: a node of this cluster wrote it.
    pub(crate) good: bool,
}

/// The secrets of a namespace, or of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SecretPage {
    /// The secrets, by name.
    pub(crate) secrets: Vec<SecretRow>,
    /// How many are in other namespaces; none if all were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) elsewhere: Option<usize>,
}
