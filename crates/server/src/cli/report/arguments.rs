//! The arguments of `evenkeel report`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use evenkeel_core::time::TimeSpan;

use crate::cli::namespace_args::ListedNamespaceArgs;
use crate::cli::values;
use crate::client::ConnectArgs;
use crate::rival::RivalFormat;

/// `report`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("zoned").multiple(true).args(["day", "against"])))]
pub(crate) struct ReportArgs {
    /// The day, such as 2026-11-26, today or yesterday; without it and --since, the last 24 hours
    #[arg(long, value_name = "DATE", conflicts_with_all = ["since", "until"])]
    pub(super) day: Option<String>,
    /// Only fires that were due at this time or later: how long ago, such as 6h, or a moment such as 2026-03-01T22:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = values::when)]
    pub(super) since: Option<String>,
    /// Only fires that were due before this time, written likewise; now by default. A span has at most 7 days
    #[arg(long, value_name = "WHEN", value_parser = values::when)]
    pub(super) until: Option<String>,
    /// The time zone in which the day begins and ends, and of times without an offset in the file of --against; by default your own
    #[arg(long, value_name = "ZONE", requires = "zoned")]
    pub(super) timezone: Option<String>,
    /// Only this job
    #[arg(long, value_name = "JOB")]
    pub(super) job: Option<String>,
    /// Only jobs whose labels meet all these conditions, as team=billing|sales,!legacy
    #[arg(short, long, value_name = "CONDITIONS", value_parser = values::conditions)]
    pub(super) label: Option<String>,
    /// Show the fires that ran, too
    #[arg(long)]
    pub(super) all: bool,
    /// Fail also for fires that failed, were missed or killed, or have no outcome yet
    #[arg(long)]
    pub(super) strict: bool,
    #[command(flatten)]
    pub(super) against: AgainstArgs,
    #[command(flatten)]
    pub(super) within: ListedNamespaceArgs,
    #[command(flatten)]
    pub(super) reach: ConnectArgs,
}

/// What the runs are compared with.
#[derive(Debug, Args)]
pub(super) struct AgainstArgs {
    /// Compare the runs of this cluster with what another scheduler really did, which this file says: rows with job and time as CSV or JSON, rows of xxl_job_log or JOB_EXECUTION_LOG, kubectl get jobs -o json, journalctl -o json, a log of cron, or - for standard input; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with = "strict")]
    pub(super) against: Vec<PathBuf>,
    /// The format of these files; recognized by their content if left out
    #[arg(long, value_name = "NAME", requires = "against")]
    pub(super) against_format: Option<RivalFormat>,
    /// How much the two starts of a fire may differ, such as 90s; 60s by default
    #[arg(long, value_name = "TIME", requires = "against")]
    pub(super) tolerance: Option<TimeSpan>,
}
