//! The owners of jobs: no owner replaces what another one applied, and each deletes only its own jobs.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::input::Precondition;

use super::super::all_jobs::all_jobs;
use super::super::namespace_args::{ListedNamespaceArgs, NamespaceArgs};
use crate::client::ApiClient;
use crate::exit::{CliError, ExitKind};
use crate::files::{JobHead, JobOwner, OWNER_LABEL};
use evenkeel_client::ClientErrorKind;
use evenkeel_client::types::JobRow;

/// How many jobs a message names.
const NAMED: usize = 20;

/// The jobs of these namespaces whose labels meet a condition.
///
/// # Errors
/// No node answers, or the request is refused.
pub(super) fn list(
    client: &ApiClient,
    namespaces: impl IntoIterator<Item = Namespace>,
    label: &str,
) -> Result<Vec<JobRow>, CliError> {
    let mut rows = Vec::new();
    for namespace in namespaces {
        let one = NamespaceArgs { namespace: Some(namespace) };
        let within = ListedNamespaceArgs { one, all_namespaces: false };
        rows.extend(all_jobs(client, ("", label), &within)?.0);
    }
    Ok(rows)
}

/// The namespaces of these jobs.
pub(super) fn namespaces<'a>(jobs: impl Iterator<Item = &'a JobName>) -> BTreeSet<Namespace> {
    jobs.filter_map(|name| name.namespace().parse().ok()).collect()
}

/// Refuses jobs that stand with another owner than they are declared with.
///
/// # Errors
/// There are such jobs, or no node answers.
pub(super) fn check(client: &ApiClient, jobs: &[JobHead]) -> Result<(), CliError> {
    let rows = list(client, namespaces(jobs.iter().map(|job| &job.name)), OWNER_LABEL)?;
    let owner = |row: JobRow| Some((row.name, row.labels.get(OWNER_LABEL)?.clone()));
    let owners: BTreeMap<String, String> = rows.into_iter().filter_map(owner).collect();
    let refused = jobs.iter().filter_map(|job| {
        let standing = owners.get(&job.name.to_string())?;
        let declared = job.labels.get(OWNER_LABEL);
        let by = declared.map_or_else(|| "without an owner".to_owned(), |owner| format!("as owner {owner}"));
        (declared != Some(standing)).then(|| {
            format!(
                "job {} is applied by owner {standing}: say --owner {standing}, or --take-over to apply it {by}",
                job.name
            )
        })
    });
    refusal(&refused.collect::<Vec<_>>())
}

/// The error that has these sentences; none if there are none.
fn refusal(sentences: &[String]) -> Result<(), CliError> {
    if sentences.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = sentences.iter().take(NAMED).cloned().collect();
    let more = sentences.len() - lines.len();
    lines.extend((more > 0).then(|| format!("and {more} more")));
    Err(CliError::new(ExitKind::Conflict, lines.join("\n")))
}

/// The jobs of one owner in one namespace, of which those that no file declares are deleted.
#[derive(Debug)]
pub(super) struct OwnedJobs<'a> {
    pub(super) owner: &'a JobOwner,
    pub(super) namespace: Namespace,
}

impl OwnedJobs<'_> {
    /// Checks that the declared jobs are all that this owner has in this namespace.
    ///
    /// # Errors
    /// A job is in another namespace, or there are none, which may be a wrong folder.
    pub(super) fn check(&self, jobs: &[JobHead], allow_empty: bool) -> Result<(), CliError> {
        let Self { owner, namespace } = self;
        if let Some(other) = jobs.iter().find(|job| job.name.namespace() != namespace.as_str()) {
            let of = other.name.namespace();
            return Err(CliError::invalid(format!(
                "--prune is of one namespace, {namespace}, and job {} is in {of}: apply the files of each namespace \
                 alone, as with -n {of}",
                other.name
            )));
        }
        match jobs.is_empty() && !allow_empty {
            false => Ok(()),
            true => Err(CliError::invalid(format!(
                "the files declare no job, so --prune would delete every job of owner {owner} in namespace {namespace}: \
                 look at -f, or say --allow-empty"
            ))),
        }
    }

    /// The jobs that stand and are not declared.
    ///
    /// # Errors
    /// No node answers.
    pub(super) fn gone(&self, client: &ApiClient, jobs: &[JobHead]) -> Result<Vec<JobName>, CliError> {
        let declared: BTreeSet<&JobName> = jobs.iter().map(|job| &job.name).collect();
        let label = format!("{OWNER_LABEL}={}", self.owner);
        let rows = list(client, [self.namespace.clone()], &label)?;
        let names: Result<Vec<JobName>, _> = rows.iter().map(|row| row.name.parse()).collect();
        let mut names = names.map_err(|e| CliError::new(ExitKind::Failed, format!("the node lists {e}")))?;
        names.retain(|name| !declared.contains(name));
        Ok(names)
    }

    /// Deletes jobs, each as it was read: one that changed since is not deleted. Returns those that were deleted, and how it
    /// ended.
    pub(super) fn delete(
        &self,
        client: &ApiClient,
        names: &[JobName],
    ) -> (Vec<JobName>, Result<(), CliError>) {
        let (mut deleted, mut kept) = (Vec::new(), Vec::new());
        for name in names {
            match self.delete_one(client, name) {
                Ok(true) => deleted.push(name.clone()),
                Ok(false) => kept
                    .push(format!("job {name} changed while it was to be deleted, so it stays: apply again")),
                Err(failure) => return (deleted, Err(failure)),
            }
        }
        (deleted, refusal(&kept))
    }

    /// Deletes a job, if it is still one of this owner; one that is gone already counts as deleted.
    fn delete_one(&self, client: &ApiClient, name: &JobName) -> Result<bool, CliError> {
        let found = match client.show_job(name) {
            Err(failure) if failure.kind == ClientErrorKind::NotFound => return Ok(true),
            found => found?,
        };
        if !self.owner.owns(&found.job.labels) {
            return Ok(false);
        }
        match client.only_if(Precondition::Version(vec![found.version])).delete_job(name) {
            Ok(_) => Ok(true),
            Err(failure) if failure.kind == ClientErrorKind::NotFound => Ok(true),
            Err(failure) if failure.kind == ClientErrorKind::Conflict => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }
}
