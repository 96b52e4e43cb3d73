//! `evenkeel apply`: makes the cluster as job files say, or shows what that would change.

mod send;

use std::path::PathBuf;

use clap::Args;

use super::calendars;
use super::namespace_args::NamespaceArgs;
use super::plan::{self, PlanDetail};
use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use crate::files::{self, ReadRequest};
use crate::output;
pub(super) use send::apply;

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
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// Runs the command.
///
/// # Errors
/// A file is not valid, or the request failed. With `--plan` the exit code of each error is 1, and that of changes 2.
pub(crate) fn run(args: &ApplyArgs) -> Result<(), CliError> {
    if !args.plan {
        return apply_files(args);
    }
    match show_plan(args) {
        Ok(false) => Ok(()),
        Ok(true) => Err(CliError::plan_has_changes()),
        Err(failure) => Err(CliError::new(ExitKind::Failed, failure.message)),
    }
}

impl ApplyArgs {
    fn request(&self) -> ReadRequest<'_> {
        ReadRequest { paths: &self.file, namespace: self.within.get() }
    }
}

/// Shows what would change, and returns whether anything would.
fn show_plan(args: &ApplyArgs) -> Result<bool, CliError> {
    let declared = files::read_all(&args.request())?;
    let plan = plan::of(&declared, &[], &args.reach.client()?)?;
    plan::show(&plan, &args.reach, if args.verbose { PlanDetail::Full } else { PlanDetail::Lines })?;
    Ok(plan.has_changes())
}

fn apply_files(args: &ApplyArgs) -> Result<(), CliError> {
    let reach = &args.reach;
    let declared = files::read_encoded(&args.request())?;
    // Jobs may use them, so they come first.
    let calendars = calendars::apply(&declared.calendars, &reach.client()?)?;
    if reach.output.is_text() {
        let line = |answer| output::line(&calendars::applied(answer, "calendar "));
        calendars.iter().try_for_each(line)?;
    }
    if declared.jobs.is_empty() {
        return if reach.output.is_text() { Ok(()) } else { output::changed(reach.output, &calendars) };
    }
    send::apply(&declared.jobs, reach)
}
