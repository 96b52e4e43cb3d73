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

use std::ffi::OsString;
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
    for (flag, fix) in exposed(std::env::args_os()) {
        eprintln!(
            "evenkeel: warning: the password in {flag} stands in the list of processes and in the shell's history: leave it \
             out of the URL and {fix}"
        );
    }
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

/// The flags whose URLs were written with a password, and what to do instead.
fn exposed(args: impl Iterator<Item = OsString>) -> Vec<(&'static str, &'static str)> {
    const FLAGS: [(&str, &str); 3] = [
        ("--registry", "set EVENKEEL_REGISTRY_PASSWORD, or say ?password_file=FILE in it"),
        ("--history", "set EVENKEEL_HISTORY_PASSWORD, or say ?password_file=FILE in it"),
        ("--to", "say ?password_file=FILE in it"),
    ];
    let args: Vec<_> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let has_password = |url: &str| {
        let hosts = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?']).next());
        let login = hosts.and_then(|hosts| hosts.rsplit_once('@'));
        login.is_some_and(|(login, _)| login.contains(':'))
    };
    let is_exposed = |flag: &str| {
        let apart = args.windows(2).any(|pair| pair[0] == flag && has_password(&pair[1]));
        let joined = |arg: &String| arg.strip_prefix(flag)?.strip_prefix('=').map(has_password);
        apart || args.iter().any(|arg| joined(arg) == Some(true))
    };
    FLAGS.into_iter().filter(|(flag, _)| is_exposed(flag)).collect()
}

/// One of the words that are written for this.
fn chosen<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|e: serde_json::Error| crate::written::query(&e.to_string()))
}

fn complain(failure: &Failure) -> ExitCode {
    if !failure.message.is_empty() {
        // A node may say anything, in several lines.
        let lines: Vec<String> = failure.to_string().split('\n').map(crate::output::plain).collect();
        eprintln!("evenkeel: {}", lines.join("\n"));
    }
    ExitCode::from(failure.exit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_on_the_command_line_is_told_of() {
        let flags = |line: &str| {
            let exposed = exposed(line.split(' ').map(OsString::from));
            exposed.into_iter().map(|(flag, _)| flag).collect::<Vec<_>>()
        };
        assert_eq!(flags("evenkeel serve --registry etcd://u:p@h"), ["--registry"]);
        assert_eq!(
            flags("evenkeel serve --registry=mysql://u:p@h/d --history postgres://u:p@h/d"),
            ["--registry", "--history"]
        );
        assert_eq!(flags("evenkeel cluster move --registry sqlite:a:b@c --to redis://:p@h/0"), ["--to"]);
        for fine in [
            "--registry etcd://u@h:2379",
            "--registry postgres://u@h:5432/d?password_file=/x@y",
            "--registry zookeeper://h1:1,h2:2/n",
            "--name u:p@h",
            "--registry",
        ] {
            assert_eq!(flags(&format!("evenkeel serve {fine}")), [""; 0], "{fine}");
        }
    }
}
