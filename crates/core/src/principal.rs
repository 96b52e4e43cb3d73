//! Who may use a cluster: users and API tokens, and the roles that they have in namespaces.
//!
//! The core keeps principals and decides which role allows what. Whether a request is one of a principal is decided by the
//! process around the node, which has passwords and keys.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{IdError, Namespace, PrincipalName};
use crate::time::Wall;

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

/// A role in one namespace, or in all of them and for the cluster as a whole.
///
/// Written `author:team-a`, or `author` for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// The namespace; `None` for all namespaces and the cluster as a whole.
    pub namespace: Option<Namespace>,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}:{namespace}", self.role),
            None => self.role.fmt(f),
        }
    }
}

impl FromStr for Grant {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let (role, namespace) = match text.split_once(':') {
            Some((role, namespace)) => (role, Some(namespace.parse()?)),
            None => (text, None),
        };
        let role = Role::ALL.into_iter().find(|known| known.as_str() == role).ok_or_else(|| {
            IdError::new(format!(
                "{text:?} is no role: write viewer, operator, author or admin, and :NAMESPACE for one namespace only"
            ))
        })?;
        Ok(Self { role, namespace })
    }
}

impl TryFrom<String> for Grant {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

/// The roles of a principal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grants(pub Vec<Grant>);

impl Grants {
    /// The role of an administrator of everything.
    #[must_use]
    pub fn all() -> Self {
        Self([Grant { role: Role::Admin, namespace: None }].into())
    }

    /// The highest role in a namespace; `None` if there is none.
    #[must_use]
    pub fn role_in(&self, namespace: &str) -> Option<Role> {
        let fits =
            |grant: &&Grant| grant.namespace.as_ref().is_none_or(|granted| granted.as_str() == namespace);
        self.0.iter().filter(fits).map(|grant| grant.role).max()
    }

    /// The highest role for the cluster as a whole.
    #[must_use]
    pub fn role_in_cluster(&self) -> Option<Role> {
        self.0.iter().filter(|grant| grant.namespace.is_none()).map(|grant| grant.role).max()
    }

    /// The namespaces in which there is a role; `None` for all.
    #[must_use]
    pub fn namespaces(&self) -> Option<Vec<&str>> {
        self.0.iter().map(|grant| grant.namespace.as_ref().map(Namespace::as_str)).collect()
    }

    /// The roles that both allow: in each namespace the lower one.
    #[must_use]
    pub fn both(&self, other: &Self) -> Self {
        let mut grants = Vec::new();
        for (one, two) in self.0.iter().flat_map(|one| other.0.iter().map(move |two| (one, two))) {
            let namespace = match (&one.namespace, &two.namespace) {
                (Some(a), Some(b)) if a != b => continue,
                (a, b) => a.clone().or_else(|| b.clone()),
            };
            grants.push(Grant { role: one.role.min(two.role), namespace });
        }
        grants.sort();
        grants.dedup();
        Self(grants)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(text: &str) -> Grants {
        Grants(text.split(' ').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect())
    }

    #[test]
    fn grants_are_read_back_as_written() {
        for text in ["viewer", "admin", "author:team-a", "operator:default"] {
            assert_eq!(text.parse::<Grant>().map(|grant| grant.to_string()), Ok(text.into()));
        }
        for bad in ["", "king", "author:", "author:a/b", "Admin", ":a"] {
            assert!(bad.parse::<Grant>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_highest_role_counts_in_its_namespace_only() {
        let of = grants("viewer author:a viewer:a operator:b");
        assert_eq!(of.role_in("a"), Some(Role::Author));
        assert_eq!(of.role_in("b"), Some(Role::Operator));
        assert_eq!(of.role_in("c"), Some(Role::Viewer));
        assert_eq!(of.role_in_cluster(), Some(Role::Viewer));
        assert_eq!(of.namespaces(), None);
        let narrow = grants("author:a admin:b");
        assert_eq!((narrow.role_in("c"), narrow.role_in_cluster()), (None, None));
        assert_eq!(narrow.namespaces(), Some(["a", "b"].into()));
        assert_eq!(grants("").namespaces(), Some([].into()));
        assert_eq!(Grants::all().role_in_cluster(), Some(Role::Admin));
    }

    #[test]
    fn two_principals_together_may_what_both_may() {
        let both = |one: &str, two: &str| {
            let both = grants(one).both(&grants(two));
            assert_eq!(both, grants(two).both(&grants(one)), "{one} {two}");
            both.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(both("admin", "viewer:a"), "viewer:a");
        assert_eq!(both("author:a operator:b", "viewer:b admin:c"), "viewer:b");
        assert_eq!(both("author:a", "author:b"), "");
        assert_eq!(both("operator", "author"), "operator");
        assert_eq!(both("", "admin"), "");
        // The parts of one side are alternatives, so the lower one takes nothing away.
        assert_eq!(grants("viewer author:a").both(&grants("admin:a")).role_in("a"), Some(Role::Author));
    }
}
