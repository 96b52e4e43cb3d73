//! What `evenkeel job next` does: when a job, or a schedule that is not yet one, is due, and what is odd about it.

use std::sync::Arc;

use evenkeel_core::schedule::{Calendars, Schedule};
use evenkeel_core::words::CalendarName;
use serde_json::{Value, json};

use super::jobs::Next;
use crate::client::escape;
use crate::exit::{Exit, Failure};
use crate::output::{self, Output};
use crate::rows::moment;
use crate::{files, zones};

/// A fire as it is listed.
struct Listed {
    due: String,
    notes: Vec<String>,
}

/// Lists the fires.
///
/// # Errors
/// There is no such job, or the schedule is none; then the error shows where.
pub(super) fn fires(next: &Next) -> Result<(), Failure> {
    let listed = match &next.name {
        Some(name) => asked(next, name)?,
        None => tried(next)?,
    };
    let zone = next.tz.as_deref().map(zones::named).transpose()?;
    if next.reach.output == Output::Json {
        let shown =
            |due: &str| zone.as_ref().map_or_else(|| due.to_owned(), |zone| zones::rfc3339(due, zone));
        let fires: Vec<Value> = listed
            .iter()
            .map(|fire| match next.notes {
                true => json!({ "due": shown(&fire.due), "notes": fire.notes }),
                false => json!(shown(&fire.due)),
            })
            .collect();
        return output::json(&fires);
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

/// Asks a node about a job.
fn asked(next: &Next, name: &str) -> Result<Vec<Listed>, Failure> {
    let from = next.from.as_deref().map_or_else(String::new, |from| format!("&from={}", escape(from)));
    let path = format!("/jobs/{}/next?n={}{from}", escape(name), next.n);
    let answer: Value = next.reach.client()?.get(&path)?;
    let read = |e: serde_json::Error| Failure::new(Exit::Failed, e.to_string());
    let moments: Vec<String> = serde_json::from_value(answer["next"].clone()).map_err(read)?;
    // A node of an older version says nothing of notes.
    let notes: Vec<Vec<String>> = serde_json::from_value(answer["notes"].clone()).unwrap_or_default();
    let mut notes = notes.into_iter();
    Ok(moments.into_iter().map(|due| Listed { due, notes: notes.next().unwrap_or_default() }).collect())
}

/// The calendars of a file that are to be tried out as well.
fn calendars(next: &Next) -> Result<Calendars, Failure> {
    let declared = next.calendars.as_deref().map(files::calendars).transpose()?.unwrap_or_default();
    let named = |name: &CalendarName| {
        let found = declared.iter().find(|calendar| calendar.name == *name);
        let found = found.ok_or_else(|| {
            Failure::invalid(format!("there is no calendar {name} in the file of --calendars"))
        })?;
        let times = found.read().map_err(|e| Failure::invalid(e.to_string()))?;
        Ok((name.clone(), Arc::new(times)))
    };
    let list = |names: &[CalendarName]| names.iter().map(named).collect::<Result<Vec<_>, Failure>>();
    Ok(Calendars::new(list(&next.except)?, list(&next.only)?))
}

/// Tries out a schedule that is no job yet.
fn tried(next: &Next) -> Result<Vec<Listed>, Failure> {
    let text = next.schedule.join("\n");
    let schedule = Schedule::parse(&text, &next.zone).map_err(|error| {
        let marked = error.marked(&text).map_or_else(String::new, |marked| format!("\n{marked}"));
        Failure::invalid(format!("{error}{marked}"))
    })?;
    let schedule = schedule.under(calendars(next)?);
    let after = next.from.as_deref().map_or_else(|| Ok(zones::now()), zones::just_before)?;
    let fires = std::iter::successors(schedule.next(after), |last| schedule.next(*last));
    let listed = fires.take(next.n as usize);
    Ok(listed.map(|due| Listed { due: moment(due), notes: schedule.notes(due) }).collect())
}
