//! All pages of a list of jobs.

use evenkeel_client::requests::JobListQuery;
use evenkeel_client::types::JobRow;

use super::namespace_args::ListedNamespaceArgs;
use super::values;
use crate::client::ApiClient;
use crate::exit::CliError;

/// The jobs of a namespace, or of all, whose names contain a text and whose labels meet conditions, and how many jobs are in other namespaces.
///
/// # Errors
/// No node answers, or the request is refused.
pub(super) fn all_jobs(
    client: &ApiClient,
    (find, label): (&str, &str),
    within: &ListedNamespaceArgs,
) -> Result<(Vec<JobRow>, usize), CliError> {
    let mut jobs = Vec::new();
    let mut query = JobListQuery {
        limit: Some(1000),
        find: find.to_owned(),
        label: Some(label.to_owned()).filter(|label| !label.is_empty()),
        namespace: within.filter(),
        ..JobListQuery::default()
    };
    loop {
        let page = client.list_jobs(&query)?;
        jobs.extend(page.jobs);
        let Some(after) = page.after else { return Ok((jobs, page.elsewhere.unwrap_or(0))) };
        query.after = Some(values::next_page(&after)?);
    }
}
