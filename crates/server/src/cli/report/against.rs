//! `evenkeel report --against`: compares the runs of this cluster with what another scheduler really did.

mod compared;
mod known_jobs;
mod own_fires;

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel_core::time::{Millis, TimeSpan, Wall};
use jiff::tz::TimeZone;

use self::compared::{ComparedJob, FireComparison};
use self::known_jobs::{CompareUnit, KnownJobs};
use self::own_fires::OwnFires;
use super::arguments::ReportArgs;
use super::day_of;
use super::numbers::grouped;
use crate::exit::{CliError, ExitKind};
use crate::output::{self, OutputFormat};
use crate::rival::{self, RivalLog, RivalSource};
use crate::{bounded, zones};

/// The size limit of a file.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How much two starts of the same fire may differ, if nothing else is said.
const TOLERANCE: Millis = Millis::secs(60);
/// The span that is compared, if nothing else is said.
const DAY: Millis = Millis::secs(86_400);
/// How many records that cannot be read are named, and how many fires that differ.
const SHOWN: usize = 5;
const ROWS: usize = 20;

/// Compares, and fails if something differs.
///
/// # Errors
/// A file cannot be read, or is in no known format; a request failed; a fire is only on one side; a record cannot be read.
pub(super) fn run(args: &ReportArgs) -> Result<(), CliError> {
    let tolerance = args.against.tolerance.map_or(TOLERANCE, TimeSpan::millis);
    let now = zones::now();
    let mut log = read(args, now)?;
    log.settle(tolerance);
    if log.last().is_none() {
        return Err(CliError::invalid(
            "there is nothing to compare: the file has no run, as an export that failed has none",
        ));
    }
    let span = span(args, &log, now)?;
    let client = args.reach.client()?;
    let jobs = KnownJobs::read(&client, args, &log)?;
    let units = jobs.units(&mut log);
    if units.is_empty() {
        return Err(CliError::invalid(
            "there is nothing to compare: the file has no run of these jobs, and none of them is a shadow",
        ));
    }
    let names: BTreeSet<&String> = units.iter().flat_map(|unit| &unit.jobs).collect();
    let own = OwnFires::read(&client, &names, args, (span.0 - tolerance, span.1 + tolerance))?;
    let compare = |unit: &CompareUnit| ComparedJob::of(unit, &own, span, tolerance);
    let jobs: Vec<ComparedJob> = units.iter().map(compare).collect();
    let mut comparison = FireComparison::new(span, tolerance, jobs, log);
    comparison.missing = own.missing;
    print(&mut comparison, args)?;
    verdict(&comparison)
}

/// What the files say.
fn read(args: &ReportArgs, now: Wall) -> Result<RivalLog, CliError> {
    let mut log = RivalLog::default();
    for file in &args.against.against {
        let shown = match file == Path::new("-") {
            true => "standard input".to_owned(),
            false => file.display().to_string(),
        };
        let text = bounded::text(file, FILE_BYTES_MAX).map_err(|e| CliError::unreadable_input(&shown, &e))?;
        let source = RivalSource { shown, format: args.against.against_format, zone: zone(args)?, now };
        log.extend(rival::read(&text, &source)?);
    }
    Ok(log)
}

fn zone(args: &ReportArgs) -> Result<TimeZone, CliError> {
    args.timezone.as_deref().map_or_else(|| Ok(TimeZone::system()), zones::named)
}

/// The span that is compared. It ends with the last run in the files, unless the arguments say otherwise: what ran here
/// later cannot be in them.
fn span(args: &ReportArgs, log: &RivalLog, now: Wall) -> Result<(Wall, Wall), CliError> {
    let moment = |text: &str| zones::when(text, now).map_err(CliError::usage);
    let (since, until) = match &args.day {
        Some(day) => {
            let (since, until) = day_of(day, zone(args)?)?;
            (Some(since), Some(until))
        }
        None => (args.since.clone(), args.until.clone()),
    };
    let last = || log.last().map_or(now, |last| now.min(last + Millis(1)));
    let until = until.as_deref().map_or_else(|| Ok(last()), moment)?.min(now);
    let since = since.as_deref().map_or_else(|| Ok(until - DAY), moment)?;
    match since < until {
        true => Ok((since, until)),
        false => Err(CliError::usage(format!(
            "the span is empty: it begins at {since}, and ends at {until} with the last run in the file: give --until"
        ))),
    }
}

/// Prints the table, the fires that differ, and the sum; or one document.
fn print(comparison: &mut FireComparison, args: &ReportArgs) -> Result<(), CliError> {
    let output = args.reach.output;
    if !args.all {
        comparison.jobs.iter_mut().for_each(ComparedJob::keep_differences);
    }
    if output.is_text() || output == OutputFormat::Name {
        output::list(output, &comparison.jobs, "")?;
    } else {
        output::value(output, comparison)?;
    }
    if output.is_text() {
        let rows = comparison.rows();
        let shown = if args.all { rows.len() } else { rows.len().min(ROWS) };
        if let Some(rows) = rows.get(..shown).filter(|rows| !rows.is_empty()) {
            // Columns that the command line chooses are those of the jobs.
            output::line("")?;
            output::bytes(format!("{}\n", output::table(rows)).as_bytes())?;
        }
        if shown < rows.len() {
            output::line(&format!(
                "and {} more: --all shows each fire",
                grouped((rows.len() - shown) as u64)
            ))?;
        }
        output::line(&comparison.summary())?;
    }
    for bad in comparison.bad.iter().take(SHOWN) {
        output::print_message(&format!("{}: {}", bad.place, bad.why));
    }
    if comparison.bad.len() > SHOWN {
        let more = (comparison.bad.len() - SHOWN) as u64;
        output::print_message(&format!("and {} more records that cannot be read", grouped(more)));
    }
    for (what, count) in &comparison.left_out {
        output::print_message(&format!("not compared: {} {what}", grouped(*count)));
    }
    output::missing(&comparison.missing);
    Ok(())
}

/// Why the command ends with an error.
fn verdict(comparison: &FireComparison) -> Result<(), CliError> {
    let counts = &comparison.counts;
    let said = [
        (counts.only_here, "fire is only here", "fires are only here"),
        (counts.only_there, "fire is only there", "fires are only there"),
        (comparison.bad.len() as u64, "record cannot be read", "records cannot be read"),
    ];
    let said = said.into_iter().filter(|(count, ..)| *count > 0);
    let said: Vec<String> = said
        .map(|(count, one, many)| format!("{} {}", grouped(count), if count == 1 { one } else { many }))
        .collect();
    match said.is_empty() {
        true => Ok(()),
        false => Err(CliError::new(ExitKind::Failed, said.join(", "))),
    }
}
