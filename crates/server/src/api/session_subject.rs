//! Whose session it is.

use evenkeel::audit::Proof;
use evenkeel_core::ids::PrincipalName;

/// Whose session it is, and which "log out everywhere" it is younger than.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionSubject {
    /// The user; `None` for the holder of the cluster's key.
    pub(super) user: Option<PrincipalName>,
    /// The number of the latest "log out everywhere" at the login.
    pub(super) epoch: u64,
}

impl SessionSubject {
    /// What the login has proved.
    pub(super) fn proof(&self) -> Proof {
        match &self.user {
            Some(user) => Proof::User(user.to_string()),
            None => Proof::Key,
        }
    }
}
