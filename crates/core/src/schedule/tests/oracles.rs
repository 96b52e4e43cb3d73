//! Random schedules against three judges that share no code with ours: a matcher that looks at every minute, the zone
//! database asked minute by minute, and the crate `croner`.

use super::*;
use alloc::boxed::Box;
use alloc::vec;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use proptest::prelude::*;
use proptest::sample::select;

/// One part of a field, as a tester writes it down.
#[derive(Clone, Debug)]
enum Part {
    All,
    Step(i64),
    One(i64),
    Range(i64, i64, i64),
    /// Quartz: from a number to the field's end.
    Open(i64, i64),
    Last(i64),
    Near(i64),
    LastNear,
    LastOf(i64),
    Nth(i64, i64),
}

/// A cron line as a tester writes it down; a field is a list of parts.
#[derive(Clone, Debug)]
struct Line {
    quartz: bool,
    second: Vec<Part>,
    minute: Vec<Part>,
    hour: Vec<Part>,
    dom: Vec<Part>,
    month: Vec<Part>,
    dow: Vec<Part>,
}

impl Part {
    fn text(&self) -> String {
        match *self {
            Part::All => "*".into(),
            Part::Step(n) => format!("*/{n}"),
            Part::One(n) => format!("{n}"),
            Part::Range(a, b, 1) => format!("{a}-{b}"),
            Part::Range(a, b, n) => format!("{a}-{b}/{n}"),
            Part::Open(a, n) => format!("{a}/{n}"),
            Part::Last(0) => "L".into(),
            Part::Last(n) => format!("L-{n}"),
            Part::Near(n) => format!("{n}W"),
            Part::LastNear => "LW".into(),
            Part::LastOf(d) => format!("{d}L"),
            Part::Nth(d, n) => format!("{d}#{n}"),
        }
    }

    /// Whether a plain number is meant, in a field that begins at `min`.
    fn means(&self, n: i64, min: i64) -> bool {
        match *self {
            Part::All => true,
            Part::Step(step) => (n - min) % step == 0,
            Part::One(one) => n == one,
            Part::Range(a, b, step) if a <= b => n >= a && n <= b && (n - a) % step == 0,
            Part::Open(a, step) => n >= a && (n - a) % step == 0,
            _ => false,
        }
    }

    fn means_day(&self, date: Date) -> bool {
        let last = i64::from(date.days_in_month());
        let day = i64::from(date.day());
        let nearest = |wanted: i64| {
            // Look at the weekdays of the month by their distance, the earlier one first.
            (1..=last)
                .filter(|d| {
                    let weekday = date.with().day(*d as i8).build().unwrap().weekday().to_monday_one_offset();
                    weekday <= 5
                })
                .min_by_key(|d| ((d - wanted).abs(), *d))
        };
        match *self {
            Part::Last(before) => day == last - before,
            Part::Near(wanted) => wanted <= last && nearest(wanted) == Some(day),
            Part::LastNear => nearest(last) == Some(day),
            _ => self.means(day, 1),
        }
    }

    /// `sunday` is the number that stands for Sunday here.
    fn means_weekday(&self, date: Date, sunday: i64) -> bool {
        let weekday = i64::from(date.weekday().to_sunday_zero_offset()) + sunday;
        let day = i64::from(date.day());
        match *self {
            Part::LastOf(d) => weekday == d && day + 7 > i64::from(date.days_in_month()),
            Part::Nth(d, n) => weekday == d && (day + 6) / 7 == n,
            // In Vixie cron Sunday is 7, too.
            _ => self.means(weekday, sunday) || (sunday == 0 && weekday == 0 && self.means(7, 0)),
        }
    }
}

impl Line {
    fn text(&self) -> String {
        let field = |parts: &[Part]| parts.iter().map(Part::text).collect::<Vec<_>>().join(",");
        let [second, minute, hour] = [&self.second, &self.minute, &self.hour].map(|f| field(f));
        let [dom, month, dow] = [&self.dom, &self.month, &self.dow].map(|f| field(f));
        match self.quartz {
            true => format!("{second} {minute} {hour} {dom} {month} {dow}"),
            false => format!("{minute} {hour} {dom} {month} {dow}"),
        }
    }

    fn matches(&self, t: DateTime) -> bool {
        let field = |parts: &[Part], n: i8, min| parts.iter().any(|p| p.means(i64::from(n), min));
        let dom = self.dom.iter().any(|p| p.means_day(t.date()));
        let dow = self.dow.iter().any(|p| p.means_weekday(t.date(), i64::from(self.quartz)));
        let star = |parts: &[Part]| matches!(parts[0], Part::All | Part::Step(_));
        let day = if self.quartz || star(&self.dom) || star(&self.dow) { dom && dow } else { dom || dow };
        let second = if self.quartz { field(&self.second, t.second(), 0) } else { t.second() == 0 };
        let time = second && field(&self.minute, t.minute(), 0) && field(&self.hour, t.hour(), 0);
        time && field(&self.month, t.month(), 1) && day
    }

    /// Whether the line says "every so often".
    fn every(&self) -> bool {
        let star = |parts: &[Part]| matches!(parts[0], Part::All | Part::Step(_));
        let open =
            |parts: &[Part]| parts.iter().any(|p| matches!(p, Part::All | Part::Step(_) | Part::Open(..)));
        match self.quartz {
            true => open(&self.second) || open(&self.minute) || open(&self.hour),
            false => star(&self.minute) || star(&self.hour),
        }
    }

    /// `croner` counts a day field as free only when it is a plain `*`, takes no `*` in a list, and has no `L-3`.
    fn croner_agrees(&self) -> bool {
        let plain = |parts: &[Part]| matches!(parts, [Part::All]);
        let all = [&self.second, &self.minute, &self.hour, &self.dom, &self.month, &self.dow];
        if all.iter().any(|parts| !plain(parts) && parts.iter().any(|p| matches!(p, Part::All))) {
            return false;
        }
        let odd = |p: &Part| matches!(p, Part::All | Part::Step(_));
        let starry = |parts: &[Part]| !plain(parts) && parts.iter().any(odd);
        let far = |p: &Part| matches!(p, Part::Last(1..));
        !self.dom.iter().any(far)
            && (plain(&self.dom) || plain(&self.dow) || !(starry(&self.dom) || starry(&self.dow)))
            // It keeps one flag for `L` and one for `W`, so a list that has both means something else there.
            && (self.dom.len() == 1 || !self.dom.iter().any(|p| matches!(p, Part::Last(_) | Part::LastNear)))
    }
}

fn part(min: i64, max: i64, quartz: bool) -> BoxedStrategy<Part> {
    let range = (min..=max, min..=max, 1..=4_i64).prop_map(|(a, b, n)| Part::Range(a.min(b), a.max(b), n));
    let one = (min..=max).prop_map(Part::One);
    let open = (min..=max, 2..=20_i64.min(max)).prop_map(|(a, n)| Part::Open(a, n));
    let step = (2..=20_i64.min(max)).prop_map(Part::Step);
    match quartz {
        true => prop_oneof![2 => Just(Part::All), 2 => step, 4 => one, 3 => range, 2 => open].boxed(),
        false => prop_oneof![2 => Just(Part::All), 2 => step, 4 => one, 3 => range].boxed(),
    }
}

fn field(part: BoxedStrategy<Part>) -> BoxedStrategy<Vec<Part>> {
    prop_oneof![3 => Just(vec![Part::All]), 5 => prop::collection::vec(part, 1..=3)].boxed()
}

fn vixie() -> BoxedStrategy<Line> {
    let of = |min, max| field(part(min, max, false));
    (of(0, 59), of(0, 23), of(1, 31), of(1, 12), of(0, 7))
        .prop_map(|(minute, hour, dom, month, dow)| Line {
            quartz: false,
            second: vec![Part::One(0)],
            minute,
            hour,
            dom,
            month,
            dow,
        })
        .boxed()
}

fn quartz() -> BoxedStrategy<Line> {
    let of = |min, max| field(part(min, max, true));
    let dom = prop_oneof![
        4 => part(1, 31, true),
        1 => (0..=30_i64).prop_map(Part::Last),
        1 => Just(Part::Last(0)),
        1 => (1..=31_i64).prop_map(Part::Near),
        1 => Just(Part::LastNear),
    ];
    let dow = prop_oneof![
        4 => part(1, 7, true),
        1 => (1..=7_i64).prop_map(Part::LastOf),
        1 => (1..=7_i64, 1..=5_i64).prop_map(|(d, n)| Part::Nth(d, n)),
    ];
    let days = prop_oneof![
        prop::collection::vec(dom, 1..=3).prop_map(|dom| (dom, vec![Part::All])),
        prop::collection::vec(dow, 1..=3).prop_map(|dow| (vec![Part::All], dow)),
    ];
    (of(0, 59), of(0, 59), of(0, 23), days, of(1, 12))
        .prop_map(|(second, minute, hour, (dom, dow), month)| Line {
            quartz: true,
            second,
            minute,
            hour,
            dom,
            month,
            dow,
        })
        .boxed()
}

fn line() -> BoxedStrategy<Line> {
    prop_oneof![vixie(), quartz()].boxed()
}

/// Seconds between 1990 and 2060.
fn moment() -> impl Strategy<Value = i64> {
    631_152_000..2_840_140_800_i64
}

/// The schedule of a line, unless it was rightly refused because it never fires.
fn schedule(line: &Line, zone: &str) -> Option<Schedule> {
    match Schedule::parse(&line.text(), zone) {
        Ok(schedule) => Some(schedule),
        Err(error) => {
            assert!(error.to_string().contains("never fires"), "{}: {error}", line.text());
            None
        }
    }
}

fn cases(n: u32) -> ProptestConfig {
    ProptestConfig { cases: n.max(ProptestConfig::default().cases), ..ProptestConfig::default() }
}

/// Every fire of `line` in `from..until` (seconds), found by looking at every `step` seconds of the clock.
fn looked_up(line: &Line, zone: &TimeZone, from: i64, until: i64, step: usize) -> Vec<i64> {
    let datetime = |local: i64| Offset::UTC.to_datetime(Timestamp::from_second(local).unwrap());
    let mut found = Vec::new();
    if line.every() {
        for t in (from..until).step_by(step) {
            if line.matches(zone.to_datetime(Timestamp::from_second(t).unwrap())) {
                found.push(t);
            }
        }
        return found;
    }
    for local in (from - zone::REACH..until + zone::REACH).step_by(step) {
        if !line.matches(datetime(local)) {
            continue;
        }
        found.push(match zone.to_ambiguous_timestamp(datetime(local)).offset() {
            AmbiguousOffset::Unambiguous { offset } => local - i64::from(offset.seconds()),
            AmbiguousOffset::Fold { before, .. } => local - i64::from(before.seconds()),
            AmbiguousOffset::Gap { before, .. } => {
                let after_gap = Timestamp::from_second(local - i64::from(before.seconds()) + 1).unwrap();
                zone.preceding(after_gap).next().unwrap().timestamp().as_second()
            }
        });
    }
    found.retain(|t| (from..until).contains(t));
    found.dedup();
    found
}

/// Ours, the same way.
fn computed(schedule: &Schedule, from: i64, until: i64) -> Vec<i64> {
    core::iter::successors(schedule.next(Wall(from * 1000 - 1)), |t| schedule.next(*t))
        .map(|t| t.0 / 1000)
        .take_while(|t| *t < until)
        .collect()
}

/// Names of zones that change their clocks, with the moments of their changes since 1960.
fn changes() -> Vec<(String, i64)> {
    let mut all = Vec::new();
    for name in TimeZoneDatabase::bundled().available() {
        let zone = TimeZoneDatabase::bundled().get(name.as_str()).unwrap();
        let since = zone.following("1960-01-01T00:00:00Z".parse().unwrap()).take(160);
        all.extend(since.map(|change| (name.as_str().to_string(), change.timestamp().as_second())));
    }
    all
}

proptest! {
    #![proptest_config(cases(400))]

    /// Ours against a matcher that looks at every minute of six weeks (Quartz: every second of half a day).
    #[test]
    fn same_fires_as_looking_at_every_moment(line in line(), from in moment()) {
        let Some(schedule) = schedule(&line, "") else { return Ok(()) };
        let (from, until, step) = match line.quartz {
            true => (from, from + 43_200, 1),
            false => (from - from % 60, from - from % 60 + 42 * 86_400, 60),
        };
        let expected = looked_up(&line, &TimeZone::UTC, from, until, step);
        prop_assert_eq!(computed(&schedule, from, until), expected, "{}", line.text());
    }

    /// The days of three years, for lines whose time of day is one fixed second.
    #[test]
    fn same_days_as_looking_at_every_day(line in line(), from in moment()) {
        let noon = Line { second: vec![Part::One(0)], minute: vec![Part::One(0)], hour: vec![Part::One(12)], ..line };
        let from = from - from % 86_400 + 43_200;
        let until = from + 3 * 366 * 86_400;
        let expected = looked_up(&noon, &TimeZone::UTC, from, until, 86_400);
        match schedule(&noon, "") {
            Some(schedule) => prop_assert_eq!(computed(&schedule, from, until), expected, "{}", noon.text()),
            None => prop_assert!(expected.is_empty(), "{}", noon.text()),
        }
    }

    /// `latest` is the last of the fires that `next` walks through.
    #[test]
    fn latest_is_where_next_arrives(line in vixie(), from in moment(), days in 0..20_i64, ms in 0..1000_i64) {
        let Some(schedule) = schedule(&line, "Europe/Berlin") else { return Ok(()) };
        let (after, until) = (Wall(from * 1000 + ms), Wall((from + days * 86_400) * 1000));
        let walked = core::iter::successors(schedule.next(after), |t| schedule.next(*t))
            .take_while(|t| *t <= until)
            .last();
        prop_assert_eq!(schedule.latest(after, until), walked, "{}", line.text());
    }

    /// Any text is a schedule or an error, and whatever is a schedule answers.
    #[test]
    fn no_text_panics(text in any_text(), zone in select(&["", "Europe/Berlin", "Pacific/Apia"]), after in any::<i64>()) {
        if let Ok(schedule) = Schedule::parse(&text, zone) {
            let next = schedule.next(Wall(after));
            prop_assert!(next.is_none_or(|due| due > Wall(after)));
            let latest = schedule.latest(Wall(after), Wall::MAX);
            prop_assert_eq!(latest.is_some(), next.is_some());
        }
    }
}

/// Texts that look like schedules more or less.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9*/,?LW#a-zA-Z-]{1,8}( [0-9*/,?LW#-]{1,6}){3,7}",
        "([*]|[0-9]{1,2}|[*]/[0-9]|[0-9]-[0-9]{1,2}|[0-9]W|L|[1-7]#[1-6]|[?])( ([*]|[0-9]{1,2}|[?]|L(-[0-9])?|[1-7]L)){4,6}",
        "@[a-z]{0,8} ?[0-9a-z]{0,12}",
        "at [-0-9T:Z+. ]{0,30}",
    ]
}

/// Around real clock changes of every zone, ours against the zone database asked minute by minute.
///
/// proves: I17
#[test]
fn same_fires_around_every_kind_of_clock_change() {
    let changes: &'static [(String, i64)] = Box::leak(changes().into_boxed_slice());
    let config = cases(600);
    proptest!(config, |((zone, at) in select(changes), line in vixie(), start in 1..1_500_i64)| {
        let Some(schedule) = schedule(&line, &zone) else { return Ok(()) };
        let tz = TimeZoneDatabase::bundled().get(&zone).unwrap();
        // Old offsets have odd seconds; minutes of the clock and of UTC must coincide to walk by minutes.
        let odd = |t| tz.to_offset(Timestamp::from_second(t).unwrap()).seconds() % 60 != 0;
        prop_assume!(!odd(at - 1) && !odd(at));
        let (from, until) = (at - at % 60 - start * 60, at - at % 60 + 2 * 86_400);
        let expected = looked_up(&line, &tz, from, until, 60);
        prop_assert_eq!(computed(&schedule, from, until), expected, "{} in {} at {}", line.text(), zone, at);
    });
}

/// The same fires as `croner`, in UTC and in Berlin away from clock changes.
#[test]
fn same_fires_as_croner() {
    let config = cases(3000);
    proptest!(config, |(line in line(), from in moment(), zone in select(&["UTC", "Europe/Berlin"]))| {
        // Two of five lines say the same in both languages.
        if !line.croner_agrees() {
            return Ok(());
        }
        let Some(schedule) = schedule(&line, zone) else { return Ok(()) };
        let cron = CronParser::builder()
            .seconds(if line.quartz { Seconds::Required } else { Seconds::Disallowed })
            .year(Year::Optional)
            .alternative_weekdays(line.quartz)
            .sloppy_ranges(true)
            .build()
            .parse(&line.text())
            .unwrap();
        let tz = TimeZoneDatabase::bundled().get(zone).unwrap();
        let mut now = Timestamp::from_second(from).unwrap();
        for _ in 0..5 {
            let theirs: Zoned = cron.find_next_occurrence(&now.to_zoned(tz.clone()), false).unwrap();
            let around = Timestamp::from_second(now.as_second() - zone::REACH).unwrap();
            let change = tz.following(around).next().map_or(i64::MAX, |c| c.timestamp().as_second());
            if change > theirs.timestamp().as_second() + zone::REACH {
                let ours = schedule.next(Wall(now.as_millisecond()));
                prop_assert_eq!(ours, Some(Wall(theirs.timestamp().as_millisecond())), "{} in {}", line.text(), zone);
            }
            now = theirs.timestamp();
        }
    });
}
