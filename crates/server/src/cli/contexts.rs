//! The commands `evenkeel context …`, and the defaults that a context gives to other verbs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Subcommand};
use evenkeel_core::ids::Namespace;
use serde::Serialize;

use super::response::show_row;
use super::views::{each_verb, with_args};
use crate::contexts::{ClusterContext, ContextFile};
use crate::exit::{CliError, ExitKind};
use crate::output::{self, OutputFormat, TableRow, or_dash};

/// What can be done with contexts.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// Add a context, or replace it; the first one is used from then on. Only the paths of files with keys are stored
    Add(ContextAddArgs),
    /// Use a context wherever no other one and no --server is given
    Use {
        /// The context's name
        name: String,
    },
    /// List the contexts
    List {
        /// The format of the answer
        #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Show a context; by default the one that is used
    Show {
        /// The context's name
        name: Option<String>,
        /// The format of the answer
        #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Remove a context; its files stay
    Remove {
        /// The context's name
        name: String,
    },
}

/// `context add`.
#[derive(Debug, Args)]
pub(crate) struct ContextAddArgs {
    /// The context's name
    name: String,
    /// The addresses of nodes, as of any verb; give several with commas or by repeating the flag
    #[arg(long, value_name = "URL", required = true, value_delimiter = ',')]
    server: Vec<String>,
    /// The file with the cluster's key, or with the secret of an API token; it is sent only to the context's own addresses
    #[arg(long, value_name = "FILE")]
    cluster_key_file: Option<PathBuf>,
    /// A PEM file of trusted certificates: of authorities, or of a server that signed its own
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The namespace of names that are written without one
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<Namespace>,
}

/// A context in the list.
#[derive(Serialize)]
struct ContextRow<'a> {
    name: &'a str,
    /// Whether it is used where no other one is named.
    current: bool,
    #[serde(flatten)]
    context: &'a ClusterContext,
}

impl TableRow for ContextRow<'_> {
    const HEADS: &'static [&'static str] = &["name", "current", "server", "namespace", "key file", "ca file"];
    fn cells(&self) -> Vec<String> {
        let path =
            |path: &Option<PathBuf>| or_dash(path.as_ref().map(|path| path.display().to_string()).as_deref());
        vec![
            self.name.to_owned(),
            if self.current { "yes" } else { "-" }.to_owned(),
            self.context.server.join(","),
            or_dash(self.context.namespace.as_deref()),
            path(&self.context.cluster_key_file),
            path(&self.context.ca_file),
        ]
    }
}

/// Runs the command.
///
/// # Errors
/// The file of contexts cannot be read or written, or there is no such context.
pub(crate) fn run(verb: ContextCommand) -> Result<(), CliError> {
    // What is read is what is changed: another command may add a context at the same time.
    let _lock = match verb {
        ContextCommand::List { .. } | ContextCommand::Show { .. } => None,
        _ => Some(ContextFile::lock()?),
    };
    let mut file = ContextFile::read()?;
    match verb {
        ContextCommand::Add(args) => add(&mut file, args),
        ContextCommand::Use { name } => {
            file.find(&name)?;
            file.current = Some(name.clone());
            file.write()?;
            output::line(&format!("context {name} is used"))
        }
        ContextCommand::List { output } => {
            let rows: Vec<ContextRow<'_>> = file.context.keys().filter_map(|name| row(&file, name)).collect();
            output::list(
                output,
                &rows,
                "no contexts yet: add one with `evenkeel context add NAME --server URL`",
            )
        }
        ContextCommand::Show { name, output } => {
            let none =
                || CliError::new(ExitKind::NotFound, "no context is used: see `evenkeel context list`");
            let name = name.or(file.current.clone()).ok_or_else(none)?;
            file.find(&name)?;
            row(&file, &name).map_or(Ok(()), |row| show_row(output, row))
        }
        ContextCommand::Remove { name } => {
            file.find(&name)?;
            file.context.remove(&name);
            file.current = file.current.filter(|current| *current != name);
            file.write()?;
            output::line(&format!("context {name} is removed"))
        }
    }
}

fn row<'a>(file: &'a ContextFile, name: &str) -> Option<ContextRow<'a>> {
    let (name, context) = file.context.get_key_value(name)?;
    Some(ContextRow { name, current: file.current.as_ref() == Some(name), context })
}

fn add(file: &mut ContextFile, args: ContextAddArgs) -> Result<(), CliError> {
    let ContextAddArgs { name, server, cluster_key_file, ca_file, namespace } = args;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return Err(CliError::usage(format!(
            "{name:?} is no name of a context: use letters, digits, -, _ and ."
        )));
    }
    let context = ClusterContext {
        server,
        cluster_key_file: cluster_key_file.as_deref().map(absolute).transpose()?,
        ca_file: ca_file.as_deref().map(absolute).transpose()?,
        namespace: namespace.map(|namespace| namespace.to_string()),
    };
    let what = if file.context.insert(name.clone(), context).is_some() { "replaced" } else { "added" };
    let used = file.current.get_or_insert_with(|| name.clone()) == &name;
    file.write()?;
    let how =
        if used { "it is used".to_owned() } else { format!("use it with `evenkeel context use {name}`") };
    output::line(&format!("context {name} is {what}: {how}"))
}

/// A path that means the same from every folder.
fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|e| CliError::unreadable(path.display(), e))
}

/// The command line in which what the verb's context says stands in for what is not given otherwise; `None` without a
/// context. A key goes only to the addresses of its own context: where the verb has another address, only the namespace
/// of the context counts.
///
/// # Errors
/// There is no such context, or the file of contexts cannot be read.
pub(super) fn applied(
    root: impl FnOnce() -> Command,
    words: &[&str],
    verb: &ArgMatches,
) -> Result<Option<Command>, CliError> {
    // Verbs that ask no node have no certificate of one.
    if words.first() == Some(&"context") || verb.try_contains_id("allow_plain_http").is_err() {
        return Ok(None);
    }
    let named = verb.try_get_one::<String>("context").ok().flatten();
    let named = named.map(String::as_str);
    let file = ContextFile::read_for(named)?;
    let Some(context) = file.chosen(named)? else { return Ok(None) };
    let is_given =
        |id: &str| matches!(verb.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable));
    let mut context = context.clone();
    if is_given("server") {
        context = ClusterContext { namespace: context.namespace, ..ClusterContext::default() };
    }
    let path = words.join(" ");
    if path.is_empty() {
        return Ok(Some(with_defaults(root(), &context)));
    }
    Ok(Some(each_verb(root(), "", &|verb, command| match verb == path {
        true => with_defaults(command, &context),
        false => command,
    })))
}

/// The verb, whose arguments have these defaults.
fn with_defaults(verb: Command, context: &ClusterContext) -> Command {
    let ClusterContext { server, cluster_key_file, ca_file, namespace } = context.clone();
    let or_same = |arg: Arg, value: Option<OsString>| match value {
        Some(value) => arg.default_value(value),
        None => arg,
    };
    verb.mut_args(|arg| match arg.get_id().as_str() {
        "server" if !server.is_empty() => arg.default_values(server.clone()),
        "cluster_key_file" => or_same(arg, cluster_key_file.clone().map(PathBuf::into_os_string)),
        "ca_file" => or_same(arg, ca_file.clone().map(PathBuf::into_os_string)),
        "namespace" => or_same(arg, namespace.clone().map(OsString::from)),
        _ => arg,
    })
}

/// The flag that names a context, which every verb that asks a node takes.
#[derive(Debug, Args)]
pub(super) struct ContextArg {
    /// The context whose addresses, files and namespace are used where none are given; by default that of `evenkeel context use`
    #[arg(long, value_name = "NAME", env = "EVENKEEL_CONTEXT")]
    pub(super) context: Option<String>,
}

/// The command line, in which every verb that asks a node takes the flag.
pub(super) fn with_context_arg(root: Command) -> Command {
    each_verb(root, "", &|_, verb| {
        let asks = verb.get_arguments().any(|arg| arg.get_id() == "allow_plain_http");
        if asks { with_args::<ContextArg>(verb) } else { verb }
    })
}
