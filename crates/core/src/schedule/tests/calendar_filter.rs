//! Schedules under calendars.

use super::*;
use crate::calendar::Calendar;
use alloc::vec;

/// A calendar of one line of each kind, empty lines left out.
fn named(name: &str, days: &[&str], weekdays: &[&str], windows: &[&str]) -> (CalendarName, Arc<LocalTimes>) {
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let mut calendar = Calendar::new(name.parse().unwrap());
    (calendar.days, calendar.weekdays, calendar.windows) = (owned(days), owned(weekdays), owned(windows));
    let times = calendar.read().unwrap();
    (calendar.name, Arc::new(times))
}

use crate::calendar::LocalTimes;
use crate::ids::CalendarName;

fn days(schedule: &Schedule, after: &str, n: usize) -> Vec<String> {
    fires(schedule, wall(after), n).iter().map(|due| due.to_string().replace(":00.000Z", "")).collect()
}

#[test]
fn each_calendar_takes_fires_away() {
    let weekend = named("weekend", &[], &["sat", "sun"], &[]);
    let holidays = named("holidays", &["12-25..12-26"], &[], &[]);
    let hours = named("hours", &[], &[], &["09:00..17:00"]);
    let open = parsed("0 */8 * * *", "Europe/Berlin");
    let shut = open.clone().under(CalendarFilter::new(vec![weekend.clone(), holidays], vec![hours]));
    assert_eq!(
        days(&shut, "2026-12-22T12:00:00Z", 4),
        ["2026-12-22T15:00", "2026-12-23T15:00", "2026-12-24T15:00", "2026-12-28T15:00"],
        "16:00 in Berlin, on no Saturday nor Sunday, and not at Christmas"
    );
    assert_ne!(open, shut, "calendars are part of the schedule");
    assert_eq!(open.clone().under(CalendarFilter::default()), open);
    let never = open.under(CalendarFilter::new(vec![weekend.clone()], vec![weekend]));
    assert_eq!(never.next(wall("2026-12-22T12:00:00Z")), None);
}

#[test]
fn the_clock_that_people_see_decides_also_when_it_is_changed() {
    // 02:30 does not exist that day: it is due at 03:00, and that is closed.
    let third = named("third", &[], &[], &["03:00..04:00"]);
    let skipped = parsed("30 2 * * *", "Europe/Berlin").under(CalendarFilter::new(vec![third], vec![]));
    assert_eq!(days(&skipped, "2026-03-28T00:00:00Z", 2), ["2026-03-28T01:30", "2026-03-30T00:30"]);
    // 02:00 to 03:00 is shown twice, and is closed twice.
    let second = named("second", &[], &[], &["02:00..03:00"]);
    let often =
        parsed("*/30 * * * *", "Europe/Berlin").under(CalendarFilter::new(vec![second.clone()], vec![]));
    assert_eq!(days(&often, "2026-10-24T23:00:00Z", 2), ["2026-10-24T23:30", "2026-10-25T02:00"]);
    let within = parsed("*/30 * * * *", "Europe/Berlin").under(CalendarFilter::new(vec![], vec![second]));
    assert_eq!(
        days(&within, "2026-10-24T12:00:00Z", 5),
        ["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-26T01:00"]
    );
}

#[test]
fn a_jitter_moves_what_the_calendar_left_and_no_change_of_it_moves_others() {
    let times = ScheduleSpec { text: "0 * * * *", name: "j", jitter: "1h", ..ScheduleSpec::default() };
    let open = Schedule::read(&times).unwrap();
    let night = named("night", &[], &[], &["18:00..09:00"]);
    let shut = open.clone().under(CalendarFilter::new(vec![night], vec![]));
    let from = wall("2026-12-22T12:00:00Z");
    let all = fires(&open, from, 60);
    let some = fires(&shut, from, 20);
    assert!(some.iter().all(|due| all.contains(due)), "{some:?} are among {all:?}");
    let hours: Vec<i64> = some.iter().map(|due| due.0 / 3_600_000 % 24).collect();
    assert!(hours.iter().all(|hour| (9..18).contains(hour)), "{hours:?}");
    assert_eq!(shut.latest(from, *some.last().unwrap()), some.last().copied());
}

#[test]
fn a_long_closure_is_jumped_over_and_a_search_without_end_is_given_up() {
    let ten_years = named("ten-years", &[], &[], &["2026-01-01T00:00..2036-01-01T00:00"]);
    let second = parsed("@every 1s", "Europe/Berlin").under(CalendarFilter::new(vec![ten_years], vec![]));
    assert_eq!(days(&second, "2026-06-01T00:00:00Z", 1), ["2035-12-31T23:00"]);
    let noon = named("noon", &[], &[], &["12:00..13:00"]);
    for shut in [
        parsed("30 12 * * *", "Europe/Berlin").under(CalendarFilter::new(vec![noon.clone()], vec![])),
        parsed("30 3 * * *", "Europe/Berlin").under(CalendarFilter::new(vec![], vec![noon])),
    ] {
        assert_eq!(shut.next(wall("2026-06-01T00:00:00Z")), None);
    }
    let never = named("never", &["01-01..12-31"], &[], &[]);
    let shut = parsed("@every 1s", "Europe/Berlin").under(CalendarFilter::new(vec![never], vec![]));
    assert_eq!(shut.next(wall("2026-06-01T00:00:00Z")), None);
}

#[test]
fn what_was_left_out_is_told_at_the_next_fire() {
    let holidays = named("de-holidays", &["12-25", "12-26"], &[], &[]);
    let week = named("week", &[], &["mon-fri"], &[]);
    let daily = parsed("30 2 * * *", "Europe/Berlin");
    let told = |schedule: &Schedule, due: &str| schedule.notes(wall(due));
    let one = daily.clone().under(CalendarFilter::new(vec![holidays.clone()], vec![]));
    assert_eq!(told(&one, "2026-12-25T01:30:00Z"), Vec::<String>::new());
    assert_eq!(
        told(&one, "2026-12-27T01:30:00Z"),
        ["2 left out from 2026-12-25 02:30 on: closed by de-holidays"]
    );
    let both = daily.under(CalendarFilter::new(vec![holidays], vec![week.clone()]));
    assert_eq!(
        told(&both, "2026-12-28T01:30:00Z"),
        ["3 left out from 2026-12-25 02:30 on: closed by de-holidays, outside week"]
    );
    let often = parsed("@every 1s", "").under(CalendarFilter::new(vec![], vec![week]));
    assert_eq!(
        told(&often, "2026-12-28T00:00:00Z"),
        ["more than 1000 left out from 2026-12-26 00:00 on: outside week"]
    );
    let friday = named("friday", &[], &["fri"], &[]);
    let weekdays = parsed("0 12 * * 1-5", "").under(CalendarFilter::new(vec![friday], vec![]));
    assert_eq!(told(&weekdays, "2026-12-28T12:00:00Z"), ["2026-12-25 12:00 left out: closed by friday"]);
}
