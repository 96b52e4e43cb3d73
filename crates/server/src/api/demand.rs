//! What an address demands of its caller: a role, and where the caller has to have it.

use std::collections::BTreeSet;

use evenkeel_core::ids::JobName;
use evenkeel_core::job::JobLabels;
use evenkeel_core::principal::{JobRights, Role};

use super::known_caller::KnownCaller;
use super::{ApiError, App};
use crate::queries;

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
    /// In the namespace of the named job, or on that job by its labels.
    Job,
    /// In the namespace of the job of the named run, or on that job by its labels.
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
    /// Nowhere: it takes a webhook's token, and runs the job of the token.
    Trigger,
    /// Nowhere: each caller that is let in may ask for it.
    Caller,
}

impl Demand {
    /// This role in this scope.
    pub(crate) const fn new(role: Role, scope: Scope) -> Self {
        Self { role, scope }
    }
}

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
    ApiError::lacks_role(text)
}

/// The caller needs the role on this job, whose labels may decide. A job that does not exist is the handler's to refuse.
pub(super) fn on_job(app: &App, caller: &KnownCaller, role: Role, job: &JobName) -> Result<(), ApiError> {
    let Some(rights) = by_labels(caller, role, job) else { return within(caller, role, job.namespace()) };
    match queries::labels(&app.handle, job) {
        Some(labels) => rights.check_present(job, &labels).map_err(ApiError::lacks_role),
        None => Ok(()),
    }
}

/// The caller needs the role on the job of a run. The labels of a job that does not exist any more fit no selector.
pub(super) fn on_run(app: &App, caller: &KnownCaller, role: Role, job: &JobName) -> Result<(), ApiError> {
    match by_labels(caller, role, job) {
        Some(rights) if queries::labels(&app.handle, job).is_none() => {
            rights.check_unknown(job).map_err(ApiError::lacks_role)
        }
        _ => on_job(app, caller, role, job),
    }
}

/// The caller needs the role on this job as it is, if it exists, and as it is declared: with these labels, or as it is.
pub(super) fn on_declared(
    app: &App,
    caller: &KnownCaller,
    role: Role,
    (job, labels): (&JobName, Option<&JobLabels>),
) -> Result<(), ApiError> {
    on_job(app, caller, role, job)?;
    match (by_labels(caller, role, job), labels) {
        (Some(rights), Some(labels)) => rights.check_declared(job, labels).map_err(ApiError::lacks_role),
        _ => Ok(()),
    }
}

/// The rights of a caller whose role on a job depends on the labels of the job.
fn by_labels(caller: &KnownCaller, role: Role, job: &JobName) -> Option<JobRights> {
    let namespace = job.namespace();
    let depends = !caller.may(role, namespace) && caller.may_on_some_job(role, namespace);
    caller.job_rights(role).filter(|_| depends)
}
