//! The commands `evenkeel token …`.

use super::values;
use clap::{Args, Subcommand};
use evenkeel_core::ids::PrincipalName;
use evenkeel_core::principal::Grants;

use super::namespace_args::NamespaceArgs;
use super::response::print_response;
use super::users::roles;
use crate::api::hooks::HOOKS;
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::CliError;
use crate::local_time::local;
use crate::output::{self, TableRow, or_dash};
use evenkeel_client::requests::{NewTokenBody, RotateTokenBody};
use evenkeel_client::types::{NewToken, TokenRow};

/// What can be done with API tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// List all API tokens with their roles, their ends and their last uses
    List {
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Create an API token and print its secret, which is shown only this once. Programs send it as Authorization: Bearer SECRET
    Create(TokenArgs),
    /// Give an API token another secret and print it; the old one ends at once, or after the overlap
    Rotate {
        #[command(flatten)]
        one: TokenNameArgs,
        /// How long the old secret is accepted, too, so that programs can change to the new one; at most 7d
        #[arg(long, value_name = "TIME")]
        overlap: Option<String>,
    },
    /// Delete an API token
    Delete(TokenNameArgs),
}

/// One token and the way to it.
#[derive(Debug, Args)]
pub(crate) struct TokenNameArgs {
    /// The token's name
    name: PrincipalName,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// A new token.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The token's name
    name: PrincipalName,
    /// A role: viewer, operator, author or admin, with :NAMESPACE for one namespace only, and for an operator or author with :NAMESPACE:LABELS for jobs with these labels only, as operator:team-a:team=billing+!legacy, which may read everything else there (NAMESPACE * is all of them); give several with commas or by repeating the flag
    #[arg(long, value_name = "ROLE", value_delimiter = ',', required_unless_present = "trigger")]
    role: Vec<String>,
    /// In place of roles, the job that the token runs, and it may do nothing else: the URL for programs that send webhooks is printed with it
    #[arg(long, value_name = "JOB", conflicts_with = "role")]
    trigger: Option<String>,
    #[command(flatten)]
    space: NamespaceArgs,
    /// How long the token lasts: a time such as 90d, or never
    #[arg(long, value_name = "TIME", default_value = "90d")]
    lasts: String,
    /// The user whose roles limit those of the token, and without whom it ends; a token with --trigger belongs to the user who makes it, unless that is an administrator
    #[arg(long, value_name = "USER")]
    owner: Option<PrincipalName>,
    /// A description for people
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: TokenCommand) -> Result<(), CliError> {
    match verb {
        TokenCommand::List { reach } => {
            let page = reach.client()?.list_tokens()?;
            let none = "there is no API token: create one with `evenkeel token create NAME --role ROLE`";
            output::list(reach.output, &page.tokens, none)
        }
        TokenCommand::Create(args) => {
            let trigger = args.trigger.as_ref().map(|job| values::parsed("--trigger", &args.space.job(job)));
            let roles = match trigger {
                Some(_) => None,
                None => Some(Grants(roles(&args.role)?.unwrap_or_default())),
            };
            let body = NewTokenBody {
                name: args.name.clone(),
                roles,
                trigger: trigger.transpose()?,
                lasts: Some(args.lasts.clone()),
                owner: args.owner.clone(),
                description: args.description.clone(),
            };
            let client = args.reach.client()?;
            let answer = client.create_token(&body)?;
            output::warn(&answer.warnings);
            print_token(&args.reach, &client, &answer)
        }
        TokenCommand::Rotate { one, overlap } => {
            let client = one.reach.client()?;
            let answer = client.rotate_token(&one.name, &RotateTokenBody { overlap })?;
            print_token(&one.reach, &client, &answer)
        }
        TokenCommand::Delete(one) => {
            let answer = one.reach.client()?.delete_token(&one.name)?;
            print_response(&one.reach, &answer, &format!("token {} is deleted", one.name))
        }
    }
}

impl TableRow for TokenRow {
    const HEADS: &'static [&'static str] =
        &["name", "roles", "owner", "created", "expires", "last used", "description"];
    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.trigger
                .as_ref()
                .map_or_else(|| or_dash(Some(&self.roles.join(", "))), |job| format!("runs {job}")),
            or_dash(self.owner.as_deref()),
            local(Some(&self.created)),
            self.expires.as_deref().map_or_else(|| "never".to_owned(), |at| local(Some(at))),
            local(self.last_used.as_deref()),
            or_dash(Some(&self.description)),
        ]
    }
}

/// Prints the token alone on standard output, so that it can be redirected into a file.
fn print_token(reach: &ConnectArgs, client: &ApiClient, answer: &NewToken) -> Result<(), CliError> {
    if !reach.output.is_text() {
        return output::value(reach.output, answer);
    }
    output::line(&answer.token)?;
    let until = answer.expires.as_deref().map_or_else(|| "for ever".to_owned(), |at| format!("until {at}"));
    output::print_message(&format!("It is shown only now, and lasts {until}."));
    if let Some(job) = &answer.trigger {
        // A socket is of this host alone.
        let base = Some(client.shown()).filter(|base| base.starts_with("http")).unwrap_or_default();
        let url = format!("{base}{HOOKS}");
        output::print_message(&format!(
            "It runs job {job}: POST {url} with the header Authorization: Bearer TOKEN, or, where a sender sets no headers, \
             POST {url}/TOKEN."
        ));
    }
    Ok(())
}
