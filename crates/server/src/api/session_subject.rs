//! Whose session it is.

use evenkeel::audit::Proof;
use evenkeel_core::ids::PrincipalName;
use evenkeel_core::principal::Grants;
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

use crate::key::{bytes, hex};

/// How a cookie names the holder of the cluster's key, and what it has before the name of a user, and before a person whom
/// another system knows.
const KEY: &str = "key";
const USER: &str = "user/";
const OIDC: &str = "oidc/";

/// Whose session it is, and which "log out everywhere" it is younger than.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionSubject {
    /// The one that has logged in.
    pub(super) owner: SessionOwner,
    /// The number of the latest "log out everywhere" at the login.
    pub(super) epoch: u64,
}

/// The one that has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionOwner {
    /// The holder of the cluster's key.
    Key,
    /// A user of this cluster.
    User(PrincipalName),
    /// A person for whom an OpenID Connect provider vouches.
    Oidc(Box<OidcOwner>),
}

/// A person for whom an OpenID Connect provider vouches. The registry does not know it, so the session has its roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OidcOwner {
    pub(super) name: String,
    pub(super) grants: Grants,
    /// When the person has to log in again.
    pub(super) ends: Wall,
}

impl SessionSubject {
    /// What the login has proved.
    pub(super) fn proof(&self) -> Proof {
        match &self.owner {
            SessionOwner::Key => Proof::Key,
            SessionOwner::User(user) => Proof::User(user.to_string()),
            SessionOwner::Oidc(person) => Proof::Oidc(person.name.clone()),
        }
    }

    /// When its sessions end at the latest, if that is sooner than others do.
    pub(super) fn ends(&self) -> Option<Wall> {
        match &self.owner {
            SessionOwner::Oidc(person) => Some(person.ends),
            SessionOwner::Key | SessionOwner::User(_) => None,
        }
    }

    /// How people call it.
    pub(super) fn words(&self) -> String {
        match &self.owner {
            SessionOwner::Key => "the holder of the cluster's key".to_owned(),
            SessionOwner::User(user) => format!("the user {user}"),
            SessionOwner::Oidc(person) => format!("{} of the login provider", person.name),
        }
    }
}

impl SessionOwner {
    /// As a cookie has it.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Key => KEY.to_owned(),
            Self::User(user) => format!("{USER}{user}"),
            // A name may have any characters, and a cookie may not.
            Self::Oidc(person) => {
                let text = serde_json::to_vec(person).expect("a person is plain data");
                format!("{OIDC}{}", hex(&text))
            }
        }
    }

    /// The owner that a cookie names.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == KEY {
            return Some(Self::Key);
        }
        if let Some(user) = text.strip_prefix(USER) {
            return user.parse().ok().map(Self::User);
        }
        serde_json::from_slice(&bytes(text.strip_prefix(OIDC)?)?).ok().map(Self::Oidc)
    }
}
