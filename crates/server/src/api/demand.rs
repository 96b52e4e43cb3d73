//! What an address demands of its caller: a role, and where the caller has to have it.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use evenkeel_core::principal::Role;

use super::ApiError;
use super::known_caller::KnownCaller;

/// The role that an address demands, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The least role.
    pub(crate) role: Role,
    /// Where the caller has to have it.
    pub(crate) scope: Scope,
}

/// Where a caller has to have a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// For the cluster as a whole.
    Cluster,
    /// In the namespace of the named job.
    Job,
    /// In the namespace of the job of the named run.
    Run,
    /// In the namespace of the named calendar.
    Calendar,
    /// In the namespace of the named secret.
    Secret,
    /// In the named namespace.
    Namespace,
    /// In the namespace to which the query limits the list; without one, for the cluster as a whole.
    List,
    /// Somewhere: the handler looks at what exactly the caller asks for.
    Body,
    /// Nowhere: each caller that is let in may ask for it.
    Caller,
}

impl Demand {
    /// This role in this scope.
    pub(crate) const fn new(role: Role, scope: Scope) -> Self {
        Self { role, scope }
    }
}

/// The code of a refusal of a known caller that lacks a role.
pub(super) const ROLE: &str = "role";

/// The caller needs the role in this namespace. To one that may see nothing there it does not exist.
pub(super) fn within(caller: &KnownCaller, role: Role, namespace: &str) -> Result<(), ApiError> {
    if caller.may(role, namespace) {
        return Ok(());
    }
    if caller.may(Role::Viewer, namespace) {
        return Err(lacking(role, &format!("namespace {namespace}")));
    }
    let own: BTreeSet<&str> = caller.grants.namespaces().unwrap_or_default().into_iter().collect();
    let own = own.into_iter().collect::<Vec<_>>().join(", ");
    let own = if own.is_empty() { own } else { format!("; you have one in {own} (--namespace NS)") };
    Err(ApiError::not_found(format!("there is no namespace {namespace}, or you have no role in it{own}")))
}

pub(super) fn lacking(role: Role, place: &str) -> ApiError {
    let text = format!("this takes the role {role} for {place}: `evenkeel whoami` shows yours");
    ApiError::new(StatusCode::FORBIDDEN, ROLE, text)
}
