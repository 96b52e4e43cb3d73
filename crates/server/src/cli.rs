//! The command line: its nouns and verbs, and what each of them runs.

mod all_jobs;
mod apply;
mod audit;
mod backfill;
mod backup;
mod bench;
mod calendars;
mod cluster;
mod cluster_status;
mod completion;
mod config;
mod console;
mod contexts;
mod docs;
mod doctor;
mod draft;
mod events;
mod explain;
mod export;
mod exposed_passwords;
mod followed_run;
mod help_examples;
mod import;
mod interrupt;
mod job_args;
mod job_edit;
mod job_new;
mod job_rename;
mod job_run;
mod job_show;
mod job_switch;
mod jobs;
mod join;
mod many_jobs;
mod mcp;
mod namespace_args;
mod namespaces;
mod next;
mod nodes;
mod number_error;
mod parameter_arg;
mod plan;
mod prompt;
mod report;
mod response;
mod run_retry;
mod run_show;
mod runs;
mod secrets;
mod serve;
mod shards;
mod switch_text;
mod tokens;
mod top;
mod unknown_verb;
mod unsealed;
mod users;
mod values;
mod versions;
mod views;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use evenkeel_core::ids::Namespace;
use serde_json::json;

use crate::exit::{CliError, ExitKind};
use crate::logging;
use crate::output::{self, OutputFormat};
pub(crate) use events::kind as event_kind;
use views::ViewArgs;

/// Evenkeel keeps scheduled work on an even keel: every due fire starts once, on a healthy node
#[derive(Debug, Parser)]
#[command(
    name = "evenkeel",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    infer_subcommands = true
)]
struct Cli {
    #[command(flatten)]
    anywhere: GlobalArgs,
    #[command(subcommand)]
    verb: CliCommand,
}

/// The flags of [`ConnectArgs`](crate::client::ConnectArgs), which may stand before the verb that takes them too. Clap
/// carries what is said here to the verb, which shows and explains them.
#[derive(Debug, Args)]
struct GlobalArgs {
    #[arg(long, global = true, hide = true, value_name = "URL", value_delimiter = ',')]
    server: Vec<String>,
    #[arg(long, global = true, hide = true, value_name = "FILE")]
    cluster_key_file: Option<PathBuf>,
    #[arg(short, long, global = true, hide = true, value_name = "FORMAT", value_enum, default_value_t)]
    output: OutputFormat,
    #[arg(short, long, global = true, hide = true, value_name = "NAMESPACE")]
    namespace: Option<Namespace>,
    #[arg(long, global = true, hide = true, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Start one node for a trial, with its registry in a folder and two harmless demo jobs
    Dev(serve::DevArgs),
    /// Start a node of a cluster
    Serve(Box<serve::ServeArgs>),
    /// Create or replace the calendars and jobs of files; applying the same files again changes nothing
    Apply(Box<apply::ApplyArgs>),
    /// Print calendars and jobs as a job file, which `apply` takes back unchanged; with -o yaml or json in that format
    Export(export::ExportArgs),
    /// Declare, show, switch and run jobs
    #[command(subcommand)]
    Job(jobs::JobCommand),
    /// Declare, show and delete calendars, which jobs share
    #[command(subcommand)]
    Calendar(calendars::CalendarCommand),
    /// List, create, limit and delete namespaces, which own jobs, calendars and pools
    #[command(subcommand)]
    Namespace(namespaces::NamespaceCommand),
    /// List, enable and disable the shards of a sharded job
    #[command(subcommand)]
    Shard(shards::ShardCommand),
    /// Show, wait for, end and restart runs, and read their output
    #[command(subcommand)]
    Run(runs::RunCommand),
    /// Show, drain and upgrade nodes
    #[command(subcommand)]
    Node(nodes::NodeCommand),
    /// Explain why a job or a run is on its node
    #[command(subcommand)]
    Explain(explain::ExplainCommand),
    /// Report on each fire that was due in a day or another span: did everything run? Fails if a fire is unaccounted for
    Report(report::ReportArgs),
    /// Show nodes, running runs, next fires and what needs a person, redrawn until q; in a pipe once
    Top(top::TopArgs),
    /// Show the events of nodes
    #[command(subcommand)]
    Event(events::EventCommand),
    /// Show the audit log: each requested change, its caller and its outcome
    Audit(audit::AuditListArgs),
    /// Inspect and configure the cluster; check, back up, restore or move its registry
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Set, list and delete secrets that the registry keeps, encrypted
    #[command(subcommand)]
    Secret(secrets::SecretCommand),
    /// Declare, show and delete users, and end their sessions
    #[command(subcommand)]
    User(users::UserCommand),
    /// Create, list, rotate and delete API tokens
    #[command(subcommand)]
    Token(tokens::TokenCommand),
    /// Show who you are to the node, and your roles
    Whoami(users::WhoamiArgs),
    /// Name clusters, so that verbs find their nodes, keys and namespaces
    #[command(subcommand)]
    Context(contexts::ContextCommand),
    /// Check the settings of a node
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print a link that opens the console in a browser, logged in
    Console(console::ConsoleArgs),
    /// Offer the cluster to language models: tools of the Model Context Protocol, over standard input and output
    Mcp(mcp::McpArgs),
    /// Import jobs from other schedulers
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Measure what this machine and a registry can do, in a registry that is removed again
    Bench(bench::BenchArgs),
    /// Print a script that completes commands, and the names of jobs and nodes, in a shell
    Completion(completion::CompletionArgs),
    /// Print the generated references
    #[command(subcommand, hide = true)]
    Docs(docs::DocsCommand),
}

/// The words of the command line.
fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// The command line with everything that its verbs take.
fn command() -> Command {
    help_examples::with_examples(contexts::with_context_arg(views::with_view_args(Cli::command())))
}

/// Parses the command line and runs the command.
pub(crate) fn run() -> ExitCode {
    completion::answer_if_asked(|| completion::with_names(command()));
    let (cli, view) = match parsed() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    for (flag, fix) in exposed_passwords::exposed(std::env::args_os()) {
        output::print_message(&format!(
            "warning: the password in {flag} stands in the list of processes and in the shell's history: leave it out of \
             the URL and {fix}"
        ));
    }
    let done = match view.watch() {
        None => run_verb(cli.verb),
        Some(every) => watch::watch(every, || {
            // The command line was parsed before; a verb takes what was parsed.
            let cli = parse_words(arguments().into_iter());
            cli.map_err(|e| CliError::usage(e.to_string())).and_then(|(cli, _)| run_verb(cli.verb))
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report_error(&failure),
    }
}

fn run_verb(verb: CliCommand) -> Result<(), CliError> {
    match verb {
        CliCommand::Dev(args) => serve::dev(&args),
        CliCommand::Serve(args) => serve::serve(*args),
        CliCommand::Apply(args) => apply::run(&args),
        CliCommand::Export(args) => export::run(&args),
        CliCommand::Job(verb) => jobs::run(verb),
        CliCommand::Calendar(verb) => calendars::run(verb),
        CliCommand::Namespace(verb) => namespaces::run(verb),
        CliCommand::Shard(verb) => shards::run(verb),
        CliCommand::Run(verb) => runs::run(verb),
        CliCommand::Node(verb) => nodes::run(verb),
        CliCommand::Explain(verb) => explain::run(verb),
        CliCommand::Report(args) => report::run(&args),
        CliCommand::Top(args) => top::run(&args),
        CliCommand::Mcp(args) => mcp::run(&args),
        CliCommand::Event(verb) => events::run(verb),
        CliCommand::Audit(list) => audit::run(&list),
        CliCommand::Cluster(verb) => cluster::run(verb),
        CliCommand::Secret(verb) => secrets::run(verb),
        CliCommand::User(verb) => users::run(verb),
        CliCommand::Token(verb) => tokens::run(verb),
        CliCommand::Whoami(args) => users::whoami(&args),
        CliCommand::Context(verb) => contexts::run(verb),
        CliCommand::Config(verb) => config::run(verb),
        CliCommand::Console(args) => console::run(&args),
        CliCommand::Import(verb) => import::run(verb),
        CliCommand::Bench(args) => bench::run(&args),
        CliCommand::Completion(args) => completion::print(&args),
        CliCommand::Docs(verb) => docs::run(&verb, command()),
    }
}

/// The command line with the defaults of the context of the given verb, if there is a context.
fn in_context(matches: &ArgMatches) -> Result<Option<Command>, clap::Error> {
    let (words, verb) = leaf(matches);
    contexts::applied(command, &words, verb)
        .map_err(|failure| command().error(ErrorKind::InvalidValue, failure.message))
}

/// The verb of these words, and how its answer is shown.
fn parse_words(words: impl Iterator<Item = OsString> + Clone) -> Result<(Cli, ViewArgs), clap::Error> {
    let matches = command().try_get_matches_from(words.clone());
    // Errors of the command line, too, are printed in the format that it requests.
    output::choose(matches.as_ref().map_or_else(|_| wanted(words.clone()), output_of));
    let matches = matches.map_err(|error| {
        let root = command();
        number_error::explained(unknown_verb::explained(error, &root, words.clone()), &root)
    })?;
    misplaced(&matches)?;
    refuse_toml(&matches)?;
    let matches = match in_context(&matches)? {
        Some(command) => command.try_get_matches_from(words)?,
        None => matches,
    };
    let view = ViewArgs::of(leaf(&matches).1)?;
    Ok((Cli::from_arg_matches(&matches)?, view))
}

/// Parses the command line. Prints its errors, and help.
fn parsed() -> Result<(Cli, ViewArgs), ExitCode> {
    parse_words(arguments().into_iter()).map_err(|error| {
        if !error.use_stderr() {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        let exit = if is_plan() { ExitKind::Failed } else { ExitKind::Usage };
        if !output::chosen().has_json_errors() {
            let _ = error.print();
            return ExitCode::from(exit as u8);
        }
        let text = error.render().to_string();
        report_error(&CliError::new(exit, text.trim_start_matches("error: ").trim()))
    })
}

/// Whether the command line is that of `apply --plan`, also where it is not valid: every error of that one exits with 1.
fn is_plan() -> bool {
    let words = arguments();
    let verb = command().ignore_errors(true).try_get_matches_from(&words);
    let is_apply =
        verb.is_ok_and(|matches| [&["apply"][..], &["job", "apply"]].contains(&&leaf(&matches).0[..]));
    is_apply && words.iter().any(|word| word == "--plan")
}

/// The output format that the command line requests.
fn output_of(matches: &ArgMatches) -> OutputFormat {
    let verb = leaf(matches).1;
    verb.try_get_one::<OutputFormat>("output").ok().flatten().copied().unwrap_or_default()
}

/// The given verb by its words, and its matches.
fn leaf(matches: &ArgMatches) -> (Vec<&str>, &ArgMatches) {
    let (mut words, mut at) = (Vec::new(), matches);
    while let Some((word, next)) = at.subcommand() {
        words.push(word);
        at = next;
    }
    (words, at)
}

/// Refuses a flag that the verb does not read, although global flags may stand before every verb.
fn misplaced(matches: &ArgMatches) -> Result<(), clap::Error> {
    let (words, verb) = leaf(matches);
    let mut root = command();
    let mut command = &root;
    for word in &words {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let given = |id: &&str| matches!(verb.value_source(id), Some(ValueSource::CommandLine));
    let reads = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    let Some(id) = ["server", "cluster_key_file", "output", "namespace", "context"]
        .into_iter()
        .filter(given)
        .find(|id| !reads(id))
    else {
        return Ok(());
    };
    let text = format!("`{}` does not take --{}: leave it out", words.join(" "), id.replace('_', "-"));
    Err(root.error(ErrorKind::UnknownArgument, text))
}

/// Refuses TOML where no declaration is shown: a change would be made, and its answer could not be printed.
fn refuse_toml(matches: &ArgMatches) -> Result<(), clap::Error> {
    let (words, _) = leaf(matches);
    if output_of(matches) != OutputFormat::Toml || words == ["job", "show"] || words == ["export"] {
        return Ok(());
    }
    let words = words.join(" ");
    let text = format!("`{words}` does not print TOML, only `job show` and `export` do: choose another -o");
    Err(command().error(ErrorKind::InvalidValue, text))
}

/// The output format that a command line requests which clap could not parse.
fn wanted(args: impl Iterator<Item = OsString>) -> OutputFormat {
    let args: Vec<_> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let apart = args.windows(2).filter(|pair| ["-o", "--output"].contains(&pair[0].as_str()));
    let apart = apart.map(|pair| pair[1].as_str());
    let joined = args
        .iter()
        .filter_map(|arg| ["--output=", "-o=", "-o"].iter().find_map(|flag| arg.strip_prefix(flag)));
    apart.chain(joined).find_map(|word| OutputFormat::from_str(word, false).ok()).unwrap_or_default()
}

fn report_error(failure: &CliError) -> ExitCode {
    if logging::is_json() {
        let (code, exit) = (failure.exit.name(), failure.code());
        tracing::error!(code, exit, "{failure}");
    } else if !failure.message.is_empty() && output::chosen().has_json_errors() {
        let (code, exit) = (failure.exit.name(), failure.code());
        eprintln!("{}", json!({ "error": { "code": code, "exit": exit, "message": failure.message } }));
    } else if !failure.message.is_empty() {
        // A node's message may have any text, in several lines.
        let lines: Vec<String> = failure.to_string().split('\n').map(crate::output::plain).collect();
        eprintln!("evenkeel: {}", lines.join("\n"));
    }
    ExitCode::from(failure.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_every_verb_takes_may_stand_before_it() {
        let read = |line: &str| Cli::try_parse_from(line.split(' ')).expect("it can be read");
        for line in [
            "evenkeel --server http://h:1 -o json job list",
            "evenkeel job --server http://h:1 -o json list",
            "evenkeel job list --server http://h:1 -o json",
            "evenkeel -o json job list --server http://h:1",
        ] {
            let CliCommand::Job(jobs::JobCommand::List { reach, .. }) = read(line).verb else {
                panic!("{line}")
            };
            assert_eq!(
                (reach.server.as_slice(), reach.output),
                (&["http://h:1".to_owned()][..], OutputFormat::Json),
                "{line}"
            );
        }
        let two = read("evenkeel --server http://h:1,http://h:2 job list");
        let CliCommand::Job(jobs::JobCommand::List { reach, .. }) = two.verb else { panic!("it lists") };
        assert_eq!(reach.server, ["http://h:1", "http://h:2"]);
        let none = read("evenkeel job list");
        let CliCommand::Job(jobs::JobCommand::List { reach, .. }) = none.verb else { panic!("it lists") };
        assert_eq!(
            (reach.server, reach.output),
            (vec!["http://127.0.0.1:7700".to_owned()], OutputFormat::Table)
        );
    }

    #[test]
    fn a_flag_that_a_verb_does_not_read_is_refused_wherever_it_stands() {
        let tried = |line: &str| {
            let matches = Cli::command().try_get_matches_from(line.split(' ')).expect("it can be read");
            misplaced(&matches).map_err(|e| e.to_string())
        };
        for line in [
            "evenkeel --server http://h:1 docs cli",
            "evenkeel -o json dev",
            "evenkeel dev --server http://h:1",
        ] {
            assert!(tried(line).is_err_and(|text| text.contains("leave it out")), "{line}");
        }
        for line in ["evenkeel --server http://h:1 job list", "evenkeel -o json cluster doctor --registry x"]
        {
            assert!(tried(line).is_ok(), "{line}");
        }
    }
}
