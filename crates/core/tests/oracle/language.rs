//! Cron lines as the oracle reads them: tables of what is named, and questions about one day or one second.

use super::zone::{date, length, weekday_of};

const MONTHS: &str = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC";
const WEEKDAYS: &str = "SUN MON TUE WED THU FRI SAT";

/// One rule of a schedule.
#[derive(Clone)]
pub(crate) enum OracleRule {
    Line(OracleLine),
    /// A period and a phase, in seconds.
    Every(i64, i64),
    /// An instant.
    Once(i64),
}

/// What `H` goes by in a field, as the documentation has it: FNV-1a over the name, a zero and the field's name, mixed.
pub(crate) fn hash(name: &str, field: &str) -> u64 {
    mixed(name.bytes().chain([0]).chain(field.bytes()))
}

/// By how many seconds the fire at this moment is moved where there is so much room.
pub(crate) fn moved(name: &str, at: i64, room: i64) -> i64 {
    let moment = (at * 1000).to_le_bytes();
    (mixed(name.bytes().chain([1]).chain(moment)) % room as u64) as i64
}

fn mixed(bytes: impl Iterator<Item = u8>) -> u64 {
    let mut sum: u64 = 14_695_981_039_346_656_037;
    for byte in bytes {
        sum = (sum ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    }
    sum = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    sum = (sum ^ (sum >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ (sum >> 31)
}

/// A cron line.
#[derive(Clone)]
pub(crate) struct OracleLine {
    pub(crate) second: Vec<bool>,
    pub(crate) minute: Vec<bool>,
    pub(crate) hour: Vec<bool>,
    month: Vec<bool>,
    days: Vec<MonthDay>,
    weekdays: Vec<WeekdayMatch>,
    /// One day field that agrees is enough.
    either: bool,
    year: Option<Vec<bool>>,
    /// It says "every so often".
    pub(crate) often: bool,
}

/// What a day-of-month field names.
#[derive(Clone)]
enum MonthDay {
    Day(i64),
    Last(i64),
    Nearest(i64),
    NearestLast(i64),
}

/// What a day-of-week field names; weekdays count from Sunday = 0.
#[derive(Clone)]
enum WeekdayMatch {
    Day(i64),
    Last(i64),
    Nth(i64, i64),
}

impl OracleLine {
    /// Reads a line that is known to be right.
    pub(crate) fn read(text: &str, hash: &dyn Fn(&str) -> u64) -> Self {
        let fields: Vec<&str> = text.split_whitespace().collect();
        match fields[..] {
            [minute, hour, day, month, weekday] => {
                let field = |name, text, low, high, names| numbers(text, low, high, names, hash(name));
                let star = |text: &str| text.starts_with('*');
                let often = |text: &str| star(text) || text.starts_with("H/");
                Self {
                    second: table(&[0], 60),
                    minute: table(&field("minute", minute, 0, 59, ""), 60),
                    hour: table(&field("hour", hour, 0, 23, ""), 24),
                    month: table(&field("month", month, 1, 12, MONTHS), 13),
                    days: numbers(day, 1, 31, "", hash("day-of-month"))
                        .into_iter()
                        .map(MonthDay::Day)
                        .collect(),
                    weekdays: numbers(weekday, 0, 7, WEEKDAYS, hash("day-of-week"))
                        .into_iter()
                        .map(|n| WeekdayMatch::Day(n % 7))
                        .collect(),
                    either: !star(day) && !star(weekday),
                    year: None,
                    often: often(minute) || often(hour),
                }
            }
            [second, minute, hour, day, month, weekday, ..] => {
                let field = |name, text, low, high, names| numbers(text, low, high, names, hash(name));
                let often = |text: &str| {
                    text.split(',').any(|p| p.starts_with('*') || p.contains('/') && !p.contains('-'))
                };
                Self {
                    second: table(&field("second", second, 0, 59, ""), 60),
                    minute: table(&field("minute", minute, 0, 59, ""), 60),
                    hour: table(&field("hour", hour, 0, 23, ""), 24),
                    month: table(&field("month", month, 1, 12, MONTHS), 13),
                    days: day.split(',').flat_map(|part| month_days(part, hash("day-of-month"))).collect(),
                    weekdays: weekday
                        .split(',')
                        .flat_map(|part| week_days(part, hash("day-of-week")))
                        .collect(),
                    either: false,
                    year: fields.get(6).filter(|text| **text != "*").map(|text| {
                        let named = numbers(text, 1970, 2099, "", 0);
                        (0..2100).map(|year| named.contains(&year)).collect()
                    }),
                    often: [second, minute, hour].into_iter().any(often),
                }
            }
            _ => panic!("{text} is no cron line"),
        }
    }

    /// Whether a day since 1970-01-01 is named.
    pub(crate) fn names_day(&self, at: i64) -> bool {
        let (year, month, day) = date(at);
        if !self.month[month as usize] {
            return false;
        }
        if let Some(years) = &self.year
            && !years.get(year as usize).copied().unwrap_or(false)
        {
            return false;
        }
        let last = length(year, month);
        let nearest = |of: i64| {
            // Of all working days of the month the one that lies nearest, as Quartz has it.
            let target = at - day + of;
            match weekday_of(target) {
                6 if of == 1 => 3,
                6 => of - 1,
                0 if of == last => of - 2,
                0 => of + 1,
                _ => of,
            }
        };
        let by_day = self.days.iter().any(|named| match *named {
            MonthDay::Day(n) => day == n,
            MonthDay::Last(before) => last - before >= 1 && day == last - before,
            MonthDay::Nearest(n) => n <= last && day == nearest(n),
            MonthDay::NearestLast(before) => last - before >= 1 && day == nearest(last - before),
        });
        let weekday = weekday_of(at);
        let by_week = self.weekdays.iter().any(|named| match *named {
            WeekdayMatch::Day(n) => weekday == n,
            WeekdayMatch::Last(n) => weekday == n && day + 7 > last,
            WeekdayMatch::Nth(n, nth) => weekday == n && (day + 6) / 7 == nth,
        });
        if self.either { by_day || by_week } else { by_day && by_week }
    }
}

fn table(named: &[i64], size: usize) -> Vec<bool> {
    (0..size as i64).map(|n| named.contains(&n)).collect()
}

/// Every number that a field names. A range that runs backwards goes on from the low end.
fn numbers(text: &str, low: i64, high: i64, names: &str, hash: u64) -> Vec<i64> {
    let value = |word: &str| {
        let name = names.split(' ').position(|name| name.eq_ignore_ascii_case(word));
        name.map_or_else(|| word.parse().expect("a number"), |at| low + at as i64)
    };
    let mut found = Vec::new();
    for part in text.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, ""));
        let (mut first, mut last) = match range {
            "*" | "?" | "" => (low, high),
            _ if range.starts_with('H') => {
                let inside = range[1..].trim_matches(['(', ')']);
                // Alone it means a day that every month has, and one day of the week.
                let top =
                    [(31, 28), (7, low + 6)].iter().find(|(top, _)| *top == high).map_or(high, |(_, n)| *n);
                let (a, b) = inside.split_once('-').map_or((low, top), |(a, b)| (value(a), value(b)));
                let span = if step.is_empty() { b - a + 1 } else { value(step).min(b - a + 1) };
                let begin = a + (hash % span as u64) as i64;
                (begin, if step.is_empty() { begin } else { b })
            }
            _ => match range.split_once('-') {
                Some((a, b)) => (value(a), value(b)),
                None if step.is_empty() => (value(range), value(range)),
                None => (value(range), high),
            },
        };
        let step = if step.is_empty() { 1 } else { step.parse().expect("a number") };
        if first > last {
            // On a dial: walk on past the end.
            last += high - low + 1;
        }
        while first <= last {
            found.push(if first > high { first - (high - low + 1) } else { first });
            first += step;
        }
    }
    found
}

fn month_days(part: &str, hash: u64) -> Vec<MonthDay> {
    let upper = part.to_uppercase();
    let (text, nearest) = upper.strip_suffix('W').map_or((upper.as_str(), false), |text| (text, true));
    match text.strip_prefix('L') {
        Some(before) => {
            let before = before.trim_start_matches('-').parse().unwrap_or(0);
            vec![if nearest { MonthDay::NearestLast(before) } else { MonthDay::Last(before) }]
        }
        None if nearest => vec![MonthDay::Nearest(text.parse().expect("a number"))],
        None => numbers(text, 1, 31, "", hash).into_iter().map(MonthDay::Day).collect(),
    }
}

fn week_days(part: &str, hash: u64) -> Vec<WeekdayMatch> {
    let upper = part.to_uppercase();
    let one = |text: &str| numbers(text, 1, 7, WEEKDAYS, 0)[0] - 1;
    if upper == "L" {
        return vec![WeekdayMatch::Day(6)];
    }
    if let Some((day, nth)) = upper.split_once('#') {
        return vec![WeekdayMatch::Nth(one(day), nth.parse().expect("a number"))];
    }
    if let Some(day) = upper.strip_suffix('L') {
        return vec![WeekdayMatch::Last(one(day))];
    }
    numbers(&upper, 1, 7, WEEKDAYS, hash).into_iter().map(|n| WeekdayMatch::Day(n - 1)).collect()
}
