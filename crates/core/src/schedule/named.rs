//! Named schedules: `@daily` and its kin, `@every 90s`, `@after 90s`, and `at` one moment.

use super::cron;
use super::error::{ScheduleError, quote};
use super::name_hash::NameHash;
use super::rule::ScheduleRule;
use super::zone::{Dst, REACH, Zone};
use crate::time::{Millis, SpanLimits, TimeSpan, Wall};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// The names and the cron lines they stand for.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Parses a schedule that begins with `@`.
pub(super) fn at_sign(text: &str, spread: NameHash) -> Result<ScheduleRule, ScheduleError> {
    let (word, rest) = match text.split_once([' ', '\t']) {
        Some((word, rest)) => (word, rest.trim_ascii()),
        None => (text, ""),
    };
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    if is("@every") {
        return every(rest);
    }
    if is("@after") {
        return span("@after", rest, SpanLimits::SCHEDULE).map(ScheduleRule::AfterCompletion);
    }
    if is("@reboot") {
        return Err(ScheduleError::new(
            "`@reboot` is no point in time; start such a job from the host's service manager",
        ));
    }
    match NAMES.iter().find(|(name, _)| is(name)) {
        Some((name, _)) if !rest.is_empty() => {
            Err(ScheduleError::new(format_args!("{name} stands alone, without {}", quote(rest))).on(rest))
        }
        Some((_, line)) => {
            cron::parse(line, None, spread).map(|(calendar, dst)| ScheduleRule::Cron(calendar, dst))
        }
        None => Err(ScheduleError::new(format_args!(
            "{} is unknown; write @yearly, @monthly, @weekly, @daily, @hourly, `@every 90s` or `@after 90s`",
            quote(word)
        ))
        .on(word)),
    }
}

/// Parses the text behind `@every`, such as `1h30m` or `1h offset 15m`.
fn every(text: &str) -> Result<ScheduleRule, ScheduleError> {
    let (period, phase) = match text.split_once(" offset ") {
        Some((period, phase)) => (period.trim_ascii(), Some(phase.trim_ascii())),
        None => (text, None),
    };
    let every = span("@every", period, SpanLimits::SCHEDULE)?;
    let phase = phase.map_or(Ok(0), |phase| {
        let ms = span("offset", phase, SpanLimits::SCHEDULE.at_least(Millis::ZERO))?;
        if ms < every {
            return Ok(ms);
        }
        Err(ScheduleError::new(format_args!(
            "offset {}: it must be less than the span {period}",
            quote(phase)
        ))
        .on(phase))
    })?;
    Ok(ScheduleRule::Every(every, phase))
}

/// Parses a span of a schedule, such as `1h30m`, in milliseconds.
pub(super) fn span(word: &str, text: &str, limits: SpanLimits) -> Result<i64, ScheduleError> {
    let span = TimeSpan::parse(word, text, limits).map_err(|e| ScheduleError::new(e).on(text))?;
    Ok(span.millis().0)
}

/// Parses the time behind `at`, or a job's first or last moment: an instant with an offset, a local time without one.
pub(super) fn moment(word: &str, text: &str, zone: &Zone) -> Result<Wall, ScheduleError> {
    let wrong = || {
        ScheduleError::new(format_args!(
            "{word} {}: write a time such as `2026-01-02T03:04:05Z`, `2026-01-02T03:04:05+01:00`, or without an offset for \
             the job's zone",
            quote(text)
        ))
        .on(text)
    };
    if text.contains('[') {
        return Err(wrong());
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(Wall(instant.as_millisecond()));
    }
    let local = text.parse::<DateTime>().map_err(|_| wrong())?;
    let local = Offset::UTC.to_timestamp(local).map_err(|_| wrong())?;
    let (second, ms) = (local.as_second(), i64::from(local.subsec_millisecond()));
    let due = zone.first(second - REACH, Dst::Once, |from| (from <= second).then_some(second));
    due.map(|due| Wall(due * 1000 + ms)).ok_or_else(wrong)
}
