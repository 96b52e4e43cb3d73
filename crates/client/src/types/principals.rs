//! Rows of users and API tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserRow {
    /// Its name.
    pub name: String,
    /// Its roles, as `author:team-a`, or `author` for all namespaces and the cluster.
    pub roles: Vec<String>,
    /// Whether it is let in no more.
    pub disabled: bool,
    /// Whether it has a password.
    pub password: bool,
    /// When it was created.
    pub created: String,
    /// From when on it is not let in.
    pub expires: Option<String>,
    /// Rises with every change.
    pub version: u64,
    /// What it is for.
    pub description: String,
}

/// An API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenRow {
    /// Its name.
    pub name: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// The user whose roles limit its own.
    pub owner: Option<String>,
    /// The job that it runs as a webhook: it may do nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// When its secret was made.
    pub created: String,
    /// From when on it is not let in; none for never.
    pub expires: Option<String>,
    /// About when it was used last; an hour or so may be missing.
    pub last_used: Option<String>,
    /// Rises with every change.
    pub version: u64,
    /// What it is for.
    pub description: String,
}

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallerRow {
    /// `key`, `user:NAME` or `token:NAME`.
    pub who: String,
    /// Its roles.
    pub roles: Vec<String>,
}
