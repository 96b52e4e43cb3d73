//! Schedules in the syntax of other programs: each is recognised and refused with its translation.
//!
//! Looked at only after a text turned out to be no schedule, so what is here costs a valid one nothing.

mod crontab;
mod intervals;
mod systemd;
mod words;

use super::error::{ScheduleError, quote};
use super::translation::{Translation, call, is_line, problem};
use crate::characters;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The refusal of a rule that is written for another program, or with characters that look like others; `None` where it
/// is neither.
pub(super) fn refuse(text: &str) -> Option<ScheduleError> {
    if let Some(c) = characters::foreign(text) {
        let at = text.find(c)?;
        let said = format!("it holds {}: {}", characters::describe(c), characters::instead(c));
        let error = ScheduleError::new(format!("schedule {}: {said}", quote(text)));
        return Some(error.on(text.get(at..at + c.len_utf8())?));
    }
    let said = translate(text)?.message();
    Some(ScheduleError::new(format!("schedule {}: {said}", quote(text))).on(text))
}

/// What to write instead of a line with a wrong field, as the end of the message about that field.
pub(super) fn hint(text: &str) -> Option<String> {
    crontab::hint(text)
}

/// The meaning of a text that is no schedule here.
fn translate(text: &str) -> Option<Translation> {
    zone_in_front(text)
        .or_else(|| quoted(text))
        .or_else(|| event_bridge(text))
        .or_else(|| intervals::translate(text))
        .or_else(|| words::translate(text))
        .or_else(|| systemd::translate(text))
        .or_else(|| crontab::translate(text))
}

/// `CRON_TZ=America/New_York 30 9 * * 1-5`, as robfig's cron, Kubernetes and Jenkins write it.
fn zone_in_front(text: &str) -> Option<Translation> {
    let (name, rest) = text.split_once('=')?;
    if !["CRON_TZ", "TZ"].iter().any(|known| known.eq_ignore_ascii_case(name.trim_ascii())) {
        return None;
    }
    let (zone, rule) = rest.trim_ascii().split_once([' ', '\t']).unwrap_or((rest.trim_ascii(), ""));
    let (zone, rule) = (zone.trim_matches(['"', '\'']), rule.trim_ascii());
    let says = "the time zone has a key of its own";
    if rule.is_empty() {
        return Some(Translation::none(says, "").within(zone));
    }
    let meant = match problem(rule) {
        Some(_) if !rule.contains('=') => translate(rule).and_then(|inner| inner.schedule),
        _ => None,
    };
    Some(Translation::new(says, meant.unwrap_or_else(|| rule.to_string())).within(zone))
}

/// A schedule with its quotes.
fn quoted(text: &str) -> Option<Translation> {
    let inner = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))?;
    Some(Translation::new("the quotes are part of the schedule", inner.trim_ascii()))
}

/// `cron(0 2 ? * 6L *)`: minute first and the year last, weekdays as Quartz counts them.
fn event_bridge(text: &str) -> Option<Translation> {
    const SAYS: &str = "this is written for AWS EventBridge";
    if let Some(moment) = call(text, "at") {
        return Some(Translation::new(SAYS, format!("at {moment}")));
    }
    let inner = call(text, "cron")?;
    let fields: Vec<&str> = inner.split_ascii_whitespace().collect();
    let [minute, hour, dom, month, dow, year] = fields[..] else {
        return Some(match is_line(inner) {
            true => Translation::new(SAYS, inner),
            false => Translation::none(
                SAYS,
                ", whose cron has six fields: minute hour day-of-month month day-of-week year",
            ),
        });
    };
    let year = if year == "*" { String::new() } else { format!(" {year}") };
    let rule = Translation::new(SAYS, format!("0 {minute} {hour} {dom} {month} {dow}{year}"));
    Some(if rule.schedule.is_some() { rule.noting(", the second first") } else { rule })
}

#[cfg(test)]
mod tests;
