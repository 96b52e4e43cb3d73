//! A plan for people: the sums, then a line for each calendar and job, and below it the details if they are wanted.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::super::switch_text;
use crate::zones;
use evenkeel_client::types::{
    FieldEdit, PlanAnswer, PlanEffect, PlanRow, PlanTotals, PlannedCalendar, PlannedFire,
};
use evenkeel_core::ids::counted;

/// The maximum length of a value that is shown, in characters.
pub(super) const VALUE_MAX: usize = 100;

/// How much of each job a plan shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum PlanDetail {
    /// One line of each job that would change.
    Lines,
    /// All jobs, each with its keys, fires, notes and switches below it.
    Full,
}

/// The lines of a plan.
pub(super) fn lines(plan: &PlanAnswer, detail: PlanDetail) -> Vec<String> {
    let mut lines = vec![totals(&plan.totals)];
    let is_shown = |becomes: PlanEffect| detail == PlanDetail::Full || becomes != PlanEffect::Unchanged;
    lines.extend(plan.calendars.iter().filter(|row| is_shown(row.becomes)).map(calendar));
    for row in plan.jobs.iter().filter(|row| is_shown(row.becomes)) {
        match detail {
            PlanDetail::Lines => lines.push(line(row)),
            PlanDetail::Full => lines.extend(block(row)),
        }
    }
    if plan.elsewhere > 0 {
        lines.push(format!(
            "{} more under these calendars, in namespaces that you may not see",
            plan.elsewhere
        ));
    }
    lines.push(
        match plan.has_changes() {
            true => "nothing was changed: leave out --plan to do it",
            false => "nothing to do",
        }
        .to_owned(),
    );
    lines
}

/// What would become of each job, with its keys, fires, notes and switches below it.
pub(in crate::cli) fn blocks(plan: &PlanAnswer) -> Vec<String> {
    plan.jobs.iter().flat_map(block).collect()
}

/// The sums in one line. Its words and their order are stable.
fn totals(totals: &PlanTotals) -> String {
    let PlanTotals { created, updated, unchanged, switched, calendar, deleted, calendars, .. } = totals;
    let mut text =
        format!("plan: {created} to create, {updated} to update, {deleted} to delete, {unchanged} unchanged");
    if *switched > 0 {
        text += &format!(", {switched} to switch");
    }
    if *calendars > 0 {
        text += &format!("; {} to change", counted(*calendars, "calendar"));
    }
    if *calendar > 0 {
        let verb = if *calendar == 1 { "uses" } else { "use" };
        text += &format!(", which {} {verb}", counted(*calendar, "other job"));
    }
    text
}

fn sign(becomes: PlanEffect) -> char {
    match becomes {
        PlanEffect::Created => '+',
        PlanEffect::Deleted => '-',
        PlanEffect::Unchanged => '=',
        PlanEffect::Updated | PlanEffect::Resumed | PlanEffect::Enabled | PlanEffect::Calendar => '~',
    }
}

fn word(becomes: PlanEffect) -> &'static str {
    match becomes {
        PlanEffect::Created => "created",
        PlanEffect::Updated => "updated",
        PlanEffect::Unchanged => "unchanged",
        PlanEffect::Resumed => "resumed",
        PlanEffect::Enabled => "enabled",
        PlanEffect::Calendar => "follows its calendar",
        PlanEffect::Deleted => "deleted",
    }
}

fn calendar(row: &PlannedCalendar) -> String {
    let PlannedCalendar { name, becomes, values } = row;
    let head = format!("{} calendar {name}  {}", sign(*becomes), word(*becomes));
    let edits = values.iter().map(|(field, edit)| edited(field, edit));
    std::iter::once(head).chain(edits).collect::<Vec<_>>().join("; ")
}

/// The time zone in which the times of a job are shown: its own.
fn zone(row: &PlanRow) -> TimeZone {
    TimeZone::get(&row.timezone).unwrap_or(TimeZone::UTC)
}

/// The beginning of what is said of a job.
fn head(row: &PlanRow) -> Vec<String> {
    let mut head = vec![format!("{} {}  {}", sign(row.becomes), row.name, word(row.becomes))];
    head.extend((!row.calendars.is_empty()).then(|| match row.calendars.as_slice() {
        [one] => format!("calendar {one} changes"),
        many => format!("calendars {} change", many.join(", ")),
    }));
    head
}

/// The end of what is said of a job.
fn end(row: &PlanRow, zone: &TimeZone) -> Vec<String> {
    let next = row.next.as_deref().filter(|_| row.becomes != PlanEffect::Unchanged);
    let mut end: Vec<String> =
        next.map(|next| format!("next fire {}", zones::for_people(next, zone))).into_iter().collect();
    end.extend(row.warnings.iter().map(|warning| format!("WARNING: {warning}")));
    end
}

/// A job in one line: its keys with their old and new values, how many fires change, and when it fires next.
fn line(row: &PlanRow) -> String {
    let mut parts = head(row);
    parts.extend(row.values.iter().map(|(field, edit)| edited(field, edit)));
    parts.extend(fire_counts(row));
    parts.extend(row.ended.iter().map(switch_text::ended));
    parts.extend(end(row, &zone(row)));
    parts.join("; ")
}

/// How many fires come and go, where some fired before.
fn fire_counts(row: &PlanRow) -> Option<String> {
    if row.becomes == PlanEffect::Created || row.changes.is_empty() {
        return None;
    }
    let dropped = row.changes.iter().filter(|fire| fire.fate == PlannedFire::DROPPED).count();
    let added = row.changes.len() - dropped;
    let counts = [(dropped, "fewer"), (added, "more")];
    let counts = counts.into_iter().filter(|(n, _)| *n > 0);
    let counts: Vec<String> = counts.map(|(n, what)| format!("{n} {what}")).collect();
    let first = if row.more { "of the first changed fires " } else { "fires: " };
    Some(format!("{first}{}", counts.join(", ")))
}

/// A job with everything that the plan has of it.
fn block(row: &PlanRow) -> Vec<String> {
    let zone = zone(row);
    let mut lines = vec![head(row).into_iter().chain(end(row, &zone)).collect::<Vec<_>>().join("; ")];
    lines.extend(row.values.iter().map(|(field, edit)| format!("  {}", edited(field, edit))));
    lines.extend(row.changes.iter().map(|change| fire(change, &zone)));
    if row.more {
        lines.push("  and more after that".to_owned());
    }
    match (&row.until, row.kept) {
        (_, 1..) if row.changes.is_empty() && row.becomes != PlanEffect::Unchanged => {
            lines.push("  its fires stay as they are".to_owned());
        }
        (Some(until), 1..) if !row.changes.is_empty() => {
            let stay = match row.kept {
                1 => "1 fire stays as it is".to_owned(),
                n => format!("{n} fires stay as they are"),
            };
            lines.push(format!("  = {stay} until {}", zones::for_people(until, &zone)));
        }
        _ => {}
    }
    lines.extend(row.notes.iter().map(|note| format!("  {note}")));
    lines.extend(row.switches.iter().map(|switch| format!("  {}", switch_text::left(switch))));
    lines.extend(row.ended.iter().map(|switch| format!("  {}", switch_text::ended(switch))));
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
    format!("{field}: {} → {}", shown(old), shown(new))
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

    use serde_json::json;

    use super::*;

    fn row(name: &str, becomes: PlanEffect) -> PlanRow {
        PlanRow { timezone: "Europe/Berlin".to_owned(), ..super::super::tests::row(name, becomes) }
    }

    #[test]
    fn sums_come_first_and_then_one_line_of_each_job_that_changes() {
        let mut plan = PlanAnswer::default();
        let days = FieldEdit { old: Value::Null, new: json!(["12-25"]) };
        plan.push_calendar(PlannedCalendar {
            name: "freeze".to_owned(),
            becomes: PlanEffect::Updated,
            values: BTreeMap::from([("days".to_owned(), days)]),
        });
        plan.push(row("same", PlanEffect::Unchanged));
        let edit = FieldEdit { old: json!("@daily"), new: json!("@hourly") };
        let fire =
            |due: &str, fate: &str| PlannedFire { due: due.to_owned(), fate: fate.to_owned(), of: None };
        plan.push(PlanRow {
            values: BTreeMap::from([("schedule".to_owned(), edit)]),
            changes: vec![
                fire("2026-07-01T00:00:00Z", PlannedFire::DROPPED),
                fire("2026-07-02T00:00:00Z", "added"),
                fire("2026-07-03T00:00:00Z", "added"),
            ],
            next: Some("2026-07-02T00:00:00Z".to_owned()),
            calendars: vec!["freeze".to_owned()],
            notes: vec!["a note".to_owned()],
            ..row("report", PlanEffect::Updated)
        });
        let warnings = vec!["unschedulable: no living node fits gpu".to_owned()];
        plan.push(PlanRow { warnings, ..row("new", PlanEffect::Created) });
        plan.push(row("old", PlanEffect::Deleted));
        let expected = [
            "plan: 1 to create, 1 to update, 1 to delete, 1 unchanged; 1 calendar to change",
            "~ calendar freeze  updated; days: unset → [\"12-25\"]",
            "~ report  updated; calendar freeze changes; schedule: \"@daily\" → \"@hourly\"; fires: 1 fewer, 2 more; \
             next fire Thu 2026-07-02 02:00:00 +02:00 CEST",
            "+ new  created; WARNING: unschedulable: no living node fits gpu",
            "- old  deleted",
            "nothing was changed: leave out --plan to do it",
        ];
        assert_eq!(lines(&plan, PlanDetail::Lines), expected);
        let full = lines(&plan, PlanDetail::Full);
        for part in ["= same  unchanged", "  a note", "  - Wed 2026-07-01 02:00:00 +02:00 CEST"] {
            assert!(full.iter().any(|line| line == part), "{part}: {full:?}");
        }
        let mut same = PlanAnswer::default();
        same.push(row("same", PlanEffect::Unchanged));
        same.push(row("user", PlanEffect::Calendar));
        assert!(!same.has_changes());
        assert_eq!(lines(&same, PlanDetail::Lines).last().map(String::as_str), Some("nothing to do"));
    }

    #[test]
    fn values_are_shown_as_they_are_written_and_cut_where_they_are_long() {
        let edit = FieldEdit { old: Value::Null, new: json!(["0 5 * * *", "é"]) };
        assert_eq!(edited("schedule", &edit), "schedule: unset → [\"0 5 * * *\",\"é\"]");
        let long = shown(&json!("é".repeat(200)));
        assert_eq!(long.chars().count(), VALUE_MAX + 1);
        assert!(long.ends_with('…'));
    }
}
