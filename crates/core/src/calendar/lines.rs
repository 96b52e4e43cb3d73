//! The parser of a calendar's lines, one small grammar a kind.

use alloc::format;
use alloc::string::{String, ToString};

use super::local_times::{DAY, LocalTimesBuilder};
use jiff::civil::Date;

/// The longest line that is parsed, in bytes.
const LINE_MAX: usize = 100;

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

const A_DAY: &str = "write a day as `2026-12-25`, as `12-25` for each year, or as `2026-12-24..2027-01-01`";
const A_WEEKDAY: &str =
    "write weekdays as `sat`, `sat,sun` or `mon-fri`, of mon, tue, wed, thu, fri, sat and sun";
const A_WINDOW: &str = "write hours as `22:00..06:00`, `mon-fri 09:00..17:00`, `fri 22:00..mon 06:00` or \
                        `2026-12-24T18:00..2026-12-27T06:00`";

type LineResult = Result<(), String>;

/// Foreign text in backquotes, made harmless for a terminal and cut when it is long.
pub(super) fn quote(text: &str) -> String {
    let mut out: String = text.chars().take(48).flat_map(char::escape_debug).collect();
    if text.chars().nth(48).is_some() {
        out.push('…');
    }
    format!("`{out}`")
}

fn short(text: &str) -> Result<&str, String> {
    if text.len() <= LINE_MAX {
        Ok(text.trim_ascii())
    } else {
        Err(format!("it is longer than {LINE_MAX} bytes"))
    }
}

/// Parses a line of `days`.
pub(super) fn days(text: &str, set: &mut LocalTimesBuilder) -> LineResult {
    let text = short(text)?;
    let (first, last) = text.split_once("..").map_or((text, text), |(a, b)| (a.trim_ascii(), b.trim_ascii()));
    if let (Some(first), Some(last)) = (date(first), date(last)) {
        if last < first {
            return Err("it ends before it begins".to_string());
        }
        set.dated(midnight(first), midnight(last) + DAY);
        return Ok(());
    }
    match (month_day(first), month_day(last)) {
        (Some(first), Some(last)) => {
            set.yearly(first, last);
            Ok(())
        }
        _ => Err(A_DAY.to_string()),
    }
}

/// Parses a line of `weekdays`.
pub(super) fn weekdays(text: &str, set: &mut LocalTimesBuilder) -> LineResult {
    let found = weekday_set(short(text)?).ok_or(A_WEEKDAY)?;
    (0..7).filter(|day| found & (1 << day) != 0).for_each(|day| set.weekly(day * DAY, (day + 1) * DAY));
    Ok(())
}

/// Parses a line of `windows`.
pub(super) fn window(text: &str, set: &mut LocalTimesBuilder) -> LineResult {
    let (first, last) = short(text)?.split_once("..").ok_or(A_WINDOW)?;
    let (first, last) = (first.trim_ascii(), last.trim_ascii());
    if first.contains(['T', 't']) && first.starts_with(|c: char| c.is_ascii_digit()) {
        let (from, until) = (moment(first).ok_or(A_WINDOW)?, moment(last).ok_or(A_WINDOW)?);
        if until <= from {
            return Err("it ends before it begins".to_string());
        }
        set.dated(from, until);
        return Ok(());
    }
    let (begin_days, begin) = weekly_time(first).ok_or(A_WINDOW)?;
    let (end_days, end) = weekly_time(last).ok_or(A_WINDOW)?;
    if begin == DAY {
        return Err("24:00 can only be an end: it begins at 00:00 of the day after".to_string());
    }
    match (begin_days, end_days) {
        (days, None) => {
            if begin == end {
                return Err("it ends where it begins: write `00:00..24:00` for whole days".to_string());
            }
            let end = if end <= begin { end + DAY } else { end };
            let days = days.unwrap_or(0x7f);
            let begins = (0..7).filter(|day| days & (1 << day) != 0).map(|day| day * DAY);
            begins.for_each(|day| set.weekly(day + begin, day + end));
            Ok(())
        }
        (Some(from), Some(to)) if from.count_ones() == 1 && to.count_ones() == 1 => {
            let from = i64::from(from.trailing_zeros()) * DAY + begin;
            let until = i64::from(to.trailing_zeros()) * DAY + end;
            if from == until {
                return Err("it ends where it begins: write `00:00..24:00` for the whole week".to_string());
            }
            set.weekly(from, if until < from { until + 7 * DAY } else { until });
            Ok(())
        }
        _ => Err(A_WINDOW.to_string()),
    }
}

/// Weekdays as bits from Monday on: `sat`, `mon-fri`, `mon,wed-fri`.
fn weekday_set(text: &str) -> Option<u8> {
    let number = |word: &str| WEEKDAYS.iter().position(|name| name.eq_ignore_ascii_case(word.trim_ascii()));
    text.split(',').try_fold(0, |set, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        let length = (last + 7 - first) % 7;
        Some((first..=first + length).fold(set, |set, day| set | 1 << (day % 7)))
    })
}

/// `09:00`, or `fri 22:00`: the weekdays, if any, and the seconds since midnight.
fn weekly_time(text: &str) -> Option<(Option<u8>, i64)> {
    match text.rsplit_once(' ') {
        Some((days, at)) => Some((Some(weekday_set(days.trim_ascii())?), time(at)?)),
        None => Some((None, time(text)?)),
    }
}

/// `2026-12-24T18:00` in local seconds.
fn moment(text: &str) -> Option<i64> {
    let (day, at) = text.split_once(['T', 't'])?;
    Some(midnight(date(day)?) + time(at)?)
}

/// `18:00` or `18:00:30`, and `24:00` for the end of a day, in seconds.
fn time(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| number(second, 2))?;
    let at = hour * 3_600 + minute * 60 + second;
    (parts.next().is_none() && minute < 60 && second < 60 && at <= DAY).then_some(at)
}

/// `2026-12-25`.
fn date(text: &str) -> Option<Date> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let (month, day) = (number(month, 2)?, number(day, 2)?);
    Date::new(i16::try_from(number(year, 4)?).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// `12-25`; the 29th of February is one, in the years that have it.
fn month_day(text: &str) -> Option<(u32, u32)> {
    let (month, day) = text.split_once('-')?;
    let (month, day) = (number(month, 2)?, number(day, 2)?);
    Date::new(2024, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    Some((u32::try_from(month).ok()?, u32::try_from(day).ok()?))
}

/// So many digits, and nothing else.
fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn midnight(day: Date) -> i64 {
    let epoch = jiff::civil::date(1970, 1, 1);
    // Both are dates of the proleptic Gregorian calendar, so their distance is a whole number of days.
    i64::from((day - epoch).get_days()) * DAY
}
