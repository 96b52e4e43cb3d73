//! `evenkeel job next`: the next fires of a job, or of a schedule without a job, with notes on unusual ones.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use evenkeel_core::ids::{CalendarName, JobName};
use evenkeel_core::schedule::{CalendarFilter, Dst, Schedule, ScheduleSpec};
use serde_json::{Value, json};

use super::namespace_args::NamespaceArgs;
use super::values::chosen;
use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use crate::output;
use crate::{files, zones};
use evenkeel_client::requests::NextFiresQuery;
use evenkeel_client::types::moment;

/// The maximum number of listed fires.
const MOST: u32 = 1_000;

/// `job next`.
#[derive(Debug, Args)]
pub(crate) struct NextFiresArgs {
    /// The job's name
    #[arg(required_unless_present = "schedule", conflicts_with = "schedule")]
    name: Option<String>,
    /// A schedule to show, without a node. Several are the rules of one job
    #[arg(long, value_name = "TEXT")]
    schedule: Vec<String>,
    /// The time zone of that schedule; UTC by default
    #[arg(long, value_name = "ZONE", requires = "schedule", default_value = "", hide_default_value = true)]
    timezone: String,
    /// The name of the future job, which determines `H` and the jitter
    #[arg(long = "name", value_name = "JOB", requires = "schedule")]
    called: Option<JobName>,
    /// How clock changes affect it: skip, shift, once or twice; by default each rule's form decides
    #[arg(long, value_name = "HOW", requires = "schedule", value_parser = chosen::<Dst>)]
    dst: Option<Dst>,
    /// The maximum shift of its fires, such as 5m
    #[arg(long, value_name = "SPAN", requires = "called", default_value = "", hide_default_value = true)]
    jitter: String,
    /// The moment at which the schedule ends; without an offset it is local to the schedule's zone
    #[arg(long, value_name = "MOMENT", requires = "schedule", default_value = "", hide_default_value = true)]
    end_at: String,
    /// A file with calendars for that schedule
    #[arg(long, value_name = "FILE", requires = "schedule")]
    calendars: Option<PathBuf>,
    /// A calendar of that file: no fire is due at a moment that it contains
    #[arg(long, value_name = "NAME", requires = "calendars")]
    exclude_calendars: Vec<CalendarName>,
    /// A calendar of that file: fires are due only at moments that it contains
    #[arg(long, value_name = "NAME", requires = "calendars")]
    require_calendars: Vec<CalendarName>,
    /// The number of fires
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    count: u32,
    /// The time zone of the output; by default your own, and UTC with -o json
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// The moment from which fires are listed, such as 2026-03-29T00:00:00Z; now by default
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// With -o json, also show what is unusual about each fire
    #[arg(long)]
    notes: bool,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// A fire in the list.
struct ListedFire {
    due: String,
    notes: Vec<String>,
}

/// Lists the fires.
///
/// # Errors
/// There is no such job, or the schedule is invalid; then the error shows the position.
pub(super) fn fires(next: &NextFiresArgs) -> Result<(), CliError> {
    // An invalid moment has the same exit code with and without a node.
    next.from.as_deref().map(zones::just_before).transpose()?;
    let listed = match &next.name {
        Some(name) => fetch_fires(next, &next.within.job(name))?,
        None => tried(next)?,
    };
    let zone = next.tz.as_deref().map(zones::named).transpose()?;
    if !next.reach.output.is_text() {
        let shown =
            |due: &str| zone.as_ref().map_or_else(|| due.to_owned(), |zone| zones::rfc3339(due, zone));
        let fires: Vec<Value> = listed
            .iter()
            .map(|fire| match next.notes {
                true => json!({ "due": shown(&fire.due), "notes": fire.notes }),
                false => json!(shown(&fire.due)),
            })
            .collect();
        return output::value(next.reach.output, &fires);
    }
    if listed.is_empty() {
        return output::line("no further fire");
    }
    let zone = zone.unwrap_or_else(jiff::tz::TimeZone::system);
    listed.iter().try_for_each(|fire| {
        let due = zones::for_people(&fire.due, &zone);
        let notes = fire.notes.join("; ");
        output::line(&if notes.is_empty() { due } else { format!("{due}  # {notes}") })
    })
}

/// Asks a node for the next fires of a job.
fn fetch_fires(next: &NextFiresArgs, name: &str) -> Result<Vec<ListedFire>, CliError> {
    let query = NextFiresQuery { n: Some(next.count as usize), tz: None, from: next.from.clone() };
    let answer = next.reach.client()?.next_fires(name, &query).map_err(|e| {
        let mut failure = CliError::from(e);
        let unknown = matches!(failure.exit, ExitKind::NotFound | ExitKind::Invalid);
        if let Some(schedule) = next.name.as_deref().filter(|_| unknown).and_then(meant_schedule) {
            let _ = write!(failure.message, "\nfor the fires of a schedule write --schedule '{schedule}'");
        }
        failure
    })?;
    let mut notes = answer.notes.into_iter();
    Ok(answer
        .next
        .into_iter()
        .map(|due| ListedFire { due, notes: notes.next().unwrap_or_default() })
        .collect())
}

/// The schedule that was given in the place of a job's name, if it is one or lacks the `@` of one.
fn meant_schedule(name: &str) -> Option<String> {
    let forms = [name.to_owned(), format!("@{name}")];
    forms.into_iter().find(|text| Schedule::parse(text, "").is_ok())
}

/// The calendars of a file to try with the schedule.
fn calendars(next: &NextFiresArgs) -> Result<CalendarFilter, CliError> {
    let declared =
        next.calendars.as_deref().map(|path| files::calendars(path, None)).transpose()?.unwrap_or_default();
    let named = |name: &CalendarName| {
        let found = declared.iter().find(|calendar| calendar.name == *name);
        let found = found.ok_or_else(|| {
            CliError::invalid(format!("there is no calendar {name} in the file of --calendars"))
        })?;
        let times = found.read().map_err(|e| CliError::invalid(e.to_string()))?;
        Ok((name.clone(), Arc::new(times)))
    };
    let list = |names: &[CalendarName]| names.iter().map(named).collect::<Result<Vec<_>, CliError>>();
    Ok(CalendarFilter::new(list(&next.exclude_calendars)?, list(&next.require_calendars)?))
}

/// Lists the fires of a schedule without a job.
fn tried(next: &NextFiresArgs) -> Result<Vec<ListedFire>, CliError> {
    let text = next.schedule.join("\n");
    if next.called.is_none() && text.lines().any(hashes) {
        return Err(CliError::usage("`H` goes by the job's name: say which it is to be with --name"));
    }
    let times = ScheduleSpec {
        text: &text,
        timezone: &next.timezone,
        name: next.called.as_ref().map_or("", JobName::as_str),
        dst: next.dst,
        start_at: "",
        end_at: &next.end_at,
        jitter: &next.jitter,
    };
    let schedule = Schedule::read(&times).map_err(|error| {
        let marked = error.marked(&text).map_or_else(String::new, |marked| format!("\n{marked}"));
        CliError::invalid(format!("{error}{marked}"))
    })?;
    schedule.doubts(&text).iter().for_each(|doubt| eprintln!("evenkeel: {doubt}"));
    let schedule = schedule.under(calendars(next)?);
    let after = next.from.as_deref().map_or_else(|| Ok(zones::now()), zones::just_before)?;
    let fires = std::iter::successors(schedule.next(after), |last| schedule.next(*last));
    let listed = fires.take(next.count as usize);
    Ok(listed.map(|due| ListedFire { due: moment(due), notes: schedule.notes(due) }).collect())
}

/// Whether a rule has an `H` in it.
fn hashes(line: &str) -> bool {
    let line = line.trim();
    let line = line.strip_prefix("vixie:").or_else(|| line.strip_prefix("quartz:")).unwrap_or(line);
    let words = || line.split([' ', '\t', ',']);
    // A single word is no rule of cron, as `hourly`, whose mistake is another one.
    let is_rule = !line.starts_with('@') && !line.starts_with("at ") && line.contains([' ', '\t']);
    is_rule && words().any(|word| word.starts_with(['H', 'h']))
}
