//! The proved sender of a request, and what it may do.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use evenkeel::audit::Proof;
use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::principal::{Grants, JobRights, Role};

use super::ApiError;
use super::session::Session;
use super::token_text::TokenText;

/// The proved sender of a request. Every request that is let in has it as an extension.
#[derive(Clone, Debug)]
pub(crate) struct KnownCaller {
    /// What was proved of it.
    pub(crate) proof: Proof,
    /// Its roles.
    pub(crate) grants: Grants,
    /// Its session, if it is a browser.
    pub(super) session: Option<Session>,
    /// The token that it has shown, if it has one.
    pub(super) token: Option<Arc<TokenText>>,
    /// The job that its token runs, if it is a webhook's: it has no roles then.
    pub(super) trigger: Option<JobName>,
    /// The epoch of the cluster's key that it has shown, if it has shown one.
    pub(super) key: Option<u64>,
}

impl KnownCaller {
    /// A caller with the cluster's key, which may do everything.
    pub(super) fn with_key(epoch: u64) -> Self {
        Self {
            proof: Proof::Key,
            grants: Grants::all(),
            session: None,
            token: None,
            trigger: None,
            key: Some(epoch),
        }
    }

    /// A process of this user of the node's host, which may do everything.
    pub(super) fn of_host(user: u32) -> Self {
        Self { proof: Proof::Uid(user), key: None, ..Self::with_key(0) }
    }

    /// Whether it has this role, or a higher one, in a namespace.
    pub(crate) fn may(&self, role: Role, namespace: &str) -> bool {
        self.grants.role_in(namespace) >= Some(role)
    }

    /// Whether it has this role, or a higher one, on some job that may be in a namespace.
    pub(super) fn may_on_some_job(&self, role: Role, namespace: &str) -> bool {
        self.grants.role_on_some_job(namespace) >= Some(role)
    }

    /// The rights by which each command of a request that demands this role is judged; `None` where no label decides.
    pub(super) fn job_rights(&self, role: Role) -> Option<JobRights> {
        self.grants.has_labels().then(|| JobRights { grants: self.grants.clone(), role })
    }

    /// The part of the cluster that a page can show it: one namespace, or `Some(None)` for all; `None` where it has no role.
    pub(crate) fn visible_part(&self) -> Option<Option<Namespace>> {
        if self.may_in_cluster(Role::Viewer) {
            return Some(None);
        }
        self.grants.0.iter().filter_map(|grant| grant.namespace.clone()).min().map(Some)
    }

    /// Whether it has this role, or a higher one, on some job that may be in any namespace.
    pub(super) fn may_on_some_job_anywhere(&self, role: Role) -> bool {
        self.grants.role_on_some_job_anywhere() >= Some(role)
    }

    /// Whether it has this role, or a higher one, for the cluster as a whole.
    pub(super) fn may_in_cluster(&self, role: Role) -> bool {
        self.grants.role_in_cluster() >= Some(role)
    }
}

impl<S: Sync> FromRequestParts<S> for KnownCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let known = parts.extensions.get().cloned();
        known.ok_or_else(|| ApiError::internal("the sender of this request is not known"))
    }
}
