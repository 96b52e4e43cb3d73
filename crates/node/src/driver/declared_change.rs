//! What a transaction makes of a job's declaration: the version that history keeps of it.

use evenkeel_core::ids::JobName;
use evenkeel_core::input::CommandKind;
use evenkeel_core::job::{Job, Spec};
use evenkeel_core::record::SpecRecord;

use crate::audit::AuditRecord;
use crate::history::{HistoryWrite, JobVersionEntry};
use crate::job_version::{JobChange, JobVersion};

/// A changed declaration, and the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeclaredChange {
    name: JobName,
    version: u64,
    /// What is declared; `None` if the job is deleted.
    job: Option<Box<Job>>,
    replaced: Option<(u64, Box<Job>)>,
}

impl DeclaredChange {
    /// The change from one entry of a job to the next; `None` for a switch, which leaves the declaration as it is.
    pub(super) fn of(name: &JobName, old: Option<&Spec>, new: &SpecRecord) -> Option<Box<Self>> {
        let job = match new {
            SpecRecord::Live(spec) => Some(Box::new(spec.declared())),
            SpecRecord::Deleted { .. } => None,
            // No node writes one without a seal.
            SpecRecord::Unsealed(_) => return None,
        };
        let replaced = old.map(|old| (old.version, Box::new(old.declared())));
        let is_same = matches!((&job, &replaced), (Some(new), Some((_, old))) if new == old);
        let change = Self { name: name.clone(), version: new.version(), job, replaced };
        (!is_same).then(|| Box::new(change))
    }

    /// What history keeps of it. The record is the one of the request; `restored` is the version that a rollback declares.
    pub(super) fn entry(self, request: &AuditRecord, restored: Option<u64>) -> HistoryWrite {
        let Self { name, version, job, replaced } = self;
        let change = match request.verb.as_str() {
            _ if job.is_none() => JobChange::Deleted,
            _ if restored.is_some() => JobChange::RolledBack,
            verb if verb == CommandKind::ACCEPT_JOB.verb => JobChange::Accepted,
            _ if replaced.is_none() => JobChange::Created,
            _ => JobChange::Changed,
        };
        let version = JobVersion {
            job: name,
            version,
            at: request.at,
            node: request.node.clone(),
            asker: Some(request.asker.clone()),
            change,
            restored,
            declared: None,
        };
        HistoryWrite::JobVersion(Box::new(JobVersionEntry { version, job, replaced }))
    }
}
