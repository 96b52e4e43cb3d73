//! All pages of a list of jobs.

use std::collections::BTreeSet;

use evenkeel_client::requests::JobListQuery;
use evenkeel_client::types::JobRow;

use super::namespace_args::ListedNamespaceArgs;
use super::values;
use crate::client::ApiClient;
use crate::exit::CliError;
use crate::output;

/// The jobs of a namespace, or of all, whose names contain a text and whose labels meet conditions, and how many jobs are in other namespaces.
///
/// # Errors
/// No node answers, or the request is refused.
pub(super) fn all_jobs(
    client: &ApiClient,
    (find, label): (&str, &str),
    within: &ListedNamespaceArgs,
) -> Result<(Vec<JobRow>, usize), CliError> {
    all_pages(client, listed(find, label, within))
}

/// The query for the jobs of a namespace, or of all, whose names contain a text and whose labels meet conditions.
pub(super) fn listed(find: &str, label: &str, within: &ListedNamespaceArgs) -> JobListQuery {
    JobListQuery {
        limit: Some(1000),
        find: find.to_owned(),
        label: Some(label.to_owned()).filter(|label| !label.is_empty()),
        namespace: within.filter(),
        ..JobListQuery::default()
    }
}

/// The jobs of all pages of a list, and how many jobs are in other namespaces.
///
/// # Errors
/// No node answers, or the request is refused.
pub(super) fn all_pages(
    client: &ApiClient,
    mut query: JobListQuery,
) -> Result<(Vec<JobRow>, usize), CliError> {
    let mut jobs = Vec::new();
    let mut missing = BTreeSet::new();
    loop {
        let page = client.list_jobs(&query)?;
        jobs.extend(page.jobs);
        missing.extend(page.missing);
        let Some(after) = page.after else {
            output::missing(&missing.into_iter().collect::<Vec<_>>());
            return Ok((jobs, page.elsewhere.unwrap_or(0)));
        };
        query.after = Some(values::next_page(&after)?);
    }
}
