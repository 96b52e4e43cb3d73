//! The commands `evenkeel shard …`.

use clap::{Args, Subcommand};
use evenkeel_core::shards::ShardSet;

use super::namespace_args::NamespaceArgs;
use super::response::print_response;
use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::local_time;
use crate::output;
use evenkeel_client::types::ShardingRow;

/// What can be done with shards.
#[derive(Debug, Subcommand)]
pub(crate) enum ShardCommand {
    /// List a sharded job's shards with their nodes and states; with -o json one by one
    List {
        /// The job's name
        job: String,
        #[command(flatten)]
        within: NamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Enable disabled shards: they fire again
    Enable(JobShardsArgs),
    /// Disable shards: they do not fire; their running runs continue
    Disable(JobShardsArgs),
}

/// Some shards of a job and the way to it.
#[derive(Debug, Args)]
pub(crate) struct JobShardsArgs {
    /// The job's name
    job: String,
    /// The shards, such as 0,2-5
    shards: String,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: ShardCommand) -> Result<(), CliError> {
    match verb {
        ShardCommand::List { job, within, reach } => list(&within.job(&job), &reach),
        ShardCommand::Enable(some) => switch(&some, "enable", "on: they run from the next fire on"),
        ShardCommand::Disable(some) => {
            switch(&some, "disable", "off: they do not run until they are enabled")
        }
    }
}

fn list(job: &str, reach: &ConnectArgs) -> Result<(), CliError> {
    if !reach.output.is_text() {
        let page = reach.client()?.list_shards(job)?;
        return output::value(reach.output, &page.shards);
    }
    let page = reach.client()?.list_shard_ranges(job)?;
    output::line(&format!("job {}: {}", page.job, page.sharing.line(page.total)))?;
    notes(&page.sharing, true).into_iter().try_for_each(|note| output::line(&note))?;
    output::line("")?;
    output::list(reach.output, &page.shards, "no shard is to run")
}

fn switch(some: &JobShardsArgs, verb: &str, done: &str) -> Result<(), CliError> {
    let shards: ShardSet = some.shards.parse().map_err(|e| CliError::invalid(format!("{e}")))?;
    if shards.is_empty() {
        return Err(CliError::invalid("no shard is named: write them as 0,2 or 0-3,7"));
    }
    let job = some.within.job(&some.job);
    let answer = some.reach.client()?.switch_shards(&job, &shards, verb)?;
    print_response(&some.reach, &answer, &format!("shards {shards} of job {job} are {done}"))
}

/// Notes for people on the shard assignments, with the disabled shards unless they are shown already.
#[must_use]
pub(super) fn notes(sharing: &ShardingRow, with_off: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(mark) = &sharing.reshard_pending {
        let since = local_time::local(Some(&mark.since));
        let why = mark.reason();
        notes.push(format!("reshard pending since {since}: {why}; it comes before the next fire"));
    }
    for (shards, what, tell) in [
        (&sharing.draining, "stayed where they ran when the others were cut", true),
        (&sharing.off, "are switched off", with_off),
    ] {
        if tell && !shards.is_empty() {
            notes.push(format!("shards {shards} {what}"));
        }
    }
    notes
}
