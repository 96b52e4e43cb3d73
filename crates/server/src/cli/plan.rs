//! `--plan`: shows what a change of jobs or calendars would do, field by field and fire by fire, and sends no change.

mod lines;

use std::collections::BTreeSet;

use evenkeel_core::ids::JobName;
use serde_json::{Value, json};

use super::values;
use crate::client::{ApiClient, ConnectArgs};
use crate::exit::{CliError, ExitKind};
use crate::files::{Declarations, EncodedJobs};
use crate::output::{self, OutputFormat};
use evenkeel_client::requests::PlanBody;
use evenkeel_client::types::{PlanAnswer, PlanEffect, PlanRefusal, PlanRow};
pub(super) use lines::{PlanDetail, blocks};

/// The maximum number of jobs, and of their bytes, in one request.
const JOBS_MAX: usize = 20_000;
const BYTES_MAX: usize = 8 << 20;
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

/// Shows the effect of applying a file, with all details.
///
/// # Errors
/// No node answers, or something in the file would be refused.
pub(super) fn file(declared: &Declarations, reach: &ConnectArgs) -> Result<(), CliError> {
    show(&of(declared, &[], &reach.client()?)?, reach, PlanDetail::Full)
}

/// The effect of applying declarations and of deleting jobs after that.
///
/// # Errors
/// No node answers.
pub(super) fn of(
    declared: &Declarations,
    delete: &[JobName],
    client: &ApiClient,
) -> Result<PlanAnswer, CliError> {
    let calendars = json!(declared.calendars);
    let mut answers: Vec<PlanAnswer> = Vec::new();
    if declared.jobs.is_empty() && !declared.calendars.is_empty() {
        answers.push(client.post_json("/plan", &with_calendars(b"{\"jobs\":[]}".to_vec(), &calendars))?);
    }
    // Each part has all calendars, since its jobs may use them.
    for body in EncodedJobs::of(&declared.jobs)?.bodies(JOBS_MAX, BYTES_MAX) {
        answers.push(client.post_json("/plan", &with_calendars(body, &calendars))?);
    }
    if !delete.is_empty() {
        answers.push(client.plan_changes(&PlanBody { delete: delete.to_vec(), ..PlanBody::default() })?);
    }
    Ok(joined(answers))
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
    show(&reach.client()?.plan_changes(&body)?, reach, PlanDetail::Full)
}

/// One plan of the plans of all parts of a file. A job of one part may use a calendar, so that another part has it, too.
fn joined(answers: Vec<PlanAnswer>) -> PlanAnswer {
    let rows = || answers.iter().flat_map(|answer| &answer.jobs);
    let declared = |row: &&PlanRow| row.becomes != PlanEffect::Calendar;
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut all =
        PlanAnswer { elsewhere: answers.first().map_or(0, |first| first.elsewhere), ..PlanAnswer::default() };
    for row in answers.first().iter().flat_map(|answer| &answer.calendars) {
        all.push_calendar(row.clone());
    }
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

/// Prints a plan.
///
/// # Errors
/// Something in it would be refused, or standard output is closed.
pub(super) fn show(plan: &PlanAnswer, reach: &ConnectArgs, detail: PlanDetail) -> Result<(), CliError> {
    if let Some(refused) = refusal(&plan.refused) {
        return Err(refused);
    }
    match reach.output {
        OutputFormat::Name => output::value(reach.output, &plan.jobs),
        format if !format.is_text() => output::value(format, plan),
        _ => lines::lines(plan, detail).iter().try_for_each(|line| output::line(line)),
    }
}

/// The error that says what would be refused; `None` if nothing would.
pub(super) fn refusal(refused: &[PlanRefusal]) -> Option<CliError> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    pub(super) fn row(name: &str, becomes: PlanEffect) -> PlanRow {
        PlanRow {
            name: name.to_owned(),
            becomes,
            fields: Vec::new(),
            values: BTreeMap::new(),
            changes: Vec::new(),
            more: false,
            kept: 0,
            until: None,
            next: None,
            timezone: "UTC".to_owned(),
            calendars: Vec::new(),
            warnings: Vec::new(),
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
}
