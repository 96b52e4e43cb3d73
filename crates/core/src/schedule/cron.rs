//! The parser of the two cron dialects: 5 fields as Vixie cron, 6 or 7 fields as Quartz.

use super::cron_fields::{CronFields, Years};
use super::error::ScheduleError;
use super::field::{CronDialect, CronField, digits};
use super::name_hash::NameHash;
use super::zone::Dst;
use alloc::format;
use alloc::string::{String, ToString};

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A field of plain numbers.
fn plain(name: &'static str, min: u16, max: u16, (dialect, spread): (CronDialect, NameHash)) -> CronField {
    CronField {
        name,
        min,
        max,
        names: &[],
        hash: spread.of_field(name),
        wraps: dialect == CronDialect::Quartz,
    }
}

/// Parses a cron line, in this dialect or in the one that the number of its fields says.
pub(super) fn parse(
    text: &str,
    dialect: Option<CronDialect>,
    spread: NameHash,
) -> Result<(CronFields, Dst), ScheduleError> {
    // Eight are enough to see that there are too many.
    let mut fields = [""; 8];
    let mut count = 0;
    for (slot, field) in fields.iter_mut().zip(text.split([' ', '\t']).filter(|f| !f.is_empty())) {
        *slot = field;
        count += 1;
    }
    match (dialect, count) {
        (Some(CronDialect::Vixie), n) if n != 5 => {
            return Err(ScheduleError::new(
                "a schedule in vixie's words has 5 fields: minute hour day-of-month month day-of-week",
            )
            .on(text));
        }
        (Some(CronDialect::Quartz), n) if !(6..=7).contains(&n) => {
            return Err(ScheduleError::new(
                "a schedule in quartz's words has 6 or 7 fields: second minute hour day-of-month month day-of-week [year]",
            )
            .on(text));
        }
        _ => {}
    }
    match (count, fields) {
        (5, [minute, hour, dom, month, dow, ..]) => vixie(minute, hour, dom, month, dow, spread),
        (6 | 7, [second, minute, hour, dom, month, dow, year, _]) => {
            quartz([second, minute, hour], dom, month, dow, (if count == 7 { year } else { "*" }, spread))
        }
        (0, _) => Err(ScheduleError::new("the schedule is empty; write for example `0 5 * * *` or `@daily`")),
        _ => Err(ScheduleError::new(format_args!(
            "a schedule has 5 fields (minute hour day-of-month month day-of-week), or 6 or 7 (second first, year last), \
             not {}",
            if count == 8 { "more".to_string() } else { count.to_string() }
        ))),
    }
}

fn vixie(
    minute: &str,
    hour: &str,
    dom: &str,
    month: &str,
    dow: &str,
    spread: NameHash,
) -> Result<(CronFields, Dst), ScheduleError> {
    let d = (CronDialect::Vixie, spread);
    let star = |field: &str| field.starts_with('*');
    let weekdays = CronField {
        name: "day-of-week",
        min: 0,
        max: 7,
        names: WEEKDAYS,
        hash: spread.of_field("day-of-week"),
        wraps: false,
    };
    // Both 0 and 7 are Sunday.
    let week = |set: u64| (set | set >> 7) as u8 & 0x7f;
    let calendar = CronFields {
        seconds: 1,
        minutes: numbers(&plain("minute", 0, 59, d), d, minute)?,
        hours: numbers(&plain("hour", 0, 23, d), d, hour)? as u32,
        days: numbers(&plain("day-of-month", 1, 31, d), d, dom)? as u32,
        months: numbers(&months(d), d, month)? as u16,
        weekdays: week(numbers(&weekdays, d, dow)?),
        either_day: !star(dom) && !star(dow),
        ..CronFields::default()
    };
    let often = |field: &str| star(field) || field.starts_with("H/") || field.starts_with("h/");
    let dst = if often(minute) || often(hour) { Dst::Twice } else { Dst::Once };
    Ok((calendar, dst))
}

fn quartz(
    time: [&str; 3],
    dom: &str,
    month: &str,
    dow: &str,
    (year, spread): (&str, NameHash),
) -> Result<(CronFields, Dst), ScheduleError> {
    let d = (CronDialect::Quartz, spread);
    let [second, minute, hour] = time;
    let mut calendar = CronFields {
        seconds: numbers(&plain("second", 0, 59, d), d, second)?,
        minutes: numbers(&plain("minute", 0, 59, d), d, minute)?,
        hours: numbers(&plain("hour", 0, 23, d), d, hour)? as u32,
        months: numbers(&months(d), d, month)? as u16,
        ..CronFields::default()
    };
    let free = |field: &str| matches!(field, "*" | "?");
    if dom == "?" && dow == "?" {
        return Err(ScheduleError::new(
            "day-of-month and day-of-week are both `?`; only one may be left open, write `*` for the other",
        ));
    }
    if !free(dom) && !free(dow) {
        return Err(ScheduleError::new(
            "day-of-month and day-of-week are both set; with 6 or 7 fields one of them must be `?`",
        )
        .on(dow));
    }
    days(&mut calendar, if free(dom) { "*" } else { dom }, d)?;
    weekdays(&mut calendar, if free(dow) { "*" } else { dow }, d)?;
    if year != "*" {
        let field = CronField { wraps: false, ..plain("year", Years::FIRST, Years::LAST, d) };
        let mut years = Years::default();
        field.list(year, |part| match part.as_bytes() {
            [b'H' | b'h', ..] => Err("`H` is for every field but the year".to_string()),
            _ => field.numbers(d.0, part, |y| years.add(y)),
        })?;
        calendar.quartz.get_or_insert_default().years = Some(years);
    }
    let dst = if time.iter().any(|field| every(field)) { Dst::Twice } else { Dst::Once };
    Ok((calendar, dst))
}

/// Whether a Quartz time field says "every so often" (`*`, `*/5`, `0/5`) rather than naming its times.
fn every(field: &str) -> bool {
    field
        .split(',')
        .any(|part| part.starts_with('*') || part.split_once('/').is_some_and(|(r, _)| !r.contains('-')))
}

fn months(d: (CronDialect, NameHash)) -> CronField {
    CronField { names: MONTHS, ..plain("month", 1, 12, d) }
}

/// A field without special words, as bits.
fn numbers(
    field: &CronField,
    (dialect, _): (CronDialect, NameHash),
    text: &str,
) -> Result<u64, ScheduleError> {
    let mut bits = 0;
    field.list(text, |part| match part {
        "?" => Err("`?` is for day-of-month and day-of-week in schedules of 6 or 7 fields".to_string()),
        _ => field.numbers(dialect, part, |n| bits |= 1 << n).map_err(|reason| hint(dialect, part, reason)),
    })?;
    Ok(bits)
}

/// The hint where Quartz's words would be understood, when they stand in a line of 5 fields.
fn hint(dialect: CronDialect, part: &str, reason: String) -> String {
    let special = |word: &str| match word.as_bytes() {
        [b'L' | b'l', ..] | [.., b'L' | b'l' | b'W' | b'w'] => true,
        _ => word.contains('#'),
    };
    if dialect == CronDialect::Vixie && special(part) {
        return format!("{reason}; `L`, `W` and `#` need 6 fields, seconds first");
    }
    reason
}

/// Quartz's day-of-month: also `L`, `L-3`, `LW`, `L-3W` and `15W`.
fn days(calendar: &mut CronFields, text: &str, d: (CronDialect, NameHash)) -> Result<(), ScheduleError> {
    let field = plain("day-of-month", 1, 31, d);
    field.list(text, |part| {
        let (base, nearest) = match part.strip_suffix(['W', 'w']) {
            Some(base) => (base, true),
            None => (part, false),
        };
        if let Some(rest) = base.strip_prefix(['L', 'l']) {
            let before = match rest.strip_prefix('-') {
                _ if rest.is_empty() => 0,
                Some(n) => digits(n).filter(|n| *n <= 30).ok_or("`L-` takes a number 0-30, as in `L-3`")?,
                None => return Err("`L` stands alone or as `L-3`, `LW`".to_string()),
            };
            let quartz = calendar.quartz.get_or_insert_default();
            *(if nearest { &mut quartz.nearest_from_last } else { &mut quartz.from_last }) |= 1 << before;
        } else if nearest {
            let day =
                field.number(base).map_err(|reason| format!("`W` follows one day, as in `15W`: {reason}"))?;
            calendar.quartz.get_or_insert_default().nearest |= 1 << day;
        } else {
            field.numbers(CronDialect::Quartz, part, |n| calendar.days |= 1 << n)?;
        }
        Ok(())
    })
}

/// Quartz's day-of-week, 1 to 7 from Sunday: also `L` (Saturday), `6L` and `6#3`.
fn weekdays(calendar: &mut CronFields, text: &str, d: (CronDialect, NameHash)) -> Result<(), ScheduleError> {
    let field = CronField { names: WEEKDAYS, ..plain("day-of-week", 1, 7, d) };
    field.list(text, |part| {
        if let Some((day, nth)) = part.split_once('#') {
            let day = field.number(day)? - 1;
            let nth =
                digits(nth).filter(|n| (1..=5).contains(n)).ok_or("`#` takes a number 1-5, as in `6#3`")?;
            calendar.quartz.get_or_insert_default().nth |= 1 << (7 * (nth - 1) + day);
        } else if part.eq_ignore_ascii_case("L") {
            calendar.weekdays |= 1 << 6;
        } else if let Some(day) = part.strip_suffix(['L', 'l']) {
            calendar.quartz.get_or_insert_default().last |= 1 << (field.number(day)? - 1);
        } else {
            let sunday = |why: String| match part.starts_with('0') {
                true => format!("{why}; with 6 fields Sunday is 1 or SUN, as in Quartz"),
                false => why,
            };
            field
                .numbers(CronDialect::Quartz, part, |n| calendar.weekdays |= 1 << (n - 1))
                .map_err(sunday)?;
        }
        Ok(())
    })
}
