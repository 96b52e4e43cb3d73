//! Schedules in words: `@daily` and its kin, `@every 90s`, and `at` one moment.

use super::error::{ScheduleError, quote};
use super::zone::{Change, REACH, Zone};
use super::{Rule, cron};
use crate::time::Wall;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// The names and the cron lines they stand for.
const NAMES: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Units of `@every`, in milliseconds.
const UNITS: &[(&str, i64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a schedule that begins with `@`.
pub(super) fn at_sign(text: &str) -> Result<Rule, ScheduleError> {
    let (word, rest) = match text.split_once([' ', '\t']) {
        Some((word, rest)) => (word, rest.trim_ascii()),
        None => (text, ""),
    };
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    if is("@every") {
        return every(rest);
    }
    if is("@reboot") {
        return Err(ScheduleError::new(
            "`@reboot` is no point in time; start such a job from the host's service manager",
        ));
    }
    match NAMES.iter().find(|(name, _)| is(name)) {
        Some((name, _)) if !rest.is_empty() => {
            Err(ScheduleError::new(format_args!("{name} stands alone, without {}", quote(rest))))
        }
        Some((_, line)) => cron::parse(line).map(|(calendar, change)| Rule::Calendar(calendar, change)),
        None => Err(ScheduleError::new(format_args!(
            "{} is unknown; write @yearly, @monthly, @weekly, @daily, @hourly or `@every 90s`",
            quote(word)
        ))),
    }
}

/// Reads the span behind `@every`, such as `1h30m`.
fn every(text: &str) -> Result<Rule, ScheduleError> {
    let wrong = |reason: &str| ScheduleError::new(format_args!("@every {}: {reason}", quote(text)));
    let bounds = || wrong("the span must be at least 1s and at most 366d");
    let (mut rest, mut period) = (text, 0_i64);
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(unit_at);
        let unit_end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit = UNITS.iter().find(|(name, _)| *name == unit).filter(|_| !number.is_empty());
        let Some((_, ms)) = unit else {
            return Err(wrong("write numbers with a unit (d, h, m, s or ms), such as `90s` or `1h30m`"));
        };
        let number = number.parse::<i64>().map_err(|_| bounds())?;
        period = number.checked_mul(*ms).and_then(|ms| period.checked_add(ms)).ok_or_else(bounds)?;
        rest = tail;
    }
    if text.is_empty() {
        return Err(wrong("the span is missing, such as `90s` or `1h30m`"));
    }
    if (1_000..=366 * 86_400_000).contains(&period) { Ok(Rule::Every(period)) } else { Err(bounds()) }
}

/// Reads the time behind `at`: with an offset it is an instant, without one it is a local time of the zone.
pub(super) fn moment(text: &str, zone: &Zone) -> Result<Rule, ScheduleError> {
    let wrong = || {
        ScheduleError::new(format_args!(
            "at {}: write a time such as `2026-01-02T03:04:05Z`, `2026-01-02T03:04:05+01:00`, or without an offset for \
             the job's zone",
            quote(text)
        ))
    };
    if text.contains('[') {
        return Err(wrong());
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(Rule::Once(Wall(instant.as_millisecond())));
    }
    let local = text.parse::<DateTime>().map_err(|_| wrong())?;
    let local = Offset::UTC.to_timestamp(local).map_err(|_| wrong())?;
    let (second, ms) = (local.as_second(), i64::from(local.subsec_millisecond()));
    let due = zone.first(second - REACH, Change::Once, |from| (from <= second).then_some(second));
    due.map(|due| Rule::Once(Wall(due * 1000 + ms))).ok_or_else(wrong)
}
