//! anacron: each line of an anacrontab as a job.

use std::collections::BTreeMap;

use evenkeel_core::job::{CatchUp, JobFile, Program, Work};

use super::{ImportNotes, ImportRefusal, ImportSource, Imported, helpers};
use crate::exit::CliError;

/// The most minutes of a delay: a day.
const DELAY_MAX: u64 = 24 * 60;

/// The settings of the lines above an entry.
#[derive(Clone, Debug, Default)]
struct AnacronContext {
    environment: BTreeMap<String, String>,
    /// The first and the last hour of `START_HOURS_RANGE`, as written.
    hours: Option<(u64, u64)>,
    /// `RANDOM_DELAY`, in minutes.
    random_delay: u64,
    mail_to: bool,
}

/// Reads an anacrontab.
///
/// # Errors
/// The text holds no entry.
pub(crate) fn read(text: &str, source: &ImportSource) -> Result<Imported, CliError> {
    let mut imported = Imported::default();
    let mut context = AnacronContext::default();
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let object = |name: &str| format!("line {number} {name}").trim_end().to_owned();
        if let Some((name, value)) = setting(line) {
            if let Err(ImportRefusal { said, .. }) = context.take(name, value) {
                imported.refused(&object(name), said);
            }
            continue;
        }
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
            rest = after.trim_start();
            word
        };
        let (period, delay, name) = (word(), word(), word());
        let command = rest;
        imported.object(&object(name), |notes| job([period, delay, name, command], &context, source, notes));
    }
    if imported.jobs.is_empty() && imported.findings.is_empty() {
        return Err(CliError::invalid(format!("{}: it holds no entry of anacron", source.shown)));
    }
    Ok(imported)
}

/// `NAME=VALUE`, where the line is one.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let value = value.trim();
    let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    (is_name && !name.starts_with(|c: char| c.is_ascii_digit())).then_some((name, quoted.unwrap_or(value)))
}

impl AnacronContext {
    fn take(&mut self, name: &str, value: &str) -> Result<(), ImportRefusal> {
        let wrong = |what: &str| ImportRefusal::new(name, format!("{name} is {value:?}: it takes {what}"));
        match name {
            "START_HOURS_RANGE" => {
                let (from, to) = value.split_once('-').ok_or_else(|| wrong("hours, as 3-22"))?;
                let hour = |text: &str| text.trim().parse().ok().filter(|hour| *hour <= 24);
                let both = (hour(from), hour(to));
                let (Some(from), Some(to)) = both else { return Err(wrong("hours, as 3-22")) };
                self.hours = Some((from % 24, to));
            }
            "RANDOM_DELAY" => {
                let minutes = value.parse().ok().filter(|minutes| *minutes <= DELAY_MAX);
                self.random_delay = minutes.ok_or_else(|| wrong("minutes"))?;
            }
            "MAILTO" | "MAILFROM" => self.mail_to = true,
            // The user that the job runs as decides.
            "LOGNAME" | "USER" => {}
            _ => drop(self.environment.insert(name.to_owned(), value.to_owned())),
        }
        Ok(())
    }
}

fn job(
    [period, delay, name, command]: [&str; 4],
    context: &AnacronContext,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<JobFile, ImportRefusal> {
    if command.is_empty() {
        return Err(ImportRefusal::new("", "a line has a period, a delay, a name and a command"));
    }
    let name = helpers::name("job-identifier", name, notes)?;
    let mut job = JobFile::new(name, "", Work::Command(Vec::new()));
    job.shell = true;
    job.command = Program::Line(command.to_owned());
    notes.taken("command", "command with shell = true");
    job.environment.clone_from(&context.environment);
    if !job.environment.is_empty() {
        notes.taken("environment", "environment");
    }
    "/".clone_into(&mut job.directory);
    job.description = source.description();
    let minutes: u64 = delay
        .parse()
        .ok()
        .filter(|minutes| *minutes <= DELAY_MAX)
        .ok_or_else(|| ImportRefusal::new("delay", format!("{delay:?} is no number of minutes")))?;
    times(&mut job, period, minutes, context, source, notes)?;
    // anacron is about nothing else.
    job.catch_up = CatchUp::Latest;
    notes.taken("catch-up", "catch_up = \"latest\": a fire that was missed runs as soon as a node is there");
    if context.random_delay > 0 {
        job.jitter = helpers::span(context.random_delay * 60);
        notes.changed(
            "RANDOM_DELAY",
            format!("jitter = {:?}: the job's name and the moment decide the delay", job.jitter),
        );
    }
    if context.mail_to {
        notes.lost("MAILTO", "nothing is mailed: evenkeel run logs shows a run's output");
    }
    notes.changed(
        "host",
        "anacron runs on its own host and as root, a job on one node of the cluster and as that node's user: node_selector and \
         user say otherwise",
    );
    Ok(job)
}

/// The period as a time of day, at the first allowed hour and after the delay.
fn times(
    job: &mut JobFile,
    period: &str,
    delay: u64,
    context: &AnacronContext,
    source: &ImportSource,
    notes: &mut ImportNotes,
) -> Result<(), ImportRefusal> {
    let (first, _) = context.hours.unwrap_or_default();
    let minutes = (first * 60 + delay) % DELAY_MAX;
    let (hour, minute) = (minutes / 60, minutes % 60);
    let days = match period {
        "@daily" | "1" => Some("* * *"),
        "@weekly" | "7" => Some("* * 0"),
        "@monthly" => Some("1 * *"),
        "@yearly" | "@annually" => Some("1 1 *"),
        _ => None,
    };
    match days {
        Some(days) => {
            job.schedule = format!("{minute} {hour} {days}");
            helpers::assumed_zone(job, source, "the host's zone", notes);
        }
        None => {
            let days: u64 = period.parse().ok().filter(|days| (1..=366).contains(days)).ok_or_else(|| {
                ImportRefusal::new(
                    "period",
                    format!("{period:?} is no number of days, @daily, @weekly or @monthly"),
                )
            })?;
            let offset =
                if minutes == 0 { String::new() } else { format!(" offset {}", helpers::span(minutes * 60)) };
            job.schedule = format!("@every {days}d{offset}");
        }
    }
    let when = if job.schedule.starts_with('@') { ", in UTC, counted from 1970" } else { "" };
    notes.changed(
        "period",
        format!(
            "{period}: schedule = {:?}, a fixed time{when}; anacron counts the days from the run before",
            job.schedule
        ),
    );
    match context.hours {
        Some((_, last)) => notes.changed(
            "START_HOURS_RANGE",
            format!("a fire is at its first hour; a missed one runs also after {last}:00"),
        ),
        None => notes.changed(
            "START_HOURS_RANGE",
            "none: anacron starts when its host calls it, a fire after midnight",
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
