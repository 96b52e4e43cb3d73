//! The command line: noun, verb, and what each means.

mod audit;
mod calendars;
mod carry;
mod cluster;
mod docs;
mod doctor;
mod events;
mod explain;
mod import;
mod jobs;
mod next;
mod nodes;
mod plan;
mod runs;
mod serve;
mod shards;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use serde::de::DeserializeOwned;

use crate::exit::Failure;

/// Evenkeel keeps scheduled work on an even keel: every due fire starts once, on a healthy node
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Try it out: one node, its books in a folder, two harmless demo jobs
    Dev(serve::Dev),
    /// Be a member of a cluster
    Serve(serve::Serve),
    /// Declare jobs, look at them, switch them, run them by hand
    #[command(subcommand)]
    Job(jobs::Verb),
    /// Declare calendars that jobs share, look at them
    #[command(subcommand)]
    Calendar(calendars::Verb),
    /// Look at the shards of a sharded job, switch some off
    #[command(subcommand)]
    Shard(shards::Verb),
    /// Look at runs, read their output, wait for them, end them
    #[command(subcommand)]
    Run(runs::Verb),
    /// Look at nodes, drain them
    #[command(subcommand)]
    Node(nodes::Verb),
    /// Ask why a job or a run is where it is
    #[command(subcommand)]
    Explain(explain::Verb),
    /// Look at what happened to nodes
    #[command(subcommand)]
    Event(events::Verb),
    /// Look at who asked for which change, and what came of it
    Audit(audit::List),
    /// Look at the whole as others would write it down, at its settings and the health of its registry; carry its books
    #[command(subcommand)]
    Cluster(cluster::Verb),
    /// Take jobs over from elsewhere
    #[command(subcommand)]
    Import(import::Verb),
    /// Print the generated references
    #[command(subcommand, hide = true)]
    Docs(docs::Verb),
}

/// Reads the command line and does what it says.
pub(crate) fn run() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.verb {
        Verb::Dev(args) => serve::dev(&args),
        Verb::Serve(args) => serve::serve(args),
        Verb::Job(verb) => jobs::run(verb),
        Verb::Calendar(verb) => calendars::run(verb),
        Verb::Shard(verb) => shards::run(verb),
        Verb::Run(verb) => runs::run(verb),
        Verb::Node(verb) => nodes::run(verb),
        Verb::Explain(verb) => explain::run(verb),
        Verb::Event(verb) => events::run(verb),
        Verb::Audit(list) => audit::run(&list),
        Verb::Cluster(verb) => cluster::run(verb),
        Verb::Import(verb) => import::run(verb),
        Verb::Docs(verb) => docs::run(&verb, Cli::command()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => complain(&failure),
    }
}

/// One of the words that are written for this.
fn chosen<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|e: serde_json::Error| e.to_string())
}

fn complain(failure: &Failure) -> ExitCode {
    if !failure.message.is_empty() {
        // A node may say anything, in several lines.
        let lines: Vec<String> = failure.to_string().split('\n').map(crate::output::plain).collect();
        eprintln!("evenkeel: {}", lines.join("\n"));
    }
    ExitCode::from(failure.exit as u8)
}
