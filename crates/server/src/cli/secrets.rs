//! The commands `evenkeel secret …`: secrets that the registry keeps, sealed with the cluster's identity.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::namespace_args::{ListedNamespaceArgs, NamespaceArgs};
use super::response::print_response;
use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::local_time::local;
use crate::output::{self, TableRow};
use evenkeel_client::requests::{SecretBody, SecretListQuery};
use evenkeel_client::types::{SecretRow, word};

/// More than a secret may have, so that the node says what is wrong.
const BYTES_MAX: u64 = 128 * 1024;

/// What can be done with secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// List the secrets of a namespace, never what they hold
    List {
        #[command(flatten)]
        within: ListedNamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Set a secret: runs that start from now on get it
    Set {
        /// The secret's name
        name: String,
        /// Read it from this file instead of standard input
        #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
        file: Option<PathBuf>,
        /// Read it from standard input, also from a terminal
        #[arg(long)]
        stdin: bool,
        #[command(flatten)]
        within: NamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Delete a secret. Jobs that name it fail from then on
    Delete(SecretArgs),
}

/// One secret and the way to it.
#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// The secret's name
    name: String,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: SecretCommand) -> Result<(), CliError> {
    match verb {
        SecretCommand::List { within, reach } => {
            let page = reach.client()?.list_secrets(&SecretListQuery { namespace: within.filter() })?;
            output::list(
                reach.output,
                &page.secrets,
                "no secrets: set one with `evenkeel secret set NAME < FILE`",
            )?;
            within.hint(page.elsewhere.unwrap_or(0)).iter().for_each(|text| output::print_message(text));
            Ok(())
        }
        SecretCommand::Set { name, file, stdin, within, reach } => {
            let name = within.secret(&name);
            let value = read(file, stdin)?;
            let answer = reach.client()?.put_secret(&name, &SecretBody { value })?;
            print_response(&reach, &answer, &format!("secret {name} is {}", word(&answer.applied)))
        }
        SecretCommand::Delete(SecretArgs { name, within, reach }) => {
            let name = within.secret(&name);
            let answer = reach.client()?.delete_secret(&name)?;
            print_response(&reach, &answer, &format!("secret {name} is deleted"))
        }
    }
}

/// The secret. It is no argument, which other users of the host could see.
fn read(file: Option<PathBuf>, stdin: bool) -> Result<String, CliError> {
    let mut text = String::new();
    let read = match &file {
        Some(path) => {
            std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text))
        }
        None => {
            let input = std::io::stdin();
            if input.is_terminal() && !stdin {
                return Err(CliError::usage(
                    "a secret is read from standard input or a file: pipe it in, or give --file FILE or --stdin",
                ));
            }
            if input.is_terminal() {
                output::print_message(
                    "Type the secret and press Enter, then Ctrl-D. It is shown: better pipe it in.",
                );
            }
            input.take(BYTES_MAX).read_to_string(&mut text)
        }
    };
    let from = file.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    read.map_err(|e| CliError::usage(format!("{from} cannot be read as a text: {e}")))?;
    Ok(text)
}

impl TableRow for SecretRow {
    const HEADS: &'static [&'static str] = &["name", "version", "set", "by", "state"];
    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.version.to_string(),
            local(Some(&self.since)),
            self.by.clone(),
            if self.good { "good" } else { "not of this cluster" }.to_owned(),
        ]
    }
}
