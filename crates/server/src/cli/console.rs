//! `evenkeel console`: a link that opens the console in a browser.

use clap::Args;
use serde::Serialize;

use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::output;
use evenkeel_client::types::LoginLink;

/// `evenkeel console`.
#[derive(Debug, Args)]
pub(crate) struct ConsoleArgs {
    #[command(flatten)]
    reach: ConnectArgs,
}

/// The link as a program reads it.
#[derive(Serialize)]
struct LinkRow {
    url: String,
    lasts_s: i64,
}

/// Prints a link.
///
/// # Errors
/// The request failed.
pub(crate) fn run(args: &ConsoleArgs) -> Result<(), CliError> {
    let client = args.reach.client()?;
    let LoginLink { path, lasts_s } = client.create_login_link()?;
    let url = format!("{}{path}", client.shown());
    if !args.reach.output.is_text() {
        return output::value(args.reach.output, &LinkRow { url, lasts_s });
    }
    output::line(&url)?;
    output::print_message(&format!(
        "Open it in a browser: it logs in once, within {} minutes.",
        lasts_s / 60
    ));
    Ok(())
}
