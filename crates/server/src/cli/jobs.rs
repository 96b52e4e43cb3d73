//! The commands `evenkeel job …`.

use clap::Subcommand;
use evenkeel_core::ids::counted;

use super::all_jobs::{all_pages, listed};
use super::apply::ApplyArgs;
use super::backfill::{self, BackfillArgs};
use super::job_args::{JobArgs, JobNodeArgs};
use super::job_edit::JobEditArgs;
use super::job_new::JobNewArgs;
use super::job_rename::JobRenameArgs;
use super::job_run::RunNowArgs;
use super::job_show::JobShowArgs;
use super::job_switch::{JobSwitch, switch};
use super::many_jobs::{BulkAction, ChosenJobs, JobChoiceArgs};
use super::namespace_args::ListedNamespaceArgs;
use super::next::NextFiresArgs;
use super::response::print_response;
use super::unsealed::AcceptArgs;
use super::versions::{JobDiffArgs, JobHistoryArgs, JobRollbackArgs};
use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::output::{self, OutputFormat};
use evenkeel_client::requests::{JobListQuery, LogSearchQuery};

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Create or replace the calendars and jobs of files, as `evenkeel apply` does
    Apply(Box<ApplyArgs>),
    /// Declare a job by flags; on a terminal it asks for what is left out
    New(Box<JobNewArgs>),
    /// Edit a job in $VISUAL or $EDITOR; it shows what would change, and refuses if another caller changed the job meanwhile
    Edit(JobEditArgs),
    /// List jobs with their next fire, last outcome and runs
    List {
        /// Only jobs with this text in their name, in either case
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        find: String,
        /// Only jobs whose labels meet all these conditions, as team=billing|sales,!legacy
        #[arg(short, long, value_name = "CONDITIONS", default_value = "", hide_default_value = true)]
        label: String,
        #[command(flatten)]
        within: ListedNamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show a job's declaration and state; with -o toml, yaml or json the declaration alone, which `apply` takes back
    Show(JobShowArgs),
    /// Give a job that neither runs nor waits another name; its earlier runs stay under the old one
    Rename(JobRenameArgs),
    /// List the versions of a job, the latest first: who changed it, when, and which keys
    History(JobHistoryArgs),
    /// Show what differs between two versions of a job
    Diff(JobDiffArgs),
    /// Declare an earlier version of a job again, also of a deleted one; switches of operators stay
    Rollback(JobRollbackArgs),
    /// Show the next fires of a job, or of a schedule without a job
    Next(NextFiresArgs),
    /// Print or search the output of a job's latest runs, the latest first
    Logs {
        #[command(flatten)]
        job: JobArgs,
        /// Only the lines that contain this text
        #[arg(long, value_name = "TEXT")]
        grep: Option<String>,
        /// The number of attempts whose output is read, the latest first; 20 with --grep, else 1
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
        runs: Option<u32>,
        /// Print the output unchanged; otherwise control characters are printed as \x1b and the like
        #[arg(long)]
        raw: bool,
    },
    /// Run a job now, or many, once each, beside the schedule; if no node can, it prints why and the run waits
    Run(RunNowArgs),
    /// Run a job once for each fire of a past span, in their order
    Backfill(BackfillArgs),
    /// Pause a job, or many: it has only manual runs, and its node keeps it
    Pause {
        #[command(flatten)]
        jobs: JobChoiceArgs,
        #[command(flatten)]
        place: JobNodeArgs,
    },
    /// Resume a paused job, or many: it fires again, from now on
    Resume {
        #[command(flatten)]
        jobs: JobChoiceArgs,
        /// Only show which fires this would add
        #[arg(long, conflicts_with = "node")]
        plan: bool,
        #[command(flatten)]
        place: JobNodeArgs,
    },
    /// Enable a disabled job, or many: a node owns it again, and it fires from now on
    Enable {
        #[command(flatten)]
        jobs: JobChoiceArgs,
        /// Only show which fires this would add
        #[arg(long, conflicts_with = "node")]
        plan: bool,
        #[command(flatten)]
        place: JobNodeArgs,
    },
    /// Disable a job, or many: no node owns it
    Disable {
        #[command(flatten)]
        jobs: JobChoiceArgs,
        #[command(flatten)]
        place: JobNodeArgs,
    },
    /// Exclude one node or all nodes from a sharded job, each until it restarts
    Shutdown {
        #[command(flatten)]
        job: JobArgs,
        #[command(flatten)]
        place: JobNodeArgs,
    },
    /// Delete a job, or many; their history stays
    Delete {
        #[command(flatten)]
        jobs: JobChoiceArgs,
    },
    /// Show the entries of jobs that no node of this cluster has written to the registry: they do not run
    Unsealed {
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Make a job of such an entry: after an upgrade from a version without seals, or a restore under another identity
    Accept(AcceptArgs),
    /// Make the node check all jobs now and claim free ones
    Claim {
        #[command(flatten)]
        reach: ConnectArgs,
    },
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: JobCommand) -> Result<(), CliError> {
    match verb {
        JobCommand::Apply(args) => super::apply::run(&args),
        JobCommand::New(args) => super::job_new::create(*args),
        JobCommand::Edit(args) => super::job_edit::edit(args),
        JobCommand::Rename(args) => super::job_rename::rename(args),
        JobCommand::List { find, label, within, reach } => list((&find, &label), &within, &reach),
        JobCommand::Show(args) => super::job_show::show(args),
        JobCommand::Logs { job, grep, runs, raw } => logs(&job.resolve(), grep, runs, raw),
        JobCommand::Next(next) => super::next::fires(&next),
        JobCommand::Run(args) => super::job_run::run(args),
        JobCommand::Backfill(wanted) => backfill::run(wanted),
        JobCommand::Pause { jobs, place } => switch(jobs, (false, &place), &JobSwitch::PAUSE),
        JobCommand::Resume { jobs, plan, place } => switch(jobs, (plan, &place), &JobSwitch::RESUME),
        JobCommand::Enable { jobs, plan, place } => switch(jobs, (plan, &place), &JobSwitch::ENABLE),
        JobCommand::Disable { jobs, place } => switch(jobs, (false, &place), &JobSwitch::DISABLE),
        JobCommand::Shutdown { job, place } => {
            let done = [
                "shut down on every node of this moment: each takes part again when it is started again",
                "shut down: it takes part again when it is started again",
            ];
            super::job_switch::one(&job.resolve(), &place, "shutdown", done)
        }
        JobCommand::Delete { jobs } => match jobs.choose(&[])? {
            ChosenJobs::Many(jobs) => jobs.each(BulkAction::DELETE),
            ChosenJobs::One(job) => {
                let answer = job.reach.client()?.delete_job(&job.name)?;
                print_response(&job.reach, &answer, &format!("job {} is deleted", job.name))
            }
        },
        JobCommand::History(args) => super::versions::history(&args),
        JobCommand::Diff(args) => super::versions::diff(&args),
        JobCommand::Rollback(args) => super::versions::rollback(&args),
        JobCommand::Unsealed { reach } => super::unsealed::list(&reach),
        JobCommand::Accept(args) => super::unsealed::accept(&args),
        JobCommand::Claim { reach } => claim(&reach),
    }
}

/// Prints the output of the latest attempts: of one, or of those in which a text is searched.
fn logs(job: &JobArgs, grep: Option<String>, runs: Option<u32>, raw: bool) -> Result<(), CliError> {
    let runs = runs.or(if grep.is_some() { Some(20) } else { Some(1) });
    let client = job.reach.client()?;
    let query = LogSearchQuery { grep, runs };
    output::stream(raw, |each| client.search_job_logs(&job.name, &query, each))
}

fn list(
    (find, label): (&str, &str),
    within: &ListedNamespaceArgs,
    reach: &ConnectArgs,
) -> Result<(), CliError> {
    // Names alone do not take the node so long.
    let with = (reach.output != OutputFormat::Name).then(|| "runs".to_owned());
    let query = JobListQuery { with, ..listed(find, label, within) };
    let (jobs, elsewhere) = all_pages(&reach.client()?, query)?;
    let none = match (find.is_empty(), label.is_empty()) {
        (true, true) => "no jobs yet: declare some with `evenkeel apply -f FILE`".to_owned(),
        (false, true) => format!("no job's name holds {find:?}"),
        (_, false) => format!("no such job has labels that meet {label:?}"),
    };
    output::list(reach.output, &jobs, &none)?;
    within.hint(elsewhere).iter().for_each(|text| output::print_message(text));
    Ok(())
}

fn claim(reach: &ConnectArgs) -> Result<(), CliError> {
    let answer = reach.client()?.claim_jobs()?;
    let count = |jobs: usize| counted(jobs, "job");
    let reasons = answer.reasons.iter().map(|row| format!("{}: {}", count(row.jobs), row.reason));
    let mut lines =
        vec![format!("claiming {}; without a node: {}", count(answer.claims), count(answer.left))];
    lines.extend(reasons);
    print_response(reach, &answer, &lines.join("\n"))
}
