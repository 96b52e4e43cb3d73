//! The commands `evenkeel job history`, `job diff` and `job rollback`: who changed a job, what exactly, and back.

use clap::Args;
use evenkeel_core::input::ApplyResult;
use serde_json::Value;

use super::namespace_args::NamespaceArgs;
use super::switch_text;
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::local_time::local;
use crate::output::{self, TableRow};
use evenkeel_client::requests::{JobVersionListQuery, JobVersionQuery, RollbackBody};
use evenkeel_client::types::{FieldChange, JobVersionRow};

/// The most versions on one page.
const PAGE_MAX: usize = 1_000;

/// `evenkeel job history`.
#[derive(Debug, Args)]
pub(crate) struct JobHistoryArgs {
    /// The job's name
    name: String,
    /// The maximum number of versions
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// `evenkeel job diff`.
#[derive(Debug, Args)]
pub(crate) struct JobDiffArgs {
    /// The job's name
    name: String,
    /// The version before, as `job history` shows it. Without one, what the latest change changed is shown
    #[arg(value_name = "A")]
    from: Option<u64>,
    /// The version after; what is declared now by default
    #[arg(value_name = "B")]
    to: Option<u64>,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// `evenkeel job rollback`.
#[derive(Debug, Args)]
pub(crate) struct JobRollbackArgs {
    /// The job's name
    name: String,
    /// The version to declare again, as `job history` shows it; the one before what is declared now by default
    #[arg(long, value_name = "VERSION")]
    to: Option<u64>,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

impl TableRow for JobVersionRow {
    const HEADS: &'static [&'static str] = &["version", "when", "by", "change", "fields"];

    fn cells(&self) -> Vec<String> {
        let by = match (self.who.as_deref(), self.claims.as_deref()) {
            (None, _) => "-".to_owned(),
            (Some(who), None) => who.to_owned(),
            (Some(who), Some(claims)) => format!("{who}, says {claims}"),
        };
        let change = match (self.restored, self.change.as_str()) {
            (Some(version), _) => format!("rolled back to {version}"),
            (None, "found") => "not known".to_owned(),
            (None, change) => change.replace('_', " "),
        };
        let now = if self.current { " (now)" } else { "" };
        let fields = match self.fields.as_deref() {
            None => "?".to_owned(),
            Some([]) => "-".to_owned(),
            Some(fields) => fields.join(", "),
        };
        vec![format!("{}{now}", self.version), local(self.at.as_deref()), by, change, fields]
    }
}

/// Lists the versions of a job.
///
/// # Errors
/// The request failed, or there was never such a job.
pub(super) fn history(args: &JobHistoryArgs) -> Result<(), CliError> {
    let job = args.within.job(&args.name);
    let versions = versions(&args.reach.client()?, &job, args.limit as usize)?;
    output::list(args.reach.output, &versions, "no version of this job is known")
}

/// Up to so many versions of a job, the latest first.
fn versions(client: &ApiClient, job: &str, limit: usize) -> Result<Vec<JobVersionRow>, CliError> {
    let mut versions: Vec<JobVersionRow> = Vec::new();
    let mut after = None;
    while versions.len() < limit {
        let query = JobVersionListQuery { limit: Some((limit - versions.len()).min(PAGE_MAX)), after };
        let page = client.list_job_versions(job, &query)?;
        if after.is_none() {
            output::missing(&page.missing);
        }
        versions.extend(page.versions);
        after = page.after;
        if after.is_none() {
            break;
        }
    }
    Ok(versions)
}

/// Shows what differs between two versions.
///
/// # Errors
/// The request failed, or there is no such version.
pub(super) fn diff(args: &JobDiffArgs) -> Result<(), CliError> {
    let (client, job) = (args.reach.client()?, args.within.job(&args.name));
    let to = match args.to {
        Some(to) => to,
        None => {
            let versions = versions(&client, &job, PAGE_MAX)?;
            let now = versions.iter().find(|row| row.current).or(versions.first());
            now.map(|row| row.version).ok_or_else(|| no_version(&job))?
        }
    };
    let shown = client.show_job_version(&job, to, &JobVersionQuery { diff: args.from })?;
    if !args.reach.output.is_text() {
        return output::value(args.reach.output, &shown);
    }
    let Some(from) = shown.compared_with else {
        return output::line(&format!("no version of job {job} before {to} is known"));
    };
    if shown.changes.is_empty() {
        return output::line(&format!("versions {from} and {to} of job {job} declare the same"));
    }
    output::line(&format!("job {job}, version {from} → {to}:"))?;
    lines(&shown.changes).iter().try_for_each(|line| output::line(line))
}

/// Declares an earlier version again.
///
/// # Errors
/// The request failed, or there is no such version.
pub(super) fn rollback(args: &JobRollbackArgs) -> Result<(), CliError> {
    let (client, job) = (args.reach.client()?, args.within.job(&args.name));
    let to = match args.to {
        Some(to) => to,
        None => before(&versions(&client, &job, PAGE_MAX)?).ok_or_else(|| no_version(&job))?,
    };
    let answer = client.roll_back_job(&job, &RollbackBody { version: to, dry_run: args.dry_run })?;
    answer.warnings.iter().for_each(|text| output::print_message(text));
    if !args.reach.output.is_text() {
        return output::value(args.reach.output, &answer);
    }
    let same = answer.changes.is_empty() && answer.from.is_some();
    output::line(&match answer.applied {
        _ if same => format!("job {job} is as version {to} declares it: nothing changes"),
        None => format!("job {job} would be rolled back to version {to}:"),
        Some(ApplyResult::Unchanged) => format!("job {job} was rolled back to version {to} meanwhile"),
        Some(_) => format!("job {job} is rolled back to version {to}:"),
    })?;
    let left = answer.switches.iter().map(|switch| format!("  {}", switch_text::left(switch)));
    let ended = answer.ended.iter().map(|switch| format!("  {}", switch_text::ended(switch)));
    lines(&answer.changes).into_iter().chain(left).chain(ended).try_for_each(|line| output::line(&line))
}

/// The version before what is declared now; of a deleted job, the last one that declares something.
fn before(versions: &[JobVersionRow]) -> Option<u64> {
    let now = versions.iter().position(|row| row.current);
    let rest = versions.get(now.map_or(0, |now| now + 1)..)?;
    rest.iter().find(|row| row.change != "deleted").map(|row| row.version)
}

fn no_version(job: &str) -> CliError {
    let text = format!("no earlier version of job {job} is known: see `evenkeel job history {job}`");
    CliError::new(ExitKind::NotFound, text)
}

/// A line for each key that differs.
fn lines(changes: &[FieldChange]) -> Vec<String> {
    let value = |value: &Value| if value.is_null() { "unset".to_owned() } else { value.to_string() };
    let line = |it: &FieldChange| format!("  {}: {} → {}", it.field, value(&it.old), value(&it.new));
    changes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: u64, change: &str, current: bool) -> JobVersionRow {
        JobVersionRow {
            version,
            at: None,
            who: Some("user:ann".to_owned()),
            claims: None,
            change: change.to_owned(),
            restored: None,
            fields: Some(vec!["schedule".to_owned()]),
            current,
        }
    }

    #[test]
    fn a_rollback_goes_to_what_was_declared_before() {
        let now = [row(9, "changed", false), row(7, "changed", true), row(5, "changed", false)];
        assert_eq!(before(&now), Some(5));
        let deleted = [row(8, "deleted", false), row(7, "changed", false)];
        assert_eq!(before(&deleted), Some(7));
        let again = [row(9, "created", true), row(8, "deleted", false), row(7, "changed", false)];
        assert_eq!(before(&again), Some(7));
        assert_eq!(before(&[row(1, "created", true)]), None);
        assert_eq!(before(&[]), None);
    }

    #[test]
    fn a_table_says_who_and_what_and_which_one_is_declared_now() {
        let cells = row(7, "changed", true).cells();
        assert_eq!(cells, ["7 (now)", "-", "user:ann", "changed", "schedule"]);
        let claimed = JobVersionRow {
            who: Some("key".to_owned()),
            claims: Some("ann@h".to_owned()),
            restored: Some(3),
            fields: None,
            ..row(8, "rolled_back", false)
        };
        assert_eq!(claimed.cells(), ["8", "-", "key, says ann@h", "rolled back to 3", "?"]);
        let found = JobVersionRow { who: None, fields: Some(Vec::new()), ..row(2, "found", false) };
        assert_eq!(found.cells(), ["2", "-", "-", "not known", "-"]);
    }
}
