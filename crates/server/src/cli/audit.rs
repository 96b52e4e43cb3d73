//! The command `evenkeel audit`.

use super::values;
use clap::Args;

use super::namespace_args::NamespaceArgs;
use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::output;
use evenkeel_client::requests::AuditListQuery;
use evenkeel_client::types::AuditRow;

/// `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditListArgs {
    /// Only entries about this job; with -n only those about jobs of that namespace
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only entries about this node, or decided by it
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only requests of this user or token, that claim this name, or with this proof of the caller: key, local, process, node or nobody
    #[arg(long)]
    who: Option<String>,
    /// Only after this time: how long ago, such as 10m or 2d, or a moment such as 2026-03-01T22:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = super::values::when)]
    since: Option<String>,
    /// Only up to this time, in the same form
    #[arg(long, value_name = "WHEN", value_parser = super::values::when)]
    until: Option<String>,
    /// The maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(list: &AuditListArgs) -> Result<(), CliError> {
    let client = list.reach.client()?;
    let job = list.job.as_ref().map(|job| list.within.job(job));
    let mut entries: Vec<AuditRow> = Vec::new();
    let limit = list.limit as usize;
    let mut query = AuditListQuery {
        namespace: list.within.get().filter(|_| job.is_none()).cloned(),
        job: job.as_deref().map(|job| values::parsed("--job", job)).transpose()?,
        node: list.node.clone(),
        who: list.who.clone(),
        since: list.since.clone(),
        until: list.until.clone(),
        ..AuditListQuery::default()
    };
    while entries.len() < limit {
        query.limit = Some(values::page_limit(limit - entries.len()));
        let page = client.list_audit(&query)?;
        output::missing(&page.missing);
        page.warnings.iter().for_each(|text| output::print_message(text));
        entries.extend(page.audit);
        query.before = page.before;
        if query.before.is_none() {
            break;
        }
    }
    output::list(list.reach.output, &entries, "no such request is in the audit log")
}
