//! Schedules in words: `hourly`, `@minutely`, `every monday at 10:00`, `FREQ=DAILY;BYHOUR=9`.

use crate::schedule::error::quote;
use crate::schedule::named;
use crate::schedule::translation::{DAYS, Translation};
use crate::spelling;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Words of systemd, of FreeBSD's cron and of other programs, with and without an `@`.
const WORDS: &[(&str, &str)] = &[
    ("secondly", "@every 1s"),
    ("every_second", "@every 1s"),
    ("minutely", "* * * * *"),
    ("every_minute", "* * * * *"),
    ("hourly", "@hourly"),
    ("every_hour", "@hourly"),
    ("daily", "@daily"),
    ("every_day", "@daily"),
    ("midnight", "@midnight"),
    ("noon", "0 12 * * *"),
    ("weekly", "0 0 * * MON"),
    ("weekdays", "0 0 * * MON-FRI"),
    ("weekends", "0 0 * * SAT,SUN"),
    ("monthly", "@monthly"),
    ("quarterly", "0 0 1 1,4,7,10 *"),
    ("semiannually", "0 0 1 1,7 *"),
    ("annually", "@annually"),
    ("yearly", "@yearly"),
];

/// The meaning of a schedule in words.
pub(super) fn translate(text: &str) -> Option<Translation> {
    word(text).or_else(|| sentence(text)).or_else(|| calendar_rule(text))
}

fn word(text: &str) -> Option<Translation> {
    let plain = text.to_ascii_lowercase();
    let known = WORDS.iter().find(|(word, _)| *word == plain.trim_start_matches('@'));
    if let Some((_, rule)) = known {
        let says = if text.starts_with('@') {
            format!("{} is unknown", quote(text))
        } else {
            "this is a word of systemd's OnCalendar".to_string()
        };
        return Some(Translation::new(says, *rule));
    }
    let typed = plain.strip_prefix('@').filter(|typed| !typed.contains(' '))?;
    let names = named::NAMES.iter().map(|(name, _)| name.trim_start_matches('@'));
    let meant = spelling::nearest(typed, names)?;
    Some(Translation::new(format!("{} is unknown", quote(text)), format!("@{meant}")))
}

/// `every day at 10:00`, `every monday 09:00` or `daily at 9:30`.
fn sentence(text: &str) -> Option<Translation> {
    let plain = text.to_ascii_lowercase();
    let mut words: Vec<&str> = plain.split_ascii_whitespace().collect();
    let time = words.pop_if(|word| word.contains(':'))?;
    words.retain(|word| !matches!(*word, "at" | "every" | "each" | "on"));
    let (hour, minute) = time.split_once(':')?;
    let (hour, minute) = (hour.parse::<u8>().ok()?, minute.parse::<u8>().ok()?);
    let days = match words[..] {
        ["day" | "daily"] => "*".to_string(),
        ["weekday" | "weekdays"] => "MON-FRI".to_string(),
        ["weekend" | "weekends"] => "SAT,SUN".to_string(),
        [day]
            if plain.len() > text.find(day).unwrap_or(0)
                && (plain.starts_with("every ") || plain.contains(" at ")) =>
        {
            days(day)?
        }
        _ => return None,
    };
    Some(Translation::new("a schedule is no sentence", format!("{minute} {hour} * * {days}")))
}

/// Weekdays of any length and their ranges and lists, such as `monday,fri`, as cron writes them.
pub(super) fn days(text: &str) -> Option<String> {
    let day = |day: &str| {
        let short = day.get(..3)?.to_ascii_uppercase();
        DAYS.contains(&short.as_str()).then_some(short)
    };
    let range = |part: &str| {
        let range = part.split_once("..").or_else(|| part.split_once('-'));
        match range {
            Some((first, last)) => Some(format!("{}-{}", day(first)?, day(last)?)),
            None => day(part),
        }
    };
    let parts: Option<Vec<String>> = text.trim_end_matches(',').split(',').map(range).collect();
    parts.map(|parts| parts.join(","))
}

/// `FREQ=WEEKLY;BYDAY=MO;BYHOUR=9`, iCalendar's recurrence rules.
fn calendar_rule(text: &str) -> Option<Translation> {
    const SAYS: &str = "this is a recurrence rule of iCalendar";
    let rule = text.to_ascii_uppercase();
    let rule = rule.strip_prefix("RRULE:").unwrap_or(&rule);
    if rule.starts_with("DTSTART") {
        return Some(Translation::none(SAYS, ": write a cron line, and its first moment as start_at"));
    }
    if !rule.starts_with("FREQ=") {
        return None;
    }
    let part = |name: &str| rule.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let known = ["FREQ", "INTERVAL", "BYMINUTE", "BYHOUR", "BYDAY", "BYMONTHDAY", "WKST"];
    let plain = rule.split(';').all(|part| known.iter().any(|name| part.split('=').next() == Some(name)));
    let (minute, hour) = (part("BYMINUTE").unwrap_or("0"), part("BYHOUR").unwrap_or("0"));
    let week = || {
        let days = part("BYDAY")?.split(',');
        let named =
            days.map(|day| DAYS.iter().find(|known| day.len() == 2 && known.starts_with(day)).copied());
        named.collect::<Option<Vec<_>>>().map(|days| days.join(","))
    };
    let line = match (part("FREQ")?, part("INTERVAL").unwrap_or("1")) {
        _ if !plain => None,
        ("SECONDLY", n) => Some(format!("@every {n}s")),
        ("MINUTELY", n) => Some(format!("@every {n}m")),
        ("HOURLY", "1") => Some(format!("{minute} * * * *")),
        ("DAILY", "1") => Some(format!("{minute} {hour} * * *")),
        ("WEEKLY", "1") => week().map(|days| format!("{minute} {hour} * * {days}")),
        ("MONTHLY", "1") => part("BYMONTHDAY").map(|day| format!("{minute} {hour} {day} * *")),
        _ => None,
    };
    Some(match line {
        Some(line) => Translation::new(SAYS, line),
        None => Translation::none(SAYS, ": write it as a cron line, such as `0 9 * * MON-FRI`"),
    })
}
