//! The commands `evenkeel calendar …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use evenkeel_core::calendar::Calendar;
use serde_json::json;

use super::namespace_args::{ListedNamespaceArgs, NamespaceArgs};
use super::response::print_response;
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::files;
use crate::local_time;
use crate::output;
use evenkeel_client::requests::CalendarListQuery;
use evenkeel_client::types::{DeclaredAnswer, word};

/// What can be done with calendars.
#[derive(Debug, Subcommand)]
pub(crate) enum CalendarCommand {
    /// Create or replace only the calendars of a file. Applying the same file again changes nothing
    Apply {
        /// A job file (*.toml, *.yaml, *.yml, *.json), a folder of them, or - for TOML on standard input
        #[arg(short, long, value_name = "FILE|DIR|-")]
        file: PathBuf,
        #[command(flatten)]
        within: NamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// List the calendars of a namespace
    List {
        #[command(flatten)]
        within: ListedNamespaceArgs,
        #[command(flatten)]
        reach: ConnectArgs,
    },
    /// Show a calendar and the jobs that name it
    Show(CalendarArgs),
    /// Delete a calendar that no job names
    Delete(CalendarArgs),
}

/// One calendar and the way to it.
#[derive(Debug, Args)]
pub(crate) struct CalendarArgs {
    /// The calendar's name
    name: String,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

impl CalendarArgs {
    /// The same with the calendar's full name.
    fn resolve(self) -> Self {
        Self { name: self.within.calendar(&self.name), ..self }
    }
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: CalendarCommand) -> Result<(), CliError> {
    match verb {
        CalendarCommand::Apply { file, within, reach } => {
            let calendars = files::calendars(&file, within.get())?;
            let answers = apply(&calendars, &reach.client()?)?;
            match reach.output.is_text() {
                false => output::changed(reach.output, &answers),
                true => answers.iter().try_for_each(|answer| output::line(&applied(answer, ""))),
            }
        }
        CalendarCommand::List { within, reach } => {
            let page = reach.client()?.list_calendars(&CalendarListQuery { namespace: within.filter() })?;
            output::list(
                reach.output,
                &page.calendars,
                "no calendars yet: declare some with `evenkeel calendar apply -f FILE`",
            )?;
            within.hint(page.elsewhere.unwrap_or(0)).iter().for_each(|text| output::print_message(text));
            Ok(())
        }
        CalendarCommand::Show(one) => show(&one.resolve()),
        CalendarCommand::Delete(one) => {
            let one = one.resolve();
            let answer = one.reach.client()?.delete_calendar(&one.name)?;
            print_response(&one.reach, &answer, &format!("calendar {} is deleted", one.name))
        }
    }
}

/// Applies calendars one by one, and returns the result of each.
///
/// # Errors
/// A calendar is refused; those before it are applied.
pub(super) fn apply(calendars: &[Calendar], client: &ApiClient) -> Result<Vec<DeclaredAnswer>, CliError> {
    calendars.iter().filter(|calendar| has_no_line(calendar)).for_each(|calendar| {
        let name = &calendar.name;
        output::warn(&[format!("calendar {name} holds no moment: it has no days, weekdays or windows")]);
    });
    let put = |calendar: &Calendar| Ok(client.put_calendar(&calendar.name, calendar)?);
    calendars.iter().map(put).collect()
}

fn has_no_line(calendar: &Calendar) -> bool {
    [&calendar.days, &calendar.weekdays, &calendar.windows].into_iter().all(Vec::is_empty)
}

/// The result of one calendar, as a line.
pub(super) fn applied(answer: &DeclaredAnswer, what: &str) -> String {
    format!("{:9}  {what}{}", word(&answer.applied), answer.name)
}

fn show(one: &CalendarArgs) -> Result<(), CliError> {
    let found = one.reach.client()?.show_calendar(&one.name)?;
    if !one.reach.output.is_text() {
        return output::value(one.reach.output, &found);
    }
    let declared = toml::to_string(&json!({ "calendar": [&found.calendar] }))
        .map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))?;
    let jobs = if found.jobs.is_empty() { "no job".to_owned() } else { found.jobs.join(", ") };
    let since = local_time::local(Some(&found.since));
    output::line(&format!("{declared}\n# named by {jobs}, changed {since}, version {}", found.version))
}
