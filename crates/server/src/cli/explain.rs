//! What `evenkeel explain …` does.

use clap::Subcommand;

use crate::client::{Reach, escape};
use crate::exit::Failure;
use crate::output::{self, Output};
use crate::rows::Explained;

/// What can be explained.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Say who has a job, by which rule, on which facts and epoch, and why it runs or does not
    Job {
        /// The job's name
        name: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// Say what called for a run, who decided where it runs, and what became of it
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
