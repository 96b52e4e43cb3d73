//! `evenkeel report`: whether every fire that was due is accounted for.

mod against;
mod arguments;
mod numbers;

use evenkeel_client::requests::ReportQuery;
use evenkeel_client::types::{FireState, ReportCounts, ReportJob, ReportRow};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde::Serialize;

use super::values;
use crate::client::ApiClient;
use crate::exit::{CliError, ExitKind};
use crate::output::{self, OutputFormat, TableRow, or_dash};
use crate::{local_time, zones};
pub(crate) use arguments::ReportArgs;
use numbers::grouped;

/// The whole report, for programs.
#[derive(Debug, Serialize)]
struct FireReport {
    since: String,
    until: String,
    counts: ReportCounts,
    jobs: Vec<ReportJob>,
    missing: Vec<String>,
}

impl TableRow for ReportRow {
    const HEADS: &'static [&'static str] = &["job", "due", "fires", "state", "reason"];
    const WIDE_HEADS: &'static [&'static str] = &["until", "node"];
    fn cells(&self) -> Vec<String> {
        vec![
            self.job.clone(),
            local_time::cell(Some(&self.due)),
            self.fires.to_string(),
            self.state.as_str().replace('_', " "),
            or_dash(self.reason.as_deref()),
        ]
    }
    fn wide_cells(&self) -> Vec<String> {
        vec![local_time::cell(self.until.as_deref()), or_dash(self.node.as_deref())]
    }
}

/// Reports, and fails if a fire is not accounted for.
///
/// # Errors
/// The request failed, a fire is unaccounted for or unknown, or `--strict` finds another one that did not run.
pub(crate) fn run(args: &ReportArgs) -> Result<(), CliError> {
    if !args.against.against.is_empty() {
        return against::run(args);
    }
    let report = fetch(&args.reach.client()?, args)?;
    let output = args.reach.output;
    if output.is_text() || output == OutputFormat::Name {
        let is_shown = |row: &&ReportRow| args.all || row.state != FireState::NotExpected;
        let rows: Vec<ReportRow> =
            report.jobs.iter().flat_map(|job| &job.rows).filter(is_shown).cloned().collect();
        if !rows.is_empty() {
            output::list(output, &rows, "")?;
        }
        if output.is_text() {
            output::line(&summary(&report))?;
        }
    } else {
        output::value(output, &report)?;
    }
    for job in report.jobs.iter().filter(|_| output.is_text()) {
        job.notes.iter().for_each(|note| output::print_message(&format!("job {}: {note}", job.name)));
    }
    for node in &report.missing {
        output::print_message(&format!("what only this node knows is unknown: {node}"));
    }
    verdict(&report, args.strict)
}

/// Why the report ends with an error.
fn verdict(report: &FireReport, strict: bool) -> Result<(), CliError> {
    let counts = &report.counts;
    let faults = [
        (counts.unaccounted, "is unaccounted for", "are unaccounted for"),
        (counts.unknown, "is unknown", "are unknown"),
    ];
    let others = [
        (counts.failed, "failed", "failed"),
        (counts.missed, "was missed", "were missed"),
        (counts.killed, "was killed", "were killed"),
        (counts.running + counts.waiting, "has no outcome yet", "have no outcome yet"),
    ];
    let others = others.into_iter().filter(|_| strict);
    let said = faults.into_iter().chain(others).filter(|(fires, ..)| *fires > 0);
    let said: Vec<String> = said
        .map(|(fires, one, many)| match fires {
            1 => format!("1 fire {one}"),
            n => format!("{} fires {many}", grouped(n)),
        })
        .collect();
    match said.is_empty() {
        true => Ok(()),
        false => Err(CliError::new(ExitKind::Failed, said.join(", "))),
    }
}

/// The last line: what became of how many fires.
fn summary(report: &FireReport) -> String {
    let counts = &report.counts;
    let parts = [
        (counts.ran, "ran", true),
        (counts.failed, "failed", true),
        (counts.missed, "missed", true),
        (counts.killed, "killed", false),
        (counts.skipped, "skipped", false),
        (counts.running, "running", false),
        (counts.waiting, "waiting", false),
        (counts.unknown, "unknown", false),
        (counts.unaccounted, "unaccounted", true),
    ];
    let parts = parts.into_iter().filter(|(fires, _, always)| *always || *fires > 0);
    let parts: Vec<String> = parts.map(|(fires, word, _)| format!("{} {word}", grouped(fires))).collect();
    let noun = |n: u64, one: &str| format!("{} {one}{}", grouped(n), if n == 1 { "" } else { "s" });
    let (fires, jobs) = (noun(counts.fires, "fire"), noun(report.jobs.len() as u64, "job"));
    let further = [
        (counts.not_expected, "not expected, as their jobs were paused or disabled"),
        (counts.to_come, "still to come"),
    ];
    let further = further.into_iter().filter(|(fires, _)| *fires > 0);
    let further: String = further.map(|(fires, text)| format!("; {} {text}", grouped(fires))).collect();
    format!("{fires} of {jobs}: {}{further}", parts.join(", "))
}

/// Reads all pages, and of jobs with very many fires all parts.
fn fetch(client: &ApiClient, args: &ReportArgs) -> Result<FireReport, CliError> {
    let mut query = first_query(args)?;
    let mut report: Option<FireReport> = None;
    loop {
        let page = client.report_fires(&query)?;
        let whole = report.get_or_insert_with(|| FireReport {
            since: page.since.clone(),
            until: page.until.clone(),
            counts: ReportCounts::default(),
            jobs: Vec::new(),
            missing: Vec::new(),
        });
        // All pages are about the same span, also if it is one before now.
        (query.since, query.until) = (Some(page.since), Some(page.until));
        take_missing(whole, page.missing);
        for mut job in page.jobs {
            while let Some(since) = job.next_since.take() {
                let part = ReportQuery {
                    since: Some(since),
                    job: Some(values::next_page(&job.name)?),
                    after: None,
                    ..query.clone()
                };
                let next = client.report_fires(&part)?;
                take_missing(whole, next.missing);
                // A job that is deleted meanwhile has no further part.
                for next in next.jobs {
                    add_part(&mut job, next);
                }
            }
            whole.counts.merge(&job.counts);
            whole.jobs.push(job);
        }
        match page.after {
            Some(after) => query.after = Some(values::next_page(&after)?),
            None => break,
        }
    }
    report.ok_or_else(|| CliError::new(ExitKind::Failed, "no page was read"))
}

fn take_missing(report: &mut FireReport, missing: Vec<String>) {
    for node in missing {
        if !report.missing.contains(&node) {
            report.missing.push(node);
        }
    }
}

/// Adds the next part of the span of a job.
fn add_part(job: &mut ReportJob, next: ReportJob) {
    job.counts.merge(&next.counts);
    job.rows.extend(next.rows);
    job.next_since = next.next_since;
    for note in next.notes {
        if !job.notes.contains(&note) {
            job.notes.push(note);
        }
    }
}

fn first_query(args: &ReportArgs) -> Result<ReportQuery, CliError> {
    let (since, until) = match &args.day {
        Some(day) => {
            let zone = args.timezone.as_deref().map(zones::named).transpose()?;
            let (since, until) = day_of(day, zone.unwrap_or_else(TimeZone::system))?;
            (Some(since), Some(until))
        }
        None => (args.since.clone(), args.until.clone()),
    };
    let named = args.job.as_deref().map(|job| args.within.one.job(job));
    let job = named.as_deref().map(|job| job.parse().map_err(|e| CliError::invalid(format!("{job:?}: {e}"))));
    Ok(ReportQuery {
        since,
        until,
        job: job.transpose()?,
        namespace: args.within.filter().filter(|_| args.job.is_none()),
        label: args.label.clone(),
        all: args.all,
        ..ReportQuery::default()
    })
}

/// The first moment of a day in a zone, and of the next one.
fn day_of(text: &str, zone: TimeZone) -> Result<(String, String), CliError> {
    let wrong =
        || CliError::usage(format!("--day is {text:?}: write a date like 2026-11-26, today or yesterday"));
    let today = || {
        let now = Timestamp::from_millisecond(zones::now().0).map_err(|_| wrong())?;
        Ok::<Date, CliError>(now.to_zoned(zone.clone()).date())
    };
    let day: Date = match text {
        "today" => today()?,
        "yesterday" => today()?.yesterday().map_err(|_| wrong())?,
        date => date.parse().map_err(|_| wrong())?,
    };
    let begin = |day: Date| day.to_zoned(zone.clone()).map(|begin: Zoned| begin.timestamp().to_string());
    let next = day.checked_add(1.day()).map_err(|_| wrong())?;
    Ok((begin(day).map_err(|_| wrong())?, begin(next).map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_and_ends_at_midnight_of_its_zone_also_when_clocks_change() {
        let zone = || zones::named("Europe/Berlin").expect("a zone");
        let of = |day: &str| day_of(day, zone());
        let text = |since: &str, until: &str| (since.to_owned(), until.to_owned());
        assert_eq!(of("2026-11-26").ok(), Some(text("2026-11-25T23:00:00Z", "2026-11-26T23:00:00Z")));
        assert_eq!(of("2026-10-25").ok(), Some(text("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")));
        let (yesterday, today) = (of("yesterday").expect("a day"), of("today").expect("a day"));
        assert_eq!(yesterday.1, today.0);
        for wrong in ["26.11.2026", "tomorrow", "2026-02-30"] {
            assert!(of(wrong).is_err_and(|e| e.exit == ExitKind::Usage), "{wrong}");
        }
    }

    fn report(counts: ReportCounts) -> FireReport {
        FireReport {
            since: String::new(),
            until: String::new(),
            counts,
            jobs: Vec::new(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn the_last_line_counts_and_the_exit_code_says_whether_all_is_accounted_for() {
        let counts =
            ReportCounts { fires: 1_437, ran: 1_431, failed: 4, missed: 2, ..ReportCounts::default() };
        assert_eq!(
            summary(&report(counts)),
            "1,437 fires of 0 jobs: 1,431 ran, 4 failed, 2 missed, 0 unaccounted"
        );
        let of = |counts, strict| verdict(&report(counts), strict).map_err(|e| (e.exit, e.message));
        assert_eq!(of(counts, false), Ok(()));
        assert_eq!(
            of(counts, true),
            Err((ExitKind::Failed, "4 fires failed, 2 fires were missed".to_owned()))
        );
        for (counts, says) in [
            (ReportCounts { unaccounted: 1, ..counts }, "1 fire is unaccounted for"),
            (ReportCounts { unknown: 2, ..counts }, "2 fires are unknown"),
        ] {
            assert_eq!(of(counts, false), Err((ExitKind::Failed, says.to_owned())));
        }
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
