//! `evenkeel completion SHELL`, and the answers to the shells that its scripts are for.

use evenkeel_client::requests::{CalendarListQuery, JobListQuery};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, Args, Command, FromArgMatches, ValueEnum};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCompleter, CompletionCandidate};

use super::contexts::{self, ContextArg};
use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use crate::output;

/// The variable with which a script asks for candidates.
const ASKED: &str = "EVENKEEL_COMPLETE";
/// How long the node may take: a key was pressed, and a person waits.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// The maximum number of names that are proposed.
const NAMES_MAX: usize = 200;
/// The flags that say where the node is; a line that has them is completed from that node.
const CONNECTION: [&str; 4] = ["--server", "--cluster-key-file", "--ca-file", "--context"];

/// A shell that can complete.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum CompletionShell {
    /// The GNU shell
    Bash,
    /// The Z shell
    Zsh,
    /// The friendly interactive shell
    Fish,
}

/// `evenkeel completion`.
#[derive(Debug, Args)]
pub(super) struct CompletionArgs {
    /// The shell: for bash put `source <(evenkeel completion bash)` into ~/.bashrc, for zsh the same with zsh into ~/.zshrc; for fish write the script to ~/.config/fish/completions/evenkeel.fish
    #[arg(value_enum)]
    shell: CompletionShell,
}

/// Prints the script, which asks this program for candidates.
///
/// # Errors
/// Standard output is closed.
pub(super) fn print(args: &CompletionArgs) -> Result<(), CliError> {
    let name = match args.shell {
        CompletionShell::Bash => "bash",
        CompletionShell::Zsh => "zsh",
        CompletionShell::Fish => "fish",
    };
    let failed = |why: String| CliError::new(ExitKind::Failed, why);
    let shells = Shells::builtins();
    let shell = shells.completer(name).ok_or_else(|| failed(format!("no script for {name}")))?;
    let mut script = Vec::new();
    shell
        .write_registration(ASKED, "evenkeel", "evenkeel", "evenkeel", &mut script)
        .map_err(|e| failed(e.to_string()))?;
    if std::io::stdout().is_terminal() {
        output::print_message(&format!(
            "this is a script for {name}: see `evenkeel completion --help` for where it goes"
        ));
    }
    output::bytes(&script)
}

/// Answers a shell that asks for candidates, and ends this process then.
pub(super) fn answer_if_asked(command: impl Fn() -> Command) {
    CompleteEnv::with_factory(command).var(ASKED).bin("evenkeel").completer("evenkeel").complete();
}

/// The command line, whose arguments propose the names of what is in the cluster.
pub(super) fn with_names(root: Command) -> Command {
    root.mut_subcommands(|noun| {
        let word = noun.get_name().to_owned();
        noun.mut_subcommands(|verb| {
            let word = match word.as_str() {
                "explain" => verb.get_name().to_owned(),
                word => word.to_owned(),
            };
            verb.mut_args(|arg| with_names_of(arg, &word))
        })
    })
}

fn with_names_of(arg: Arg, noun: &str) -> Arg {
    let list = match (noun, arg.get_id().as_str()) {
        ("job", "name") | ("shard", "job") | ("run", "job" | "run") => NameList::Jobs,
        ("node", "name") | (_, "node") => NameList::Nodes,
        ("namespace", "name") | (_, "namespace") => NameList::Namespaces,
        ("calendar", "name") => NameList::Calendars,
        _ => return arg,
    };
    arg.add(ArgValueCompleter::new(move |begun: &OsStr| list.candidates(begun)))
}

/// Where names are from.
#[derive(Clone, Copy, Debug)]
enum NameList {
    Jobs,
    Nodes,
    Namespaces,
    Calendars,
}

impl NameList {
    /// The names that begin so; none if the node does not answer in time: a shell has no place for an error.
    fn candidates(self, begun: &OsStr) -> Vec<CompletionCandidate> {
        let Some(begun) = begun.to_str().map(ToOwned::to_owned) else { return Vec::new() };
        let (send, receive) = mpsc::channel();
        let asked = std::thread::Builder::new().spawn(move || {
            let _ = send.send(self.names(&begun).unwrap_or_default());
        });
        let names = asked.ok().and_then(|_| receive.recv_timeout(PATIENCE).ok()).unwrap_or_default();
        names.into_iter().map(CompletionCandidate::new).collect()
    }

    fn names(self, begun: &str) -> Option<Vec<String>> {
        let client = connection(std::env::args_os()).ok()?.client().ok()?;
        let mut names: Vec<String> = match self {
            Self::Jobs => {
                // A text that is in a name, of which its beginning is kept below.
                let query =
                    JobListQuery { limit: Some(1000), find: begun.to_owned(), ..JobListQuery::default() };
                client.list_jobs(&query).ok()?.jobs.into_iter().map(|row| row.name).collect()
            }
            Self::Nodes => client.list_nodes().ok()?.nodes.into_iter().map(|row| row.name).collect(),
            Self::Namespaces => {
                client.list_namespaces().ok()?.namespaces.into_iter().map(|row| row.name).collect()
            }
            Self::Calendars => {
                let query = CalendarListQuery::default();
                client.list_calendars(&query).ok()?.calendars.into_iter().map(|row| row.name).collect()
            }
        };
        names.retain(|name| name.starts_with(begun));
        names.truncate(NAMES_MAX);
        Some(names)
    }
}

/// How to reach the node, by the flags of the line that is completed and by the environment.
fn connection(line: impl Iterator<Item = OsString>) -> Result<ConnectArgs, clap::Error> {
    let line: Vec<OsString> = line.collect();
    let mut given = vec![OsString::from("evenkeel")];
    for (at, word) in line.iter().enumerate() {
        let text = word.to_string_lossy();
        if CONNECTION.iter().any(|flag| text.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))) {
            given.push(word.clone());
        } else if CONNECTION.contains(&text.as_ref())
            && let Some(value) = line.get(at + 1)
        {
            given.extend([word.clone(), value.clone()]);
        }
    }
    let command = || ConnectArgs::augment_args(ContextArg::augment_args(Command::new("evenkeel")));
    let matches = command().try_get_matches_from(&given)?;
    let matches = match contexts::applied(command, &[], &matches) {
        Ok(Some(command)) => command.try_get_matches_from(&given)?,
        _ => matches,
    };
    ConnectArgs::from_arg_matches(&matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_the_line_is_asked() {
        let of = |line: &str| connection(line.split(' ').map(OsString::from)).expect("it can be read");
        let read = of("evenkeel -- evenkeel job show --server http://h:1 --ca-file=/c x");
        assert_eq!(read.server, ["http://h:1"]);
        assert_eq!(read.ca_file.as_deref(), Some(std::path::Path::new("/c")));
        assert_eq!(of("evenkeel -- evenkeel job show --server").server, ["http://127.0.0.1:7700"]);
    }
}
