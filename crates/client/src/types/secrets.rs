//! Rows of secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A secret, without what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRow {
    /// Its name, with its namespace.
    pub name: String,
    /// Rises with every change.
    pub version: u64,
    /// When it was set.
    pub since: String,
    /// Who set it.
    pub by: String,
    /// Whether this node can open it: a node of this cluster wrote it.
    pub good: bool,
}

/// The secrets of a namespace, or of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretPage {
    /// The secrets, by name.
    pub secrets: Vec<SecretRow>,
    /// How many are in other namespaces; none if all were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<usize>,
}
