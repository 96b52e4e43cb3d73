//! What `evenkeel calendar …` does.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use evenkeel_core::calendar::Calendar;
use serde_json::{Value, json};

use super::jobs::said;
use crate::client::{Client, Reach, escape};
use crate::exit::{Exit, Failure};
use crate::files;
use crate::output::{self, Output};
use crate::rows::{CalendarDetail, CalendarRow};

/// What can be done with calendars.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Create or replace only the calendars of a file. Applying the same file again changes nothing
    Apply {
        /// A job file (*.toml, *.yaml, *.yml, *.json), a folder of them, or - for TOML on standard input
        #[arg(short, long, value_name = "FILE|DIR|-")]
        file: PathBuf,
        #[command(flatten)]
        reach: Reach,
    },
    /// List all calendars
    List {
        #[command(flatten)]
        reach: Reach,
    },
    /// Show a calendar and the jobs that name it
    Show(OneCalendar),
    /// Delete a calendar that no job names
    Delete(OneCalendar),
}

/// One calendar and the way to it.
#[derive(Debug, Args)]
pub(crate) struct OneCalendar {
    /// The calendar's name
    name: String,
    #[command(flatten)]
    reach: Reach,
}

impl OneCalendar {
    fn path(&self) -> String {
        format!("/calendars/{}", escape(&self.name))
    }
}

/// Does it.
///
/// # Errors
/// It could not be done.
pub(crate) fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Apply { file, reach } => {
            let calendars = files::calendars(&file)?;
            let answers = apply(&calendars, &reach.client()?)?;
            match reach.output {
                Output::Json => output::json(&answers),
                Output::Table => answers.iter().try_for_each(|answer| output::line(&applied(answer, ""))),
            }
        }
        Verb::List { reach } => {
            let answer: Value = reach.client()?.get("/calendars")?;
            let rows: Vec<CalendarRow> = serde_json::from_value(answer["calendars"].clone())
                .map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
            output::list(
                reach.output,
                &rows,
                "no calendars yet: declare some with `evenkeel calendar apply -f FILE`",
            )
        }
        Verb::Show(one) => show(&one),
        Verb::Delete(one) => {
            let answer: Value = one.reach.client()?.delete(&one.path())?;
            said(&one.reach, &answer, &format!("calendar {} is deleted", one.name))
        }
    }
}

/// Sends calendars one by one, and hands back what became of each.
///
/// # Errors
/// One is refused; those before it stand.
pub(super) fn apply(calendars: &[Calendar], client: &Client) -> Result<Vec<Value>, Failure> {
    let path = |calendar: &Calendar| format!("/calendars/{}", escape(calendar.name.as_str()));
    calendars.iter().map(|calendar| client.put(&path(calendar), calendar)).collect()
}

/// What became of one, as a line.
pub(super) fn applied(answer: &Value, what: &str) -> String {
    let text = |key: &str| answer[key].as_str().unwrap_or("?").to_owned();
    format!("{:9}  {what}{}", text("applied"), text("name"))
}

fn show(one: &OneCalendar) -> Result<(), Failure> {
    let found: CalendarDetail = one.reach.client()?.get(&one.path())?;
    if one.reach.output == Output::Json {
        return output::json(&found);
    }
    let declared = toml::to_string(&json!({ "calendar": [&found.calendar] }))
        .map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    let jobs = if found.jobs.is_empty() { "no job".to_owned() } else { found.jobs.join(", ") };
    let since = output::local(Some(&found.since));
    output::line(&format!("{declared}\n# named by {jobs}, changed {since}, version {}", found.version))
}
