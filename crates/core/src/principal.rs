//! Who may use a cluster: users and API tokens, and the roles that they have in namespaces.
//!
//! The core keeps principals and decides which role allows what. Whether a request is one of a principal is decided by the
//! process around the node, which has passwords and keys.

mod grants;

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{JobName, PrincipalName};
use crate::time::Wall;

pub use grants::{Grant, Grants, JobRights};

/// The kinds of principals. Names are unique within a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrincipalKind {
    /// A person, who logs in.
    User,
    /// A token with which a program calls the API.
    Token,
}

impl PrincipalKind {
    /// The kind in one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Token => "token",
        }
    }
}

/// A role. Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads jobs, runs, their output, calendars and events.
    Viewer,
    /// Also triggers, ends, pauses and switches what is declared.
    Operator,
    /// Also declares and deletes jobs and calendars.
    Author,
    /// Also deletes output, and manages principals, namespaces and the cluster.
    Admin,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Author, Self::Admin];

    /// The role as programs and people write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Author => "author",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a principal's password or token is compared with: a digest, which is shown nowhere.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretDigest(String);

impl SecretDigest {
    /// A digest as the process around the node computed it; empty for a principal that has none.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest")
    }
}

/// The secret that a token had before it got another one, which is accepted for a while.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FormerSecret {
    /// The digest of it.
    pub secret: SecretDigest,
    /// From when on it is accepted no more.
    pub until: Wall,
}

/// A principal, as an administrator declares it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// The kind.
    pub kind: PrincipalKind,
    /// The name.
    pub name: PrincipalName,
    /// The digest of the password or of the token's secret part.
    #[serde(default)]
    pub secret: SecretDigest,
    /// The secret of before, while programs still show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<FormerSecret>,
    /// The roles.
    pub grants: Grants,
    /// Whether it is let in no more.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub disabled: bool,
    /// How often all sessions of a user were ended at once; a session of an earlier number has ended.
    #[serde(default)]
    pub sessions: u64,
    /// The user of a token: it may do no more than the user may, and nothing without the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<PrincipalName>,
    /// The job that a token runs, as a webhook; such a token may do nothing else, and has no roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<JobName>,
    /// When it was created.
    pub created: Wall,
    /// From when on it is not let in; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Wall>,
    /// About when it was used last; an hour or so may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Wall>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}
