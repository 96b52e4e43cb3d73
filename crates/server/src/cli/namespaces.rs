//! The commands `evenkeel namespace …`.

use clap::{Args, Subcommand};
use evenkeel_client::ClientErrorKind;
use evenkeel_core::ids::Namespace;

use super::response::{print_response, show_row};
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::output;
use evenkeel_client::requests::NamespaceBody;
use evenkeel_client::types::{NamespaceRow, word};

/// What can be done with namespaces.
#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// List all namespaces with what they hold
    List {
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show a namespace and what it holds
    Show(NamespaceNameArgs),
    /// Create a namespace
    Create(NamespaceSettingsArgs),
    /// Change a namespace: what is not given stays as it is
    Set(NamespaceSettingsArgs),
    /// Delete a namespace that holds no job, no calendar and no secret
    Delete(NamespaceNameArgs),
}

/// One namespace and the way to it.
#[derive(Debug, Args)]
pub(crate) struct NamespaceNameArgs {
    /// The namespace's name
    name: Namespace,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// What is declared of a namespace.
#[derive(Debug, Args)]
pub(crate) struct NamespaceSettingsArgs {
    /// The namespace's name
    name: Namespace,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// How many jobs it may hold, disabled ones too; `none` for any number
    #[arg(long, value_name = "N", value_parser = limit)]
    jobs_max: Option<NumberLimit>,
    /// How many of its runs may execute at once, in the whole cluster, at most 500; `none` for any number
    #[arg(long, value_name = "N", value_parser = limit)]
    runs_max: Option<NumberLimit>,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// A limit as the command line gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberLimit(Option<u32>);

fn limit(text: &str) -> Result<NumberLimit, String> {
    match text {
        "none" | "0" => Ok(NumberLimit(None)),
        number => match number.parse() {
            Ok(number) => Ok(NumberLimit(Some(number))),
            Err(_) => Err(format!("{text:?} is no number: give 1 or more, or none for any number")),
        },
    }
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: NamespaceCommand) -> Result<(), CliError> {
    match verb {
        NamespaceCommand::List { reach } => {
            let page = reach.client()?.list_namespaces()?;
            output::missing(&page.missing);
            output::list(reach.output, &page.namespaces, "there is no namespace")
        }
        NamespaceCommand::Show(one) => {
            let found = one.reach.client()?.show_namespace(&one.name)?;
            show_row(one.reach.output, found)
        }
        NamespaceCommand::Create(settings) => {
            let client = settings.reach.client()?;
            if find(&client, &settings.name)?.is_some() {
                let name = &settings.name;
                return Err(CliError::new(
                    ExitKind::Conflict,
                    format!(
                        "namespace {name} exists already: change it with `evenkeel namespace set {name}`"
                    ),
                ));
            }
            put(&client, &settings, None)
        }
        NamespaceCommand::Set(settings) => {
            let client = settings.reach.client()?;
            let found = client.show_namespace(&settings.name)?;
            put(&client, &settings, Some(found))
        }
        NamespaceCommand::Delete(one) => {
            let answer = one.reach.client()?.delete_namespace(&one.name)?;
            print_response(&one.reach, &answer, &format!("namespace {} is deleted", one.name))
        }
    }
}

/// A namespace; `None` if there is none of this name.
fn find(client: &ApiClient, name: &Namespace) -> Result<Option<NamespaceRow>, CliError> {
    match client.show_namespace(name) {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.kind == ClientErrorKind::NotFound => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

fn put(
    client: &ApiClient,
    settings: &NamespaceSettingsArgs,
    found: Option<NamespaceRow>,
) -> Result<(), CliError> {
    let (description, jobs_max, runs_max) =
        found.map_or_else(Default::default, |row| (row.description, row.jobs_max, row.runs_max));
    let body = NamespaceBody {
        name: None,
        description: settings.description.clone().unwrap_or(description),
        jobs_max: settings.jobs_max.map_or(jobs_max, |limit| limit.0),
        runs_max: settings.runs_max.map_or(runs_max, |limit| limit.0),
    };
    let answer = client.put_namespace(&settings.name, &body)?;
    print_response(
        &settings.reach,
        &answer,
        &format!("namespace {} is {}", settings.name, word(&answer.applied)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_none() {
        assert_eq!(limit("7"), Ok(NumberLimit(Some(7))));
        assert_eq!([limit("none"), limit("0")], [Ok(NumberLimit(None)), Ok(NumberLimit(None))]);
        assert!(limit("many").is_err() && limit("-1").is_err());
    }
}
