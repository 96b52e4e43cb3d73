//! Schedules in the syntax of other programs: each is recognised and refused with its translation.

use super::error::{ScheduleError, quote};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The names of the weekdays, in Quartz's numbers from 1 on.
pub(super) const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The refusal of a rule that is written for another program; `None` where it is not.
pub(super) fn refuse(text: &str) -> Option<ScheduleError> {
    let said = zone_in_front(text)
        .or_else(|| event_bridge(text))
        .or_else(|| rate(text))
        .or_else(|| calendar_event(text))?;
    Some(ScheduleError::new(format!("schedule {}: {said}", quote(text))).on(text))
}

/// `CRON_TZ=America/New_York 30 9 * * 1-5`, as robfig's cron, Kubernetes and Jenkins write it.
fn zone_in_front(text: &str) -> Option<String> {
    let rest = text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ="))?;
    let (zone, rule) = rest.split_once([' ', '\t'])?;
    Some(format!(
        "the time zone has a key of its own: write timezone = \"{zone}\" and schedule = \"{}\"",
        rule.trim_ascii()
    ))
}

/// `cron(0 2 ? * 6L *)`: minute first and the year last, weekdays as Quartz counts them.
fn event_bridge(text: &str) -> Option<String> {
    let inner = text.strip_prefix("cron(")?.strip_suffix(')')?;
    let fields: Vec<&str> = inner.split_ascii_whitespace().collect();
    let [minute, hour, dom, month, dow, year] = fields[..] else {
        return Some(
            "this is written for AWS EventBridge: write the fields alone, the second first".to_string(),
        );
    };
    let year = if year == "*" { String::new() } else { format!(" {year}") };
    Some(format!(
        "this is written for AWS EventBridge: write `0 {minute} {hour} {dom} {month} {dow}{year}`, the second first"
    ))
}

/// `rate(5 minutes)`.
fn rate(text: &str) -> Option<String> {
    let inner = text.strip_prefix("rate(")?.strip_suffix(')')?;
    let (count, unit) = inner.trim_ascii().split_once(' ')?;
    let unit = match unit.trim_ascii().trim_end_matches('s') {
        "minute" => "m",
        "hour" => "h",
        "day" => "d",
        _ => return Some("this is written for AWS EventBridge: write it as `@every 5m`".to_string()),
    };
    Some(format!("this is written for AWS EventBridge: write `@every {count}{unit}`"))
}

/// `Mon..Fri *-*-* 09:00`, systemd's `OnCalendar`.
fn calendar_event(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let is_time =
        |word: &str| word.contains(':') && word.bytes().all(|b| b.is_ascii_digit() || b":*/,.".contains(&b));
    let is_date =
        |word: &str| word.matches('-').count() == 2 && !word.bytes().any(|b| b.is_ascii_alphabetic());
    if text.starts_with("at ") || !words.iter().any(|word| is_time(word) || is_date(word)) || words.len() > 4
    {
        return None;
    }
    let time = words.iter().find(|word| is_time(word)).copied().unwrap_or("00:00");
    let plain = words.iter().all(|word| is_time(word) || *word == "*-*-*" || !is_date(word));
    let part = |n: usize| time.split(':').nth(n).and_then(|n| n.parse::<u8>().ok());
    let days = words.iter().find(|word| !is_time(word) && !is_date(word));
    let days = days.map_or(Some("*".to_string()), |days| weekdays(days));
    let translated = match (part(0), part(1), part(2).unwrap_or(0), days) {
        (Some(hour), Some(minute), 0, Some(days)) if plain => format!(": write `{minute} {hour} * * {days}`"),
        _ => ": write it as a cron line, such as `0 9 * * MON-FRI`".to_string(),
    };
    Some(format!("this is written for systemd's OnCalendar{translated}"))
}

/// systemd's weekdays, such as `Mon..Fri` or `Sat,Sun`, as cron writes them.
fn weekdays(text: &str) -> Option<String> {
    let day = |day: &str| {
        let short = day.get(..3)?.to_ascii_uppercase();
        DAYS.contains(&short.as_str()).then_some(short)
    };
    let part = |part: &str| match part.split_once("..") {
        Some((first, last)) => Some(format!("{}-{}", day(first)?, day(last)?)),
        None => day(part),
    };
    let parts: Option<Vec<String>> = text.split(',').map(part).collect();
    parts.map(|parts| parts.join(","))
}

/// The replacement for an offset from UTC that is written as a zone, such as `GMT+3`: the IANA names of such zones have
/// the opposite sign.
pub(super) fn zone(name: &str) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    let offset = upper.strip_prefix("GMT").or_else(|| upper.strip_prefix("UTC")).unwrap_or(&upper);
    let (sign, hours) = match offset.split_at_checked(1)? {
        ("+", hours) => ("-", hours),
        ("-", hours) => ("+", hours),
        _ => return None,
    };
    let (hours, minutes) = hours.split_once(':').unwrap_or((hours, "0"));
    let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok()?);
    let side = if sign == "-" { "ahead of" } else { "behind" };
    match (hours, minutes) {
        (0..=12, 0) => Some(format!(
            "the zone {hours} h {side} UTC is `Etc/GMT{sign}{hours}`, whose sign is the opposite one; a place such as \
             `Europe/Berlin` also knows its clock changes"
        )),
        _ => Some("write a place that has this offset, such as `Asia/Kolkata`".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    #[test]
    fn schedules_of_other_programs_are_refused_with_their_translation() {
        for (text, says) in [
            (
                "CRON_TZ=America/New_York 30 9 * * 1-5",
                "write timezone = \"America/New_York\" and schedule = \"30 9 * * 1-5\"",
            ),
            (
                "TZ=Europe/London 0 22 * * SUN",
                "write timezone = \"Europe/London\" and schedule = \"0 22 * * SUN\"",
            ),
            ("cron(0 2 ? * 6L *)", "AWS EventBridge: write `0 0 2 ? * 6L`"),
            ("cron(15 10 * * ? 2031)", "write `0 15 10 * * ? 2031`"),
            ("rate(5 minutes)", "write `@every 5m`"),
            ("rate(1 day)", "write `@every 1d`"),
            ("Mon..Fri *-*-* 09:00", "systemd's OnCalendar: write `0 9 * * MON-FRI`"),
            ("*-*-* 02:30:00", "write `30 2 * * *`"),
            ("Sat,Sun 10:00", "write `0 10 * * SAT,SUN`"),
            ("*-*-01 04:00", "systemd's OnCalendar: write it as a cron line"),
        ] {
            let said = Schedule::parse(text, "").unwrap_err();
            assert!(said.to_string().contains(says), "{text}: {said}");
            for line in says.split('`').skip(1).step_by(2) {
                assert!(Schedule::parse(line, "").is_ok(), "what is proposed is read: {line}");
            }
        }
        let sunday = Schedule::parse("0 0 2 * * 0", "").unwrap_err().to_string();
        assert!(sunday.contains("0 is outside 1-7; with 6 fields Sunday is 1 or SUN"), "{sunday}");
    }

    #[test]
    fn an_offset_is_no_zone_and_its_sign_is_a_trap() {
        for (zone, says) in [
            ("GMT+3", "3 h ahead of UTC is `Etc/GMT-3`"),
            ("UTC-5", "5 h behind UTC is `Etc/GMT+5`"),
            ("+02:00", "2 h ahead of UTC is `Etc/GMT-2`"),
            ("UTC+5:30", "write a place that has this offset"),
            ("berlin", "such as `Europe/Berlin`"),
        ] {
            let said = Schedule::parse("@daily", zone).unwrap_err().to_string();
            assert!(said.contains(says), "{zone}: {said}");
        }
    }
}
