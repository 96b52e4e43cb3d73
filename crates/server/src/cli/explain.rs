//! The commands `evenkeel explain …`.

use clap::Subcommand;

use super::namespace_args::NamespaceArgs;
use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::output;

/// What can be explained.
#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    /// Explain which node owns a job and why, and why the job runs or does not run
    Job {
        /// The job's name
        name: String,
        #[command(flatten)]
        within: NamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Explain the cause of a run, which node decided where it runs, and its outcome
    Run {
        /// The run's id, as `run list` shows it
        run: String,
        #[command(flatten)]
        within: NamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: ExplainCommand) -> Result<(), CliError> {
    let (found, reach) = match verb {
        ExplainCommand::Job { name, within, reach } => {
            (reach.client()?.explain_job(within.job(&name))?, reach)
        }
        ExplainCommand::Run { run, within, reach } => (reach.client()?.explain_run(within.run(&run))?, reach),
    };
    if !reach.output.is_text() {
        return output::value(reach.output, &found);
    }
    output::line(&output::plain(&format!("{}: {}", found.subject, found.says)))?;
    output::line("")?;
    output::list(reach.output, &found.points, "there is nothing more to say")
}
