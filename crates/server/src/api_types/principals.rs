//! Rows of users and API tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct UserRow {
    /// Its name.
    pub(crate) name: String,
    /// Its roles, as `author:team-a`, or `author` for all namespaces and the cluster.
    pub(crate) roles: Vec<String>,
    /// Whether it is let in no more.
    pub(crate) disabled: bool,
    /// Whether it has a password.
    pub(crate) password: bool,
    /// When it was created.
    pub(crate) created: String,
    /// From when on it is not let in.
    pub(crate) expires: Option<String>,
    /// Rises with every change.
    pub(crate) version: u64,
    /// What it is for.
    pub(crate) description: String,
}

/// An API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TokenRow {
    /// Its name.
    pub(crate) name: String,
    /// Its roles.
    pub(crate) roles: Vec<String>,
    /// The user whose roles limit its own.
    pub(crate) owner: Option<String>,
    /// The job that it runs as a webhook: it may do nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trigger: Option<String>,
    /// When its secret was made.
    pub(crate) created: String,
    /// From when on it is not let in; none for never.
    pub(crate) expires: Option<String>,
    /// About when it was used last; an hour or so may be missing.
    pub(crate) last_used: Option<String>,
    /// Rises with every change.
    pub(crate) version: u64,
    /// What it is for.
    pub(crate) description: String,
}

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CallerRow {
    /// `key`, `user:NAME` or `token:NAME`.
    pub(crate) who: String,
    /// Its roles.
    pub(crate) roles: Vec<String>,
}
