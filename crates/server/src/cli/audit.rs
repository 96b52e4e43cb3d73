//! The command `evenkeel audit`.

use clap::Args;

use super::namespace_args::NamespaceArgs;
use crate::api_types::{AuditPage, AuditRow};
use crate::client::{ConnectArgs, escape};
use crate::exit::CliError;
use crate::output;

/// `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditListArgs {
    /// Only entries about this job; with -n only those about jobs of that namespace
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only entries about this node, or decided by it
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only requests with this proof of the caller (key, local, process, node, nobody), or that claim this name
    #[arg(long)]
    who: Option<String>,
    /// Only after this time: how long ago, such as 10m or 2d, or a moment such as 2026-03-01T22:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = super::values::when)]
    since: Option<String>,
    /// Only up to this time, in the same form
    #[arg(long, value_name = "WHEN", value_parser = super::values::when)]
    until: Option<String>,
    /// The maximum number of rows
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
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
    let namespace = list.within.get().filter(|_| job.is_none()).map(ToString::to_string);
    let mut entries: Vec<AuditRow> = Vec::new();
    let mut before = None;
    let limit = list.limit as usize;
    while entries.len() < limit {
        let mut path = format!("/audit?limit={}", (limit - entries.len()).min(1000));
        let given = [
            ("job", &job),
            ("namespace", &namespace),
            ("node", &list.node),
            ("who", &list.who),
            ("since", &list.since),
            ("until", &list.until),
            ("before", &before),
        ];
        for (key, value) in given {
            if let Some(value) = value {
                path.push_str(&format!("&{key}={}", escape(value)));
            }
        }
        let page: AuditPage = client.get(&path)?;
        output::missing(&page.missing);
        page.warnings.iter().for_each(|text| output::print_message(text));
        entries.extend(page.audit);
        before = page.before;
        if before.is_none() {
            break;
        }
    }
    output::list(list.reach.output, &entries, "no such request is in the audit log")
}
