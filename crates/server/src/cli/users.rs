//! The commands `evenkeel user …` and `evenkeel whoami`.

use std::io::{IsTerminal, Read};

use clap::{Args, Subcommand};
use evenkeel_core::ids::PrincipalName;
use evenkeel_core::principal::{Grant, Grants};

use super::response::{print_response, show_row};
use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use crate::local_time::local;
use crate::output::{self, TableRow, or_dash};
use evenkeel_client::requests::UserBody;
use evenkeel_client::types::{UserRow, word};

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
    /// Whether the user may not log in any more: true or false
    #[arg(long, value_name = "BOOL")]
    disabled: Option<bool>,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: UserCommand) -> Result<(), CliError> {
    match verb {
        UserCommand::List { reach } => {
            let page = reach.client()?.list_users()?;
            let none =
                "there is no user: create one with `evenkeel user create NAME --role ROLE --password-stdin`";
            output::list(reach.output, &page.users, none)
        }
        UserCommand::Show(one) => {
            let found = one.reach.client()?.show_user(&one.name)?;
            show_row(one.reach.output, found)
        }
        UserCommand::Create(settings) => put(&settings, 0),
        UserCommand::Set(settings) => {
            let found = settings.reach.client()?.show_user(&settings.name)?;
            put(&settings, found.version)
        }
        UserCommand::Logout(one) => {
            let answer = one.reach.client()?.log_user_out(&one.name)?;
            print_response(&one.reach, &answer, &format!("all sessions of {} have ended", one.name))
        }
        UserCommand::Delete(one) => {
            let answer = one.reach.client()?.delete_user(&one.name)?;
            print_response(&one.reach, &answer, &format!("user {} is deleted", one.name))
        }
    }
}

fn put(settings: &UserSettingsArgs, version: u64) -> Result<(), CliError> {
    let body = UserBody {
        roles: roles(&settings.role)?.map(Grants),
        password: if settings.password_stdin { Some(password()?) } else { None },
        disabled: settings.disabled,
        description: settings.description.clone(),
        version: Some(version),
    };
    let answer = settings.reach.client()?.put_user(&settings.name, &body)?;
    output::warn(answer.warnings.as_deref().unwrap_or_default());
    print_response(&settings.reach, &answer, &format!("user {} is {}", settings.name, word(&answer.applied)))
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
    let found = args.reach.client()?.whoami()?;
    if !args.reach.output.is_text() {
        return output::value(args.reach.output, &found);
    }
    let roles = if found.roles.is_empty() { "no role".to_owned() } else { found.roles.join(", ") };
    output::line(&output::plain(&format!("{}: {roles}", found.who)))
}
