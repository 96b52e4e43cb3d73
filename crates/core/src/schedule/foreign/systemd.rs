//! systemd's `OnCalendar`, such as `Mon..Fri *-*-* 09:00`.

use super::words;
use crate::schedule::translation::Translation;
use crate::schedule::zone::Zone;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const SAYS: &str = "this is written for systemd's OnCalendar";

/// The parts of a calendar event.
#[derive(Default)]
struct CalendarEvent<'a> {
    days: Option<&'a str>,
    date: Option<&'a str>,
    time: Option<&'a str>,
    zone: Option<&'a str>,
}

/// The meaning of a calendar event; `None` where the text is none.
pub(super) fn translate(text: &str) -> Option<Translation> {
    let event = CalendarEvent::read(text)?;
    let rule = event.rule();
    let said = match rule {
        Some(rule) => Translation::new(SAYS, rule),
        None => Translation::none(SAYS, ": write it as a cron line, such as `0 9 * * MON-FRI`"),
    };
    Some(match event.zone {
        Some(zone) => said.within(zone),
        None => said,
    })
}

impl<'a> CalendarEvent<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut event = Self::default();
        for word in text.split_ascii_whitespace() {
            let slot = match word {
                word if is_time(word) => &mut event.time,
                word if is_date(word) => &mut event.date,
                word if event.date.is_none() && event.time.is_none() && words::days(word).is_some() => {
                    &mut event.days
                }
                word if Zone::named(word).is_ok() => &mut event.zone,
                _ => return None,
            };
            if slot.replace(word).is_some() {
                return None;
            }
        }
        (event.time.is_some() || event.date.is_some()).then_some(event)
    }

    /// The rule that means the same.
    fn rule(&self) -> Option<String> {
        let days = self.days.map_or(Some("*".to_string()), words::days)?;
        let date = self.date.unwrap_or("*-*-*");
        // The last days of a month are counted from its end.
        let (date, back) = date.split_once('~').map_or((date, None), |(date, back)| (date, Some(back)));
        let mut parts: Vec<&str> = date.split('-').collect();
        let day = match back {
            Some(back) => last(back.parse().ok()?),
            None => field(parts.pop()?, 1, 31)?,
        };
        let (year, month) = match parts[..] {
            [year, month] => (year, month),
            [month] => ("*", month),
            _ => return None,
        };
        let mut time = self.time.unwrap_or("00:00").split(':');
        let (hour, minute, second) = (time.next()?, time.next()?, time.next().unwrap_or("00"));
        let second = field(second, 0, 59)?;
        let (hour, minute) = (field(hour, 0, 23)?, field(minute, 0, 59)?);
        let (month, year) = (field(month, 1, 12)?, field(year, 1970, 2199)?);
        if day != "*" && days != "*" {
            // Both must fit, which only an n-th weekday says.
            let nth = ["1-7", "8-14", "15-21", "22-28"].iter().position(|week| *week == day)? + 1;
            return (days.len() == 3)
                .then(|| line(&[&second, &minute, &hour, "?", &month, &format!("{days}#{nth}")], &year));
        }
        if second == "0" && year == "*" && !day.starts_with('L') {
            return Some(format!("{minute} {hour} {day} {month} {days}"));
        }
        let (day, days) = if days == "*" { (day, "?".to_string()) } else { ("?".to_string(), days) };
        Some(line(&[&second, &minute, &hour, &day, &month, &days], &year))
    }
}

/// Six fields, and the year if it matters.
fn line(fields: &[&str], year: &str) -> String {
    let line = fields.join(" ");
    if year == "*" { line } else { format!("{line} {year}") }
}

/// The n-th last day of a month.
fn last(back: u8) -> String {
    if back <= 1 { "L".to_string() } else { format!("L-{}", back - 1) }
}

/// A part of a date or a time as cron writes it: `1..7` as `1-7`, `0/15` as `*/15`, and numbers without zeros in front.
fn field(text: &str, min: u16, max: u16) -> Option<String> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|n| (min..=max).contains(n));
    let part = |part: &str| {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let range = match (range, range.split_once(".."), step) {
            ("*", ..) => "*".to_string(),
            (_, Some((first, last)), _) => format!("{}-{}", number(first)?, number(last)?),
            (first, None, Some(_)) if number(first)? == min => "*".to_string(),
            (first, None, Some(_)) => format!("{}-{max}", number(first)?),
            (one, None, None) => number(one)?.to_string(),
        };
        let step = step.map(str::parse::<u16>).transpose().ok()?;
        Some(step.map_or(range.clone(), |step| format!("{range}/{step}")))
    };
    text.split(',').map(part).collect::<Option<Vec<_>>>().map(|parts| parts.join(","))
}

fn is_time(word: &str) -> bool {
    word.contains(':') && word.bytes().all(|b| b.is_ascii_digit() || b":*/,.".contains(&b))
}

fn is_date(word: &str) -> bool {
    let marks = word.bytes().filter(|b| matches!(b, b'-' | b'~')).count();
    (1..=2).contains(&marks)
        && word.bytes().all(|b| b.is_ascii_digit() || b"-~*/,.".contains(&b))
        && !word.starts_with('-')
}
