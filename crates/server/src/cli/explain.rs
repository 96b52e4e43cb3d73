//! What `evenkeel explain …` does.

use clap::Subcommand;

use crate::client::{Reach, escape};
use crate::exit::Failure;
use crate::output::{self, Output};
use crate::rows::Explained;

/// What can be explained.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Explain which node has a job, by which rule, facts and epoch, and why the job runs or does not run
    Job {
        /// The job's name
        name: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// Explain the cause of a run, which node decided where it runs, and its outcome
    Run {
        /// The run's id, as `run list` shows it
        run: String,
        #[command(flatten)]
        reach: Reach,
    },
}

/// Does it.
///
/// # Errors
/// It could not be done.
pub(crate) fn run(verb: Verb) -> Result<(), Failure> {
    let (path, reach) = match verb {
        Verb::Job { name, reach } => (format!("/jobs/{}/explain", escape(&name)), reach),
        Verb::Run { run, reach } => (format!("/runs/{}/explain", escape(&run)), reach),
    };
    let found: Explained = reach.client()?.get(&path)?;
    if reach.output == Output::Json {
        return output::json(&found);
    }
    output::line(&output::plain(&format!("{}: {}", found.subject, found.says)))?;
    output::line("")?;
    output::list(Output::Table, &found.points, "there is nothing more to say")
}
