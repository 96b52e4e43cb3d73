//! `--plan`: shows what a change of jobs or calendars would do, field by field and fire by fire, and sends no change.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{switch_text, values};
use crate::client::ConnectArgs;
use crate::exit::{CliError, ExitKind};
use crate::files::{Declarations, EncodedJobs};
use crate::output;
use crate::zones;
use evenkeel_client::requests::PlanBody;
use evenkeel_client::types::{FieldEdit, PlanAnswer, PlanEffect, PlanRefusal, PlanRow, PlannedFire};

/// The maximum number of jobs, and of their bytes, in one request.
const JOBS_MAX: usize = 20_000;
const BYTES_MAX: usize = 8 << 20;
/// The maximum length of a value that is shown, in characters.
const VALUE_MAX: usize = 100;
/// How many refusals are shown.
const REFUSED_MAX: usize = 20;

/// A change of a job that can be previewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlannableChange {
    /// The pause of the job ends.
    Resumed,
    /// The job is enabled again.
    Enabled,
}

/// Shows the effect of applying a file.
///
/// # Errors
/// No node answers, or something in the file would be refused.
pub(super) fn file(declared: &Declarations, reach: &ConnectArgs) -> Result<(), CliError> {
    let client = reach.client()?;
    let calendars = json!(declared.calendars);
    let mut answers: Vec<PlanAnswer> = Vec::new();
    if declared.jobs.is_empty() {
        answers.push(client.post_json("/plan", &with_calendars(b"{\"jobs\":[]}".to_vec(), &calendars))?);
    }
    // Each part has all calendars, since its jobs may use them.
    for body in EncodedJobs::of(&declared.jobs)?.bodies(JOBS_MAX, BYTES_MAX) {
        answers.push(client.post_json("/plan", &with_calendars(body, &calendars))?);
    }
    show(joined(answers), reach)
}

/// The body of jobs with calendars in it.
fn with_calendars(mut body: Vec<u8>, calendars: &Value) -> Vec<u8> {
    body.pop();
    body.extend_from_slice(format!(",\"calendars\":{calendars}}}").as_bytes());
    body
}

/// Shows the effect of resuming or enabling a job.
///
/// # Errors
/// No node answers, or there is no such job.
pub(super) fn turn(name: &str, turn: PlannableChange, reach: &ConnectArgs) -> Result<(), CliError> {
    let names = vec![values::parsed("the job", name)?];
    let body = match turn {
        PlannableChange::Resumed => PlanBody { resume: names, ..PlanBody::default() },
        PlannableChange::Enabled => PlanBody { enable: names, ..PlanBody::default() },
    };
    show(reach.client()?.plan_changes(&body)?, reach)
}

/// One plan of the plans of all parts of a file. A job of one part may use a calendar, so that another part has it, too.
fn joined(answers: Vec<PlanAnswer>) -> PlanAnswer {
    let rows = || answers.iter().flat_map(|answer| &answer.jobs);
    let declared = |row: &&PlanRow| row.becomes != PlanEffect::Calendar;
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut all =
        PlanAnswer { elsewhere: answers.first().map_or(0, |first| first.elsewhere), ..PlanAnswer::default() };
    for row in rows().filter(declared).chain(rows().filter(|row| !declared(row))) {
        if seen.insert(&row.name) {
            all.push(row.clone());
        }
    }
    for refusal in answers.iter().flat_map(|answer| &answer.refused) {
        if !all.refused.contains(refusal) {
            all.refused.push(refusal.clone());
        }
    }
    all
}

fn show(plan: PlanAnswer, reach: &ConnectArgs) -> Result<(), CliError> {
    if let Some(refused) = refusal(&plan.refused) {
        return Err(refused);
    }
    if !reach.output.is_text() {
        return output::value(reach.output, &plan.jobs);
    }
    let zone = TimeZone::system();
    for plan in &plan.jobs {
        lines(plan, &zone).iter().try_for_each(|line| output::line(line))?;
    }
    if plan.elsewhere > 0 {
        output::line(&format!(
            "{} more under these calendars, in namespaces that you may not see",
            plan.elsewhere
        ))?;
    }
    output::line("nothing was changed: leave out --plan to do it")
}

/// The error that says what would be refused; `None` if nothing would.
fn refusal(refused: &[PlanRefusal]) -> Option<CliError> {
    let exit = match refused.first()?.code.as_str() {
        "conflict" => ExitKind::Conflict,
        "not_found" => ExitKind::NotFound,
        _ => ExitKind::Invalid,
    };
    let mut lines: Vec<String> =
        refused.iter().take(REFUSED_MAX).map(|refused| refused.detail.clone()).collect();
    if refused.len() > REFUSED_MAX {
        lines.push(format!("and {} more", refused.len() - REFUSED_MAX));
    }
    Some(CliError::new(exit, lines.join("\n")))
}

/// A plan for people.
fn lines(plan: &PlanRow, zone: &TimeZone) -> Vec<String> {
    let becomes = match plan.becomes {
        PlanEffect::Created => "created",
        PlanEffect::Updated => "updated",
        PlanEffect::Unchanged => "unchanged",
        PlanEffect::Resumed => "resumed",
        PlanEffect::Enabled => "enabled",
        PlanEffect::Calendar => "is under a calendar that changes",
    };
    let mut lines = vec![format!("{}  {becomes}", plan.name)];
    lines.extend(plan.values.iter().map(|(field, edit)| edited(field, edit)));
    for change in &plan.changes {
        lines.push(fire(change, zone));
    }
    if plan.more {
        lines.push("  and more after that".to_owned());
    }
    match (&plan.until, plan.kept) {
        (_, 1..) if plan.changes.is_empty() && plan.becomes != PlanEffect::Unchanged => {
            lines.push("  its fires stay as they are".to_owned());
        }
        (Some(until), 1..) if !plan.changes.is_empty() => {
            let stay = match plan.kept {
                1 => "1 fire stays as it is".to_owned(),
                n => format!("{n} fires stay as they are"),
            };
            lines.push(format!("  = {stay} until {}", zones::for_people(until, zone)));
        }
        _ => {}
    }
    lines.extend(plan.notes.iter().map(|note| format!("  {note}")));
    lines.extend(plan.switches.iter().map(|switch| format!("  {}", switch_text::left(switch))));
    lines.extend(plan.ended.iter().map(|switch| format!("  {}", switch_text::ended(switch))));
    lines
}

fn fire(change: &PlannedFire, zone: &TimeZone) -> String {
    let due = zones::for_people(&change.due, zone);
    match (change.fate.as_str(), &change.of) {
        (PlannedFire::DROPPED, _) => format!("  - {due}"),
        (_, Some(of)) => {
            format!("  + {due}  # again: it fired at this local time {}", zones::for_people(of, zone))
        }
        _ => format!("  + {due}"),
    }
}

/// A key with its value before and after.
fn edited(field: &str, FieldEdit { old, new }: &FieldEdit) -> String {
    format!("  {field}: {} → {}", shown(old), shown(new))
}

fn shown(value: &Value) -> String {
    if value.is_null() {
        return "unset".to_owned();
    }
    let text = value.to_string();
    if text.chars().count() <= VALUE_MAX {
        return text;
    }
    text.chars().take(VALUE_MAX).chain("…".chars()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn row(name: &str, becomes: PlanEffect) -> PlanRow {
        PlanRow {
            name: name.to_owned(),
            becomes,
            fields: Vec::new(),
            values: BTreeMap::new(),
            changes: Vec::new(),
            more: false,
            kept: 0,
            until: None,
            switches: Vec::new(),
            ended: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn answer(rows: &[(&str, PlanEffect)]) -> PlanAnswer {
        let mut answer = PlanAnswer { elsewhere: 3, ..PlanAnswer::default() };
        rows.iter().for_each(|(name, becomes)| answer.push(row(name, *becomes)));
        let (kind, code) = ("calendar".to_owned(), "conflict".to_owned());
        answer.refused.push(PlanRefusal { kind, name: "c".to_owned(), code, detail: "no".to_owned() });
        answer
    }

    #[test]
    fn the_parts_of_a_file_are_one_plan() {
        let first =
            answer(&[("a", PlanEffect::Created), ("b", PlanEffect::Calendar), ("x", PlanEffect::Calendar)]);
        let second = answer(&[("b", PlanEffect::Updated), ("x", PlanEffect::Calendar)]);
        let all = joined(vec![first, second]);
        let rows: Vec<_> = all.jobs.iter().map(|row| (row.name.as_str(), row.becomes)).collect();
        let expected = [("a", PlanEffect::Created), ("b", PlanEffect::Updated), ("x", PlanEffect::Calendar)];
        assert_eq!(rows, expected, "each job once, as its own part has it");
        assert_eq!((all.totals.created, all.totals.updated, all.totals.calendar), (1, 1, 1));
        assert_eq!((all.refused.len(), all.elsewhere), (1, 3));
    }

    #[test]
    fn values_are_shown_as_they_are_written_and_cut_where_they_are_long() {
        let edit = FieldEdit { old: Value::Null, new: json!(["0 5 * * *", "é"]) };
        assert_eq!(edited("schedule", &edit), "  schedule: unset → [\"0 5 * * *\",\"é\"]");
        let long = shown(&json!("é".repeat(200)));
        assert_eq!(long.chars().count(), VALUE_MAX + 1);
        assert!(long.ends_with('…'));
    }
}
