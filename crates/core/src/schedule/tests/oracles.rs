//! Random schedules against three judges that share no code with ours: a matcher that looks at every minute, the zone
//! database asked minute by minute, and the crate `croner`.

use super::cron_lines::{FieldPart, TestCronLine, line, vixie};
use super::*;
use alloc::boxed::Box;
use alloc::vec;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use proptest::prelude::*;
use proptest::sample::select;

/// Seconds between 1990 and 2060.
fn moment() -> impl Strategy<Value = i64> {
    631_152_000..2_840_140_800_i64
}

/// The schedule of a line, unless it was rightly refused because it never fires.
fn schedule(line: &TestCronLine, zone: &str) -> Option<Schedule> {
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
fn looked_up(line: &TestCronLine, zone: &TimeZone, from: i64, until: i64, step: usize) -> Vec<i64> {
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
        let noon = TestCronLine { second: vec![FieldPart::One(0)], minute: vec![FieldPart::One(0)], hour: vec![FieldPart::One(12)], ..line };
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
#[test]
fn same_fires_around_every_kind_of_clock_change() {
    let changes: &'static [(String, i64)] = Box::leak(changes().into_boxed_slice());
    let config = cases(600);
    proptest!(config, |((zone, at) in select(changes), line in line(), start in 1..1_500_i64)| {
        let line = TestCronLine { second: vec![FieldPart::One(0)], month: vec![FieldPart::All], ..line };
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
