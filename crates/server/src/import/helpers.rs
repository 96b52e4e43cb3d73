//! What several importers need: names, zones, spans, the cron lines of others.

use std::collections::BTreeMap;

use evenkeel_core::ids::{JobName, NAME_MAX};
use evenkeel_core::job::JobFile;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;

use super::{ImportNotes, ImportRefusal, ImportSource};
use crate::exit::CliError;
use crate::text_input;

/// The most retries of a job.
pub(super) const RETRIES_MAX: u64 = 100;

/// A job's name made of any text: other characters than a name may have become hyphens.
///
/// # Errors
/// Nothing is left of it.
pub(super) fn name(field: &str, text: &str, notes: &mut ImportNotes) -> Result<JobName, ImportRefusal> {
    let made = name_text(text);
    let name = made.parse().map_err(|_| {
        ImportRefusal::new(field, format!("no job can be named {text:?}: rename it, in letters of ASCII"))
    })?;
    if made != text {
        notes.changed(field, format!("the job is named {made}"));
    }
    Ok(name)
}

/// The text of such a name; empty if nothing is left of it.
pub(crate) fn name_text(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let made: String = text.chars().map(allowed).collect();
    made.trim_matches(['-', '.', '_']).chars().take(NAME_MAX).collect()
}

/// A number of seconds as a span of a job file.
pub(super) fn span(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let mut left = seconds;
    let mut text = String::new();
    for (unit, size) in units {
        if left >= size {
            text += &format!("{}{unit}", left / size);
            left %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// The zone of a name, empty for UTC; of an offset such as `GMT+8` the zone of that offset.
///
/// # Errors
/// There is no such zone.
pub(super) fn zone(field: &str, name: &str, notes: &mut ImportNotes) -> Result<String, ImportRefusal> {
    if ["UTC", "Etc/UTC", "GMT", "Z", "Etc/GMT"].contains(&name) {
        notes.taken(field, "timezone: UTC");
        return Ok(String::new());
    }
    if let Some(zone) = offset_zone(name) {
        notes.changed(
            field,
            format!("timezone = {zone:?}: the same offset from UTC, whose name has the opposite sign"),
        );
        return Ok(zone);
    }
    match TimeZone::get(name) {
        Ok(_) => {
            notes.taken(field, format!("timezone = {name:?}"));
            Ok(name.to_owned())
        }
        Err(_) => Err(ImportRefusal::new(
            field,
            format!("no zone is named {name:?}: write an IANA name such as Europe/Berlin"),
        )),
    }
}

/// `GMT+8` and `GMT+08:00` as the zone `Etc/GMT-8`.
fn offset_zone(name: &str) -> Option<String> {
    let offset = name.strip_prefix("GMT").or_else(|| name.strip_prefix("UTC"))?;
    let (sign, hours) = match offset.split_at_checked(1)? {
        ("+", hours) => ("-", hours),
        ("-", hours) => ("+", hours),
        _ => return None,
    };
    let (hours, minutes) = hours.split_once(':').unwrap_or((hours, "0"));
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 12 && minutes == 0).then(|| format!("Etc/GMT{sign}{hours}"))
}

/// Gives a job the zone of the import, because its own scheduler reads it in the zone of `whose`.
pub(super) fn assumed_zone(job: &mut JobFile, source: &ImportSource, whose: &str, notes: &mut ImportNotes) {
    job.timezone.clone_from(&source.timezone);
    notes.changed(
        "time zone",
        format!("read in {}: {whose} decides; --timezone says another one", source.zone_name()),
    );
}

/// Says how clock changes differ, for a schedule in a zone that may have them.
pub(super) fn clock_changes(job: &JobFile, elsewhere: &str, notes: &mut ImportNotes) {
    let by_clock =
        job.schedule.lines().any(|rule| !rule.starts_with("@every") && !rule.starts_with("@after"));
    if by_clock && !job.timezone.is_empty() && !job.timezone.starts_with("Etc/") {
        notes.changed("clock changes", format!("{elsewhere}; here as the key dst says"));
    }
}

/// Reads every document of a YAML text, within limits.
///
/// # Errors
/// It is no YAML, or exceeds a limit.
pub(crate) fn yaml(text: &str, shown: &str) -> Result<Vec<Value>, CliError> {
    let wrong = |why: &dyn std::fmt::Display| CliError::invalid(format!("{shown}: {why}"));
    text_input::within_limits(text).map_err(|mistake| wrong(&mistake))?;
    let documents = serde_yaml_ng::Deserializer::from_str(text);
    let no_yaml = |e: serde_yaml_ng::Error| wrong(&format!("it is no YAML: {e}"));
    documents.map(|document| Value::deserialize(document).map_err(no_yaml)).collect()
}

/// A cron line of five fields as robfig's library and those like it write it, in our dialect, and what was rewritten.
///
/// It reads `5/15` as from 5 on, `?` as `*`, and counts a day field such as `*/2` as restricted: with both day fields
/// restricted a day is due when either names it.
///
/// # Errors
/// The line has a zone in it, or not five fields.
pub(super) fn five_fields(line: &str) -> Result<(String, bool), String> {
    let line = line.trim();
    if line.starts_with("TZ=") || line.starts_with("CRON_TZ=") {
        return Err("a zone in the schedule is refused: write it into the key for the time zone".to_owned());
    }
    if line.starts_with('@') {
        return Ok((line.to_owned(), false));
    }
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(format!("{line:?} has {} fields, and a cron line has five", fields.len()));
    };
    let open = |field: &str| matches!(field, "*" | "?" | "*/1" | "?/1");
    let both = !open(day) && !open(weekday);
    let ends = |first, last, is_restricted| FieldEnds { first, last, is_restricted };
    let ends =
        [ends(0, 59, false), ends(0, 23, false), ends(1, 31, both), ends(1, 12, false), ends(0, 6, both)];
    let fields = [minute, hour, day, month, weekday];
    let made: Vec<String> = fields.iter().zip(ends).map(|(field, ends)| rewritten(field, &ends)).collect();
    let made = made.join(" ");
    let before = fields.join(" ");
    Ok((made.clone(), made != before))
}

/// The numbers of a field of a cron line.
struct FieldEnds {
    first: u8,
    last: u8,
    /// Whether it is a day field beside another restricted one.
    is_restricted: bool,
}

fn rewritten(field: &str, ends: &FieldEnds) -> String {
    let FieldEnds { first, last, is_restricted } = ends;
    let part = |part: &str| match part.replace('?', "*").split_once('/') {
        None => part.replace('?', "*"),
        Some(("*", step)) if *is_restricted && step != "1" => format!("{first}-{last}/{step}"),
        Some((from, step)) if from != "*" && !from.contains('-') => format!("{from}-{last}/{step}"),
        Some((from, step)) => format!("{from}/{step}"),
    };
    field.split(',').map(part).collect::<Vec<_>>().join(",")
}

/// The command of a job whose work is code of its own scheduler, from the words of `--command`.
///
/// # Errors
/// There is no such flag.
pub(super) fn templated(
    source: &ImportSource,
    field: &str,
    values: &BTreeMap<&str, &str>,
    notes: &mut ImportNotes,
) -> Result<Vec<String>, ImportRefusal> {
    let class = values.get("class").copied().unwrap_or_default();
    let Some(words) = &source.command else {
        return Err(ImportRefusal::new(
            field,
            format!(
                "{class:?} is code that only its own program can call: give the command that calls it with --command"
            ),
        ));
    };
    let filled = |word: &String| {
        values.iter().fold(word.clone(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
    };
    let argv: Vec<String> = words.iter().map(filled).collect();
    notes.changed(field, format!("command = {argv:?}, as --command says"));
    Ok(argv)
}

/// The settings of retries after failures, up to the most that a job may have.
pub(super) fn retry(times: u64, delay: &str, max_delay: &str) -> Option<evenkeel_core::job::Retry> {
    let max_retries = u32::try_from(times.min(RETRIES_MAX)).unwrap_or(u32::MAX);
    (max_retries > 0).then(|| evenkeel_core::job::Retry {
        max_retries,
        delay: delay.to_owned(),
        max_delay: max_delay.to_owned(),
        exit_codes: Vec::new(),
    })
}
