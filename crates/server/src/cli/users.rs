//! The commands `evenkeel user …` and `evenkeel whoami`.

use std::io::{IsTerminal, Read};

use clap::{Args, Subcommand};
use evenkeel_core::ids::PrincipalName;
use evenkeel_core::principal::Grant;
use serde_json::{Map, Value, json};

use super::response::print_response;
use crate::api_types::{CallerRow, UserPage, UserRow};
use crate::client::{ApiClient, ConnectArgs, escape};
use crate::exit::{CliError, ExitKind};
use crate::local_time::local;
use crate::output::{self, OutputFormat, TableRow, or_dash};

/// The size limit of a password on standard input.
const PASSWORD_BYTES_MAX: u64 = 4_096;

/// What can be done with users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// List all users with their roles
    List {
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show a user
    Show(UserNameArgs),
    /// Create a user
    Create(UserSettingsArgs),
    /// Change a user: what is not given stays as it is
    Set(UserSettingsArgs),
    /// End all sessions of a user
    Logout(UserNameArgs),
    /// Delete a user, whose sessions and tokens end with it
    Delete(UserNameArgs),
}

/// One user and the way to it.
#[derive(Debug, Args)]
pub(crate) struct UserNameArgs {
    /// The user's name
    name: PrincipalName,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// What is declared of a user.
#[derive(Debug, Args)]
pub(crate) struct UserSettingsArgs {
    /// The user's name
    name: PrincipalName,
    /// A role: viewer, operator, author or admin, with :NAMESPACE for one namespace only, and for an operator or author with :NAMESPACE:LABELS for jobs with these labels only, as operator:team-a:team=billing+!legacy, which may read everything else there (NAMESPACE * is all of them); give several with commas or by repeating the flag; `none` for no role
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    role: Vec<String>,
    /// Read the user's password from standard input: 10 bytes or more, without the line's end
    #[arg(long)]
    password_stdin: bool,
    /// Whether the user is let in no more: true or false
    #[arg(long, value_name = "BOOL")]
    disabled: Option<bool>,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    reach: ConnectArgs,
}

fn path(name: &PrincipalName) -> String {
    format!("/users/{}", escape(name.as_str()))
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: UserCommand) -> Result<(), CliError> {
    match verb {
        UserCommand::List { reach } => {
            let page: UserPage = reach.client()?.get("/users")?;
            let none =
                "there is no user: create one with `evenkeel user create NAME --role ROLE --password-stdin`";
            output::list(reach.output, &page.users, none)
        }
        UserCommand::Show(one) => {
            let found: UserRow = one.reach.client()?.get(&path(&one.name))?;
            match one.reach.output {
                OutputFormat::Json => output::json(&found),
                OutputFormat::Table => output::list(OutputFormat::Table, &[found], ""),
            }
        }
        UserCommand::Create(settings) => put(&settings, 0),
        UserCommand::Set(settings) => {
            let found: UserRow = settings.reach.client()?.get(&path(&settings.name))?;
            put(&settings, found.version)
        }
        UserCommand::Logout(one) => {
            let answer: Value =
                one.reach.client()?.post(&format!("{}/logout", path(&one.name)), &json!({}))?;
            print_response(&one.reach, &answer, &format!("all sessions of {} have ended", one.name))
        }
        UserCommand::Delete(one) => {
            let answer: Value = one.reach.client()?.delete(&path(&one.name))?;
            print_response(&one.reach, &answer, &format!("user {} is deleted", one.name))
        }
    }
}

fn put(settings: &UserSettingsArgs, version: u64) -> Result<(), CliError> {
    let mut body = Map::new();
    body.insert("version".to_owned(), version.into());
    if let Some(roles) = roles(&settings.role)? {
        body.insert("roles".to_owned(), json!(roles));
    }
    if settings.password_stdin {
        body.insert("password".to_owned(), password()?.into());
    }
    body.extend(settings.disabled.map(|disabled| ("disabled".to_owned(), disabled.into())));
    body.extend(settings.description.as_ref().map(|text| ("description".to_owned(), text.as_str().into())));
    let client: ApiClient = settings.reach.client()?;
    let answer: Value = client.put(&path(&settings.name), &body)?;
    output::warn(&answer);
    let applied = answer["applied"].as_str().unwrap_or("stored");
    print_response(&settings.reach, &answer, &format!("user {} is {applied}", settings.name))
}

/// The given roles; `None` if none is given.
pub(super) fn roles(given: &[String]) -> Result<Option<Vec<Grant>>, CliError> {
    if given == ["none"] {
        return Ok(Some(Vec::new()));
    }
    let roles: Result<Vec<Grant>, _> = given.iter().map(|text| text.trim().parse()).collect();
    let roles = roles.map_err(|e| CliError::usage(format!("--role: {e}")))?;
    Ok(Some(roles).filter(|roles| !roles.is_empty()))
}

fn password() -> Result<String, CliError> {
    if std::io::stdin().is_terminal() {
        output::print_message(
            "Type the password and press Enter, then Ctrl-D. It is shown: better pipe it in.",
        );
    }
    let mut text = String::new();
    let read = std::io::stdin().take(PASSWORD_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|e| CliError::new(ExitKind::Usage, format!("the password cannot be read: {e}")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

impl TableRow for UserRow {
    const HEADS: &'static [&'static str] = &["name", "roles", "password", "state", "created", "description"];
    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            or_dash(Some(&self.roles.join(", "))),
            if self.password { "yes" } else { "no" }.to_owned(),
            if self.disabled { "disabled" } else { "active" }.to_owned(),
            local(Some(&self.created)),
            or_dash(Some(&self.description)),
        ]
    }
}

/// `evenkeel whoami`.
#[derive(Debug, Args)]
pub(crate) struct WhoamiArgs {
    #[command(flatten)]
    reach: ConnectArgs,
}

/// Prints who the caller is to the node, and its roles.
///
/// # Errors
/// The request failed.
pub(crate) fn whoami(args: &WhoamiArgs) -> Result<(), CliError> {
    let found: CallerRow = args.reach.client()?.get("/whoami")?;
    if args.reach.output == OutputFormat::Json {
        return output::json(&found);
    }
    let roles = if found.roles.is_empty() { "no role".to_owned() } else { found.roles.join(", ") };
    output::line(&output::plain(&format!("{}: {roles}", found.who)))
}
