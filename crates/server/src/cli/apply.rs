//! `evenkeel apply`: makes the cluster as job files say, or shows what that would change.

mod owners;
mod send;
mod wait;

use std::path::PathBuf;

use clap::Args;
use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan, TimeSpanError};
use serde_json::{Value, json};

use super::calendars;
use super::namespace_args::NamespaceArgs;
use super::plan::{self, PlanDetail};
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::files::{self, EncodedDeclarations, EncodedJobs, GivenVariables, JobHead, JobOwner, ReadRequest};
use crate::output;
use owners::OwnedJobs;
pub(super) use send::apply;

/// The limits of the time that `--wait` takes.
const WAIT_LIMITS: SpanLimits = SpanLimits::new(Millis::secs(1), Millis::secs(24 * 3_600));

/// `apply`, and `job apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// A job file (*.toml, *.yaml, *.yml, *.json), a folder of them, or - for TOML on standard input; may be repeated
    #[arg(short, long, value_name = "FILE|DIR|-", required = true)]
    file: Vec<PathBuf>,
    /// Only show what would change: the sums, then a line for each calendar and job. Exits with 0 if nothing would change, 2 if something would, 1 at any error
    #[arg(long)]
    plan: bool,
    /// With --plan, show all jobs, each with the fires that would come or go, with notes, and with the switches that would stay or end
    #[arg(short, long, requires = "plan")]
    verbose: bool,
    /// Mark the jobs as this owner's, with the label evenkeel.owner. A job that stands with another owner is refused
    #[arg(long, value_name = "NAME")]
    owner: Option<JobOwner>,
    /// Apply jobs that another owner applied, too: their owner is then the one that this command gives, or none
    #[arg(long)]
    take_over: bool,
    /// Delete the jobs of this owner in the one namespace that the files do not declare
    #[arg(long, requires = "owner")]
    prune: bool,
    /// Let --prune delete all jobs of the owner where the files declare none
    #[arg(long, requires = "prune")]
    allow_empty: bool,
    /// The value of a variable that a file declares; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = files::pair)]
    var: Vec<(String, String)>,
    /// A file with values of variables, as lines NAME=VALUE; may be repeated. A value of --var wins
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
    /// Wait until each enabled job has an owner, at most so long, such as 5m; by default a minute. Exits with 7 if one has none then, or if no online node fits it
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1m", value_parser = wait_span, conflicts_with = "plan")]
    wait: Option<TimeSpan>,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

fn wait_span(text: &str) -> Result<TimeSpan, TimeSpanError> {
    TimeSpan::parse("span", text, WAIT_LIMITS)
}

/// Runs the command.
///
/// # Errors
/// A file is not valid, or the request failed. With `--plan` the exit code of each error is 1, and that of changes 2.
pub(crate) fn run(args: &ApplyArgs) -> Result<(), CliError> {
    if !args.plan {
        return args.apply_files();
    }
    match args.show_plan() {
        Ok(false) => Ok(()),
        Ok(true) => Err(CliError::plan_has_changes()),
        Err(failure) => Err(CliError::new(ExitKind::Failed, failure.message)),
    }
}

impl ApplyArgs {
    fn variables(&self) -> Result<GivenVariables, CliError> {
        GivenVariables::read(&self.var, &self.env_file)
    }

    fn request<'a>(&'a self, variables: &'a GivenVariables) -> ReadRequest<'a> {
        ReadRequest {
            paths: &self.file,
            namespace: self.within.get(),
            owner: self.owner.as_ref(),
            variables: Some(variables),
            may_be_empty: self.prune,
        }
    }

    /// The jobs of which those that no file declares are deleted; none without `--prune`.
    fn owned(&self) -> Option<OwnedJobs<'_>> {
        let owner = self.owner.as_ref().filter(|_| self.prune)?;
        let namespace = self.within.get().cloned().unwrap_or_else(Namespace::default);
        Some(OwnedJobs { owner, namespace })
    }

    /// Refuses what would replace or delete jobs of others.
    fn check_owners(&self, jobs: &[JobHead], client: &ApiClient) -> Result<(), CliError> {
        if let Some(owned) = self.owned() {
            owned.check(jobs, self.allow_empty)?;
        }
        if self.take_over { Ok(()) } else { owners::check(client, jobs) }
    }

    /// Shows what would change, and returns whether anything would.
    fn show_plan(&self) -> Result<bool, CliError> {
        let declared = files::read_all(&self.request(&self.variables()?))?;
        let jobs = EncodedJobs::of(&declared.jobs)?.heads()?;
        let client = self.reach.client()?;
        self.check_owners(&jobs, &client)?;
        let gone = self.owned().map_or(Ok(Vec::new()), |owned| owned.gone(&client, &jobs))?;
        let plan = plan::of(&declared, &gone, &client)?;
        plan::show(&plan, &self.reach, if self.verbose { PlanDetail::Full } else { PlanDetail::Lines })?;
        Ok(plan.has_changes())
    }

    fn apply_files(&self) -> Result<(), CliError> {
        let declared = files::read_encoded(&self.request(&self.variables()?))?;
        let jobs = declared.jobs.heads()?;
        let client = self.reach.client()?;
        self.check_owners(&jobs, &client)?;
        let mut rows = self.declare(&declared, &client)?;
        let pruned = match self.owned() {
            Some(owned) => self.delete_gone(&owned, &jobs, &client, &mut rows),
            None => Ok(()),
        };
        if !self.reach.output.is_text() {
            output::changed(self.reach.output, &rows)?;
        }
        pruned?;
        let Some(patience) = self.wait else { return Ok(()) };
        let done = wait::wait(&client, &jobs, patience)?;
        if self.reach.output.is_text() { output::line(&done) } else { Ok(()) }
    }

    /// Applies calendars, and then jobs, since those may use them. Returns the rows for programs: of jobs, or else of
    /// calendars.
    fn declare(&self, declared: &EncodedDeclarations, client: &ApiClient) -> Result<Vec<Value>, CliError> {
        let calendars = calendars::apply(&declared.calendars, client)?;
        if self.reach.output.is_text() {
            let line = |answer| output::line(&calendars::applied(answer, "calendar "));
            calendars.iter().try_for_each(line)?;
        }
        match declared.jobs.is_empty() {
            true => Ok(calendars.iter().map(|answer| json!(answer)).collect()),
            false => send::send(&declared.jobs, client, self.reach.output),
        }
    }

    /// Deletes what no file declares, also after a part of it failed: each deletion is printed.
    fn delete_gone(
        &self,
        owned: &OwnedJobs<'_>,
        jobs: &[JobHead],
        client: &ApiClient,
        rows: &mut Vec<Value>,
    ) -> Result<(), CliError> {
        let gone = owned.gone(client, jobs)?;
        let (deleted, done) = owned.delete(client, &gone);
        if self.reach.output.is_text() {
            deleted.iter().try_for_each(|name| output::line(&format!("deleted    {name}")))?;
        }
        let row = |name: &JobName| json!({ "applied": "deleted", "name": name });
        rows.extend(deleted.iter().map(row));
        done
    }
}
