//! Random schedules, the same ones for the same seed.

use super::calendars::OracleCalendar;
use super::clock::{self, OracleDst};
use super::language::{OracleLine, OracleRule, hash};
use super::zone::{OracleZone, date};

/// A stream of numbers (splitmix64).
pub(crate) struct OracleRandom(u64);

impl OracleRandom {
    /// The stream of this case of this seed.
    pub(crate) fn of(seed: u64, case: u64) -> Self {
        let mut random = Self(seed ^ case.wrapping_mul(0xd134_2543_de82_ef95));
        random.draw();
        random
    }

    /// The next number.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.draw() % (high - low + 1) as u64) as i64
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, n: i64) -> bool {
        self.between(0, 99) < n
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.between(0, list.len() as i64 - 1) as usize]
    }
}

/// A field: its numbers, and the names that may stand for them.
struct OracleField {
    low: i64,
    high: i64,
    names: &'static [&'static str],
    quartz: bool,
    wraps: bool,
}

const MONTHS: &[&str] = &["jan", "Feb", "MAR", "apr", "may", "jun", "jul", "aug", "sep", "OCT", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "MON", "tue", "Wed", "thu", "fri", "SAT"];

impl OracleField {
    fn of(low: i64, high: i64, names: &'static [&'static str], quartz: bool) -> Self {
        Self { low, high, names, quartz, wraps: quartz && high < 1000 }
    }

    fn word(&self, n: i64, r: &mut OracleRandom) -> String {
        match self.names.get((n - self.low) as usize) {
            Some(name) if r.percent(40) => (*name).to_owned(),
            _ => n.to_string(),
        }
    }

    fn number(&self, r: &mut OracleRandom) -> String {
        let n = r.between(self.low, self.high);
        self.word(n, r)
    }

    fn range(&self, r: &mut OracleRandom) -> String {
        let (mut a, mut b) = (r.between(self.low, self.high), r.between(self.low, self.high));
        if a > b && !(self.wraps && r.percent(50)) {
            (a, b) = (b, a);
        }
        format!("{}-{}", self.word(a, r), self.word(b, r))
    }

    fn step(&self, r: &mut OracleRandom) -> i64 {
        let size = self.high - self.low + 1;
        if r.percent(80) { r.between(1 + size / 6, 1 + size / 2) } else { r.between(1, size) }
    }

    fn part(&self, r: &mut OracleRandom) -> String {
        let step = self.step(r);
        match r.between(0, 99) {
            0..50 => self.number(r),
            50..53 if self.high < 1000 => "H".to_owned(),
            53..56 if self.high < 1000 => format!("H/{step}"),
            56..59 if self.high < 1000 => {
                let (a, b) = (r.between(self.low, self.high), r.between(self.low, self.high));
                let step = if r.percent(50) { format!("/{step}") } else { String::new() };
                format!("H({}-{}){step}", a.min(b), a.max(b))
            }
            50..60 => self.number(r),
            60..78 => self.range(r),
            78..86 => format!("{}/{step}", self.range(r)),
            86..92 => format!("*/{step}"),
            92..97 if self.quartz => format!("{}/{step}", self.number(r)),
            97..99 if self.quartz => format!("/{step}"),
            _ => self.number(r),
        }
    }

    fn list(&self, r: &mut OracleRandom, longest: i64) -> String {
        let n = if r.percent(70) { 1 } else { r.between(1, longest) };
        (0..n).map(|_| self.part(r)).collect::<Vec<_>>().join(",")
    }
}

/// What a job says of its times, at random.
#[derive(Clone)]
pub(crate) struct OracleSpec {
    pub(crate) name: String,
    /// The rules as text.
    pub(crate) texts: Vec<String>,
    /// How each is to be read.
    pub(crate) rules: Vec<OracleRule>,
    pub(crate) dst: Option<OracleDst>,
    /// Bounds as text, and the instants they are.
    pub(crate) from: Option<(String, i64)>,
    pub(crate) until: Option<(String, i64)>,
    /// In seconds.
    pub(crate) jitter: Option<i64>,
    /// Calendars that leave fires out.
    pub(crate) closing: Vec<OracleCalendar>,
}

impl OracleSpec {
    /// Something for a zone, with moments near this instant, and maybe about what a clock change skips or repeats.
    pub(crate) fn of(r: &mut OracleRandom, zone: &OracleZone, near: i64, change: Option<i64>) -> Self {
        let name = format!("job-{}", r.between(0, 9_999));
        let count = if r.percent(85) { 1 } else { r.between(2, 4) };
        let (texts, rules): (Vec<String>, Vec<OracleRule>) =
            (0..count).map(|_| rule(r, &name, zone, (near, change))).unzip();
        let dst = [
            None,
            None,
            None,
            None,
            Some(OracleDst::Skip),
            Some(OracleDst::Shift),
            Some(OracleDst::Once),
            Some(OracleDst::Twice),
        ];
        let dst = *r.pick(&dst);
        let bound = |r: &mut OracleRandom, near| {
            if r.percent(50) {
                return moment(r, zone, near);
            }
            // On a fire, where it matters on which side of it the bound is.
            let fires = clock::fires(&rules, zone, dst, near - 3 * 86_400, near + 3 * 86_400, 20);
            let at = if fires.is_empty() { near } else { *r.pick(&fires) };
            (format!("{}Z", written(at)), at)
        };
        let from = r.percent(8).then(|| bound(r, near - 86_400));
        let until = r.percent(8).then(|| bound(r, near + 5 * 86_400));
        let jitter =
            r.percent(8).then(|| if r.percent(50) { r.between(1, 600) } else { r.between(1, 86_400) });
        let calendars = if r.percent(15) { r.between(1, 3) } else { 0 };
        let closing = (0..calendars).map(|_| OracleCalendar::of(r, near)).collect();
        Self { name, texts, rules, dst, from, until, jitter, closing }
    }

    /// All that a schedule is told.
    pub(crate) fn words(&self) -> String {
        let Self { name, texts, rules: _, dst, from, until, jitter, closing } = self;
        format!("{:?}", (name, texts, dst, from, until, jitter, closing))
    }
}

fn rule(
    r: &mut OracleRandom,
    name: &str,
    zone: &OracleZone,
    (near, change): (i64, Option<i64>),
) -> (String, OracleRule) {
    match r.between(0, 19) {
        0 => {
            let period = if r.percent(50) { r.between(1, 90) * 60 } else { r.between(600, 90_000) };
            let phase = if r.percent(50) { r.between(0, period - 1) } else { 0 };
            let offset =
                if phase == 0 { String::new() } else { format!(" offset {}m{}s", phase / 60, phase % 60) };
            (format!("@every {period}s{offset}"), OracleRule::Every(period, phase))
        }
        1 => {
            let (text, at) = moment(r, zone, near);
            (format!("at {text}"), OracleRule::Once(at))
        }
        _ => {
            let odd = change.filter(|_| r.percent(20)).map(|change| odd_time(r, zone, change));
            let text = line(r, odd);
            let rule = OracleRule::Line(OracleLine::read(&text, &|field| hash(name, field)));
            let dialect = if text.split(' ').count() == 5 { "vixie: " } else { "quartz:" };
            (if r.percent(10) { format!("{dialect}{text}") } else { text }, rule)
        }
    }
}

/// A moment within three days of an instant, local to the zone or in UTC.
fn moment(r: &mut OracleRandom, zone: &OracleZone, near: i64) -> (String, i64) {
    let at = near + r.between(-3 * 86_400, 3 * 86_400);
    let text = written(at);
    if r.percent(50) { (format!("{text}Z"), at) } else { (text, clock::moment(zone, at)) }
}

/// Seconds since 1970-01-01T00:00:00 as a date and a time.
fn written(at: i64) -> String {
    let (year, month, day) = date(at.div_euclid(86_400));
    let time = at.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", time / 3600, time / 60 % 60, time % 60)
}

/// A local time of day that a clock change skips or repeats, or just beside it.
fn odd_time(r: &mut OracleRandom, zone: &OracleZone, change: i64) -> i64 {
    let (before, after) = (zone.offset(change - 1), zone.offset(change));
    (change + r.between(before.min(after), before.max(after))).rem_euclid(86_400)
}

/// A random cron line, about this time of day if there is one.
fn line(r: &mut OracleRandom, at: Option<i64>) -> String {
    let text = if r.percent(55) { vixie(r) } else { quartz(r) };
    let Some(at) = at else { return text };
    let mut fields: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let minute = usize::from(fields.len() > 5);
    (fields[minute], fields[minute + 1]) = ((at / 60 % 60).to_string(), (at / 3600).to_string());
    fields.join(" ")
}

fn star_or(r: &mut OracleRandom, stars: i64, other: impl FnOnce(&mut OracleRandom) -> String) -> String {
    if r.percent(stars) { "*".to_owned() } else { other(r) }
}

fn vixie(r: &mut OracleRandom) -> String {
    let minute = star_or(r, 5, |r| OracleField::of(0, 59, &[], false).list(r, 4));
    let hour = star_or(r, 25, |r| OracleField::of(0, 23, &[], false).list(r, 5));
    let day = star_or(r, 65, |r| OracleField::of(1, 31, &[], false).list(r, 4));
    let month = star_or(r, 75, |r| OracleField::of(1, 12, MONTHS, false).list(r, 4));
    let weekday = star_or(r, 65, |r| OracleField::of(0, 7, &WEEKDAYS[..7], false).list(r, 3));
    format!("{minute} {hour} {day} {month} {weekday}")
}

fn quartz(r: &mut OracleRandom) -> String {
    let second = match r.between(0, 99) {
        0..60 => "0".to_owned(),
        60..85 => r.between(0, 59).to_string(),
        85..90 => "*".to_owned(),
        _ => OracleField::of(0, 59, &[], true).list(r, 3),
    };
    let minute = star_or(r, 5, |r| OracleField::of(0, 59, &[], true).list(r, 3));
    let hour = star_or(r, 20, |r| OracleField::of(0, 23, &[], true).list(r, 4));
    let month = star_or(r, 75, |r| OracleField::of(1, 12, MONTHS, true).list(r, 4));
    let free = *r.pick(&["*", "?"]);
    let (day, weekday) = match r.between(0, 2) {
        0 => (free.to_owned(), if free == "*" { "?" } else { "*" }.to_owned()),
        1 => (month_days(r), free.to_owned()),
        _ => (free.to_owned(), weekdays(r)),
    };
    let year = match r.between(0, 9) {
        0 => format!(" {}", OracleField::of(1970, 2099, &[], true).range(r)),
        1 => " *".to_owned(),
        _ => String::new(),
    };
    format!("{second} {minute} {hour} {day} {month} {weekday}{year}")
}

fn month_days(r: &mut OracleRandom) -> String {
    let n = if r.percent(70) { 1 } else { r.between(1, 3) };
    let part = |r: &mut OracleRandom| match r.between(0, 9) {
        0 => "L".to_owned(),
        1 => format!("L-{}", r.between(0, 30)),
        2 => "LW".to_owned(),
        3 => format!("L-{}w", r.between(0, 30)),
        4..6 => format!("{}W", r.between(1, 31)),
        _ => OracleField::of(1, 31, &[], true).part(r),
    };
    (0..n).map(|_| part(r)).collect::<Vec<_>>().join(",")
}

fn weekdays(r: &mut OracleRandom) -> String {
    let field = OracleField::of(1, 7, WEEKDAYS, true);
    let n = if r.percent(70) { 1 } else { r.between(1, 3) };
    let part = |r: &mut OracleRandom| match r.between(0, 9) {
        0 => "l".to_owned(),
        1..3 => format!("{}L", field.number(r)),
        3..6 => format!("{}#{}", field.number(r), r.between(1, 5)),
        _ => field.part(r),
    };
    (0..n).map(|_| part(r)).collect::<Vec<_>>().join(",")
}
