//! Tests of schedules by examples.

mod calendar_filter;
mod clock_changes;
mod cost;
mod cron_lines;
mod declaration;
mod oracles;
mod page;

use super::*;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use jiff::tz::TimeZoneDatabase;

/// A moment from RFC 3339.
fn wall(text: &str) -> Wall {
    Wall(text.parse::<Timestamp>().unwrap().as_millisecond())
}

fn parsed(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, zone).unwrap_or_else(|e| panic!("{text:?} in {zone:?}: {e}"))
}

/// The first `n` fires after `after`.
fn fires(schedule: &Schedule, after: Wall, n: usize) -> Vec<Wall> {
    core::iter::successors(schedule.next(after), |t| schedule.next(*t)).take(n).collect()
}

/// The next fires as local times with their offset, such as `2026-03-29T03:00+02:00`, seconds only when there are any.
fn shown(text: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
    let tz = TimeZoneDatabase::bundled().get(if zone.is_empty() { "UTC" } else { zone }).unwrap();
    let local = |t: Wall| {
        let t = Timestamp::from_millisecond(t.0).unwrap();
        let offset = tz.to_offset(t);
        let text = format!("{}", t.display_with_offset(offset));
        text.replacen(":00+", "+", 1).replacen(":00-", "-", 1)
    };
    fires(&parsed(text, zone), wall(after), n).into_iter().map(local).collect()
}

#[test]
fn five_fields_are_vixie_cron() {
    let cases: &[(&str, &[&str])] = &[
        ("*/20 * * * *", &["2026-01-15T12:20+00:00", "2026-01-15T12:40+00:00", "2026-01-15T13:00+00:00"]),
        ("5,3-4 7 * * *", &["2026-01-16T07:03+00:00", "2026-01-16T07:04+00:00", "2026-01-16T07:05+00:00"]),
        ("1-30/20 0 * jan,Mar *", &["2026-01-16T00:01+00:00", "2026-01-16T00:21+00:00"]),
        ("0 0 * * 7", &["2026-01-18T00:00+00:00", "2026-01-25T00:00+00:00"]),
        ("0 0 * * 0", &["2026-01-18T00:00+00:00"]),
        ("0 0 * * sat-7", &["2026-01-17T00:00+00:00", "2026-01-18T00:00+00:00", "2026-01-24T00:00+00:00"]),
        ("0 0 29 2 *", &["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
        ("007 00 * * *", &["2026-01-16T00:07+00:00"]),
        ("  0\t0  1 *  * ", &["2026-02-01T00:00+00:00"]),
        ("*/60 */24 */31 */12 */8", &["2028-01-01T00:00+00:00"][..0]),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(text, "", "2026-01-15T12:00:00Z", expected.len()), *expected, "{text}");
    }
}

/// Vixie's rule: two restricted day fields OR, but a field that begins with `*` counts as not restricted.
#[test]
fn the_two_day_fields_or_unless_one_begins_with_a_star() {
    let days = |text| -> Vec<String> {
        shown(text, "", "2026-01-01T12:00:00Z", 4).iter().map(|t| t[5..10].to_string()).collect()
    };
    assert_eq!(days("0 0 13 * 5"), ["01-02", "01-09", "01-13", "01-16"]);
    assert_eq!(days("0 0 13 * *"), ["01-13", "02-13", "03-13", "04-13"]);
    assert_eq!(days("0 0 * * 5"), ["01-02", "01-09", "01-16", "01-23"]);
    assert_eq!(days("0 0 */2 * 1"), ["01-05", "01-19", "02-09", "02-23"], "odd days AND Mondays");
    assert_eq!(days("0 0 1-7 * */7"), ["01-04", "02-01", "03-01", "04-05"], "first week AND Sundays");
}

#[test]
fn six_and_seven_fields_are_quartz() {
    let cases: &[(&str, &[&str])] = &[
        ("0/20 5 * * * ?", &["2026-01-15T12:05+00:00", "2026-01-15T12:05:20+00:00"]),
        ("0 5/25 * * * ?", &["2026-01-15T12:05+00:00", "2026-01-15T12:30+00:00", "2026-01-15T12:55+00:00"]),
        ("0 /30 * * * ?", &["2026-01-15T12:30+00:00", "2026-01-15T13:00+00:00"]),
        ("0 0 22-2/2 * * ?", &["2026-01-15T22:00+00:00", "2026-01-16T00:00+00:00", "2026-01-16T02:00+00:00"]),
        (
            "0 0 0 ? * FRI-MON",
            &[
                "2026-01-16T00:00+00:00",
                "2026-01-17T00:00+00:00",
                "2026-01-18T00:00+00:00",
                "2026-01-19T00:00+00:00",
                "2026-01-23T00:00+00:00",
            ],
        ),
        ("0 0 0 ? * 1", &["2026-01-18T00:00+00:00", "2026-01-25T00:00+00:00"]),
        ("0 0 0 * * 7", &["2026-01-17T00:00+00:00"]),
        ("0 0 0 ? * L", &["2026-01-17T00:00+00:00", "2026-01-24T00:00+00:00"]),
        ("0 0 0 L * ?", &["2026-01-31T00:00+00:00", "2026-02-28T00:00+00:00"]),
        ("0 0 0 L-3 * ?", &["2026-01-28T00:00+00:00", "2026-02-25T00:00+00:00"]),
        ("0 0 0 L-30 * ?", &["2026-03-01T00:00+00:00", "2026-05-01T00:00+00:00"]),
        ("0 0 0 LW * ?", &["2026-01-30T00:00+00:00", "2026-02-27T00:00+00:00", "2026-03-31T00:00+00:00"]),
        ("0 0 0 l-1w * ?", &["2026-01-30T00:00+00:00", "2026-02-27T00:00+00:00", "2026-03-30T00:00+00:00"]),
        ("0 0 0 15W * ?", &["2026-02-16T00:00+00:00", "2026-03-16T00:00+00:00", "2026-04-15T00:00+00:00"]),
        ("0 0 0 1W * ?", &["2026-02-02T00:00+00:00", "2026-03-02T00:00+00:00", "2026-04-01T00:00+00:00"]),
        ("0 0 0 29W 2 ?", &["2028-02-29T00:00+00:00", "2032-02-27T00:00+00:00", "2036-02-29T00:00+00:00"]),
        ("0 0 0 31W 1,5 ?", &["2026-01-30T00:00+00:00", "2026-05-29T00:00+00:00"]),
        ("0 0 0 ? * 6L", &["2026-01-30T00:00+00:00", "2026-02-27T00:00+00:00"]),
        ("0 0 0 ? * friL", &["2026-01-30T00:00+00:00"]),
        ("0 0 0 ? * 6#3", &["2026-01-16T00:00+00:00", "2026-02-20T00:00+00:00"]),
        ("0 0 0 ? * 6#5", &["2026-01-30T00:00+00:00", "2026-05-29T00:00+00:00"]),
        ("0 0 0 ? * MON#1,FRIL", &["2026-01-30T00:00+00:00", "2026-02-02T00:00+00:00"]),
        (
            "0 0 0 1,15W,L * *",
            &["2026-01-31T00:00+00:00", "2026-02-01T00:00+00:00", "2026-02-16T00:00+00:00"],
        ),
        (
            "0 0 0 1 1 ? 2030-2099/30",
            &["2030-01-01T00:00+00:00", "2060-01-01T00:00+00:00", "2090-01-01T00:00+00:00"],
        ),
        ("0 0 0 1 1 ? 2028,2027", &["2027-01-01T00:00+00:00", "2028-01-01T00:00+00:00"]),
        ("0 0 0 * * * *", &["2026-01-16T00:00+00:00"]),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(text, "", "2026-01-15T12:00:00Z", expected.len()), *expected, "{text}");
    }
    assert_eq!(parsed("0 0 0 1 1 ? 2025", "").next(wall("2026-01-15T12:00:00Z")), None);
    assert_eq!(parsed("59 59 23 31 12 ? 2099", "").next(Wall(0)), Some(wall("2099-12-31T23:59:59Z")));
}

#[test]
fn names_stand_for_cron_lines() {
    for (name, line) in [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ] {
        let now = wall("2026-03-28T12:34:56Z");
        let zone = "Europe/Berlin";
        assert_eq!(fires(&parsed(name, zone), now, 30), fires(&parsed(line, zone), now, 30), "{name}");
    }
}

#[test]
fn every_counts_from_the_epoch_so_that_all_nodes_agree() {
    let next = |text, after| parsed(text, "").next(Wall(after)).unwrap().0;
    assert_eq!(next("@every 90s", 0), 90_000);
    assert_eq!(next("@every 90s", 89_999), 90_000);
    assert_eq!(next("@every 90s", 90_000), 180_000);
    assert_eq!(next("@every 90s", -1), 0);
    assert_eq!(next("@every 1h30m", 1), 5_400_000);
    assert_eq!(next("@every 1500ms", 1), 1_500);
    assert_eq!(next("@every 366d", 1), 366 * 86_400_000);
    assert_eq!(parsed("@every 1s", "").next(Wall::MAX), None);
    assert!(parsed("@every 1s", "").next(Wall::MIN).is_some());
}

#[test]
fn at_is_one_moment() {
    let at = |text, zone: &str| parsed(text, zone).next(Wall::MIN).unwrap();
    assert_eq!(at("at 2026-01-02T03:04:05Z", "Asia/Tokyo"), wall("2026-01-02T03:04:05Z"));
    assert_eq!(at("at 2026-01-02T03:04:05.250+01:00", ""), wall("2026-01-02T02:04:05.250Z"));
    assert_eq!(at("at  2026-07-02T03:04:05.250", "Europe/Berlin"), wall("2026-07-02T01:04:05.250Z"));
    assert_eq!(at("at 2026-03-29T02:30:00", "Europe/Berlin"), wall("2026-03-29T01:00:00Z"), "in the gap");
    assert_eq!(at("at 2026-10-25T02:30:00", "Europe/Berlin"), wall("2026-10-25T00:30:00Z"), "in the fold");
    let once = parsed("at 2026-01-02T03:04:05Z", "");
    assert_eq!(once.next(wall("2026-01-02T03:04:05Z")), None);
    assert_eq!(once.latest(wall("2026-01-02T03:04:04Z"), Wall::MAX), Some(wall("2026-01-02T03:04:05Z")));
    assert_eq!(once.latest(wall("2026-01-02T03:04:05Z"), Wall::MAX), None);
}

/// Every refusal names the part and says what is allowed.
#[test]
fn refusals_say_what_is_wrong() {
    let cases: &[(&str, &str)] = &[
        ("61 * * * *", "minute field `61`: 61 is outside 0-59"),
        ("* 24 * * *", "hour field `24`: 24 is outside 0-23"),
        ("* * 0 * *", "day-of-month field `0`: 0 is outside 1-31"),
        ("* * * 13 *", "month field `13`: 13 is outside 1-12"),
        ("* * * * 8", "day-of-week field `8`: 8 is outside 0-7"),
        (
            "* * * * mond",
            "day-of-week field `mond`: `mond` is not a number 0-7 or a name SUN-SAT; write `* * * * MON`",
        ),
        ("*/0 * * * *", "minute field `*/0`: step 0 is outside 1-60"),
        ("*/61 * * * *", "minute field `*/61`: step 61 is outside 1-60; `@every 61m` counts on"),
        ("*/ * * * *", "minute field `*/`: step `` is not a number"),
        ("1,,2 * * * *", "minute field `1,,2`: nothing between the commas"),
        (
            &("1,".repeat(256) + "1 * * * *"),
            "minute field `1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,…`: \
            a list has at most 256 parts; write a range such as `1-5`",
        ),
        ("5- * * * *", "minute field `5-`: a number 0-59 is missing"),
        ("5/15 * * * *", "minute field `5/15`: a step needs a range; write `5-59/15`"),
        ("* 22-2 * * *", "hour field `22-2`: `22-2` runs backwards; write `22-23,0-2`"),
        ("* * * * fri-sun", "day-of-week field `fri-sun`: `fri-sun` runs backwards; write `fri-7,0-sun`"),
        (
            "99999999999999999999 * * * *",
            "minute field `99999999999999999999`: `99999999999999999999` is outside 0-59",
        ),
        (
            "٣ * * * *",
            "schedule `٣ * * * *`: it holds the character `٣` (U+0663): only plain ASCII has a meaning here",
        ),
        ("\0 * * * *", "schedule `\\0 * * * *`: it holds a NUL (U+0000): remove it"),
        (
            "* * L * *",
            "day-of-month field `L`: `L` is not a number 1-31; `L`, `W` and `#` need 6 fields, seconds first; write \
             `0 * * L * ?`",
        ),
        (
            "? * * * *",
            "minute field `?`: `?` is for day-of-month and day-of-week in schedules of 6 or 7 fields",
        ),
        ("60 * * * * ?", "second field `60`: 60 is outside 0-59"),
        (
            "0 0 0 ? * 0",
            "day-of-week field `0`: 0 is outside 1-7; with 6 fields Sunday is 1 or SUN, as in Quartz",
        ),
        ("0 0 0 ? * 6#6", "day-of-week field `6#6`: `#` takes a number 1-5, as in `6#3`"),
        ("0 0 0 L-31 * ?", "day-of-month field `L-31`: `L-` takes a number 0-30, as in `L-3`"),
        ("0 0 0 L3 * ?", "day-of-month field `L3`: `L` stands alone or as `L-3`, `LW`"),
        (
            "0 0 0 1-5W * ?",
            "day-of-month field `1-5W`: `W` follows one day, as in `15W`: `1-5` is not a number 1-31",
        ),
        (
            "0 0 0 1 * MON",
            "day-of-month and day-of-week are both set; with 6 or 7 fields one of them must be `?`",
        ),
        (
            "0 0 0 ? * ?",
            "day-of-month and day-of-week are both `?`; only one may be left open, write `*` for the other",
        ),
        ("0 0 0 1 1 ? 1969", "year field `1969`: 1969 is outside 1970-2099"),
        (
            "0 0 0 1 1 ? 2030-2028",
            "year field `2030-2028`: `2030-2028` runs backwards; write `2030-2099,1970-2028`",
        ),
        ("", "the schedule is empty; write for example `0 5 * * *` or `@daily`"),
        (
            "* * *",
            "a schedule has 5 fields (minute hour day-of-month month day-of-week), or 6 or 7 (second first, year \
                  last), not 3",
        ),
        ("@reboot", "`@reboot` is no point in time; start such a job from the host's service manager"),
        (
            "@fortnightly",
            "`@fortnightly` is unknown; write @yearly, @monthly, @weekly, @daily, @hourly, `@every 90s` or `@after 90s`",
        ),
        ("@daily 5", "@daily stands alone, without `5`"),
        ("@every 999ms", "@every `999ms`: the span must be at least 1s and at most 366d"),
        ("@every 367d", "@every `367d`: the span must be at least 1s and at most 366d"),
        (
            "@every 99999999999999999999s",
            "@every `99999999999999999999s`: the span must be at least 1s and at most 366d",
        ),
        ("@every 5", "@every `5`: write numbers with a unit (d, h, m, s or ms), such as `90s` or `1h30m`"),
        ("@every h", "@every `h`: write numbers with a unit (d, h, m, s or ms), such as `90s` or `1h30m`"),
        ("@every", "@every ``: the span is missing, such as `90s` or `1h30m`"),
    ];
    for (text, message) in cases {
        assert_eq!(Schedule::parse(text, "").unwrap_err().to_string(), *message, "{text:?}");
    }
    for text in ["at noon", "at 2026-01-02T03:04:05[Asia/Tokyo]", "at 2026-13-01T00:00:00Z", "at "] {
        let error = Schedule::parse(text, "").unwrap_err().to_string();
        assert!(error.contains("write a time such as") || text == "at ", "{error}");
    }
}

#[test]
fn unknown_zones_are_refused_with_a_way_out() {
    let error = |zone| Schedule::parse("@daily", zone).unwrap_err().to_string();
    let tail = "is not an IANA time zone; write `Area/City`, such as";
    assert_eq!(error("berlin"), "timezone `berlin` is not an IANA time zone; did you mean `Europe/Berlin`?");
    assert_eq!(error("Mars/Base"), format!("timezone `Mars/Base` {tail} `Europe/Berlin` or `UTC`"));
    assert_eq!(error("Etc/Unknown"), format!("timezone `Etc/Unknown` {tail} `Europe/Berlin` or `UTC`"));
    assert_eq!(parsed("@daily", "europe/berlin").zone(), "Europe/Berlin");
    assert_eq!(parsed("@daily", "").zone(), "UTC");
}

#[test]
fn what_can_never_fire_is_refused() {
    for text in [
        "0 0 30 2 *",
        "0 0 31 4,6 *",
        "0 0 31 2,4,6,9,11 */7",
        "0 0 0 30 2 ?",
        "0 0 0 29 2 ? 2027",
        "0 0 0 29 2 ? 2021-2023,2025,2100/1",
        "0 0 0 ? 2 6#5 2027",
        "0 0 0 L-30 2 ?",
    ] {
        let error = Schedule::parse(text, "Europe/Berlin").unwrap_err().to_string();
        assert!(error.contains("never fires") || text.contains("2100"), "{error}");
    }
    // Each year's last Sunday of March has no such hour in Berlin.
    assert!(Schedule::parse("0 */5 2 ? 3 1L", "Europe/Berlin").is_err());
    assert!(Schedule::parse("0 */5 2 ? 3 1L", "UTC").is_ok());
    assert!(Schedule::parse("0 0 29 2 */7", "").is_ok(), "a Sunday every 28 years");
}

#[test]
fn longer_texts_are_refused_unread() {
    let long = Schedule::parse(&"*".repeat(MAX_TEXT + 1), "Mars").unwrap_err().to_string();
    assert_eq!(long, "the schedule is 65537 bytes long; at most 65536 are read");
}

#[test]
fn the_ends_of_time_are_none_and_never_a_panic() {
    for text in ["* * * * *", "* * * * * ?", "0 0 1 1 *", "@every 1s", "@yearly", "at 2026-01-02T03:04:05Z"] {
        for zone in ["", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago"] {
            let schedule = parsed(text, zone);
            assert_eq!(schedule.next(Wall::MAX), None, "{text}");
            assert_eq!(schedule.next(Wall(253_402_207_200_999)), None, "{text}");
            assert!(schedule.next(Wall::MIN).is_some(), "{text}");
            let last = schedule.latest(Wall::MIN, Wall::MAX).unwrap();
            assert_eq!(schedule.next(last), None, "{text}");
        }
    }
}

#[test]
fn latest_is_the_last_fire_within_the_bounds() {
    let hourly = parsed("@hourly", "");
    let at = |text: &str| wall(text);
    let latest = |a, b| hourly.latest(at(a), at(b)).map(|t| t.to_string());
    assert_eq!(latest("2026-01-01T00:00:00Z", "2026-01-01T09:59:59Z").unwrap(), "2026-01-01T09:00:00.000Z");
    assert_eq!(latest("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z").unwrap(), "2026-01-01T01:00:00.000Z");
    assert_eq!(latest("2026-01-01T00:00:00Z", "2026-01-01T00:59:59Z"), None);
    assert_eq!(latest("2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z"), None);
    assert_eq!(latest("2026-01-01T05:00:00Z", "2026-01-01T01:00:00Z"), None, "bounds the wrong way round");
    assert_eq!(latest("1969-12-31T22:30:00Z", "1970-01-01T00:00:00Z").unwrap(), "1970-01-01T00:00:00.000Z");
    assert_eq!(
        latest("1969-12-31T22:30:00Z", "1969-12-31T23:59:59.999Z").unwrap(),
        "1969-12-31T23:00:00.000Z"
    );
}

#[test]
fn schedules_are_values() {
    let berlin = parsed(" 0 5 * * * ", "europe/berlin");
    assert_eq!(berlin, parsed("0 5 * * *", "Europe/Berlin"));
    assert_eq!(hashed(&berlin), hashed(&parsed("0 5 * * *", "Europe/Berlin")));
    assert_ne!(hashed(&berlin), hashed(&parsed("0 5 * * *", "Europe/Paris")));
    assert_ne!(berlin, parsed("0 5 * * *", "Europe/Paris"));
    assert_eq!(berlin, parsed("00 5 * * *", "Europe/Berlin"));
    assert_ne!(berlin, parsed("0 0 5 1W * ?", "Europe/Berlin"));
    assert!(size_of::<Schedule>() <= 80, "{}", size_of::<Schedule>());
}

/// What a schedule feeds to a hasher, as one number.
fn hashed(schedule: &Schedule) -> u64 {
    struct SumHasher(u64);
    impl Hasher for SumHasher {
        fn write(&mut self, bytes: &[u8]) {
            self.0 =
                bytes.iter().fold(self.0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        }
        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut sum = SumHasher(7);
    schedule.hash(&mut sum);
    sum.finish()
}

#[test]
fn what_follows_runs_is_counted_from_their_end() {
    let at = |secs: i64| Wall(secs * 1000);
    let after = Schedule::parse("@after 10m", "").unwrap();
    assert!(after.follows_runs() && after.has(at(7)));
    assert_eq!(after.next(at(7)), Some(at(607)));
    let counted = after.counted_from(at(7));
    assert_eq!((counted.next(at(7)), counted.next(at(1_000))), (Some(at(607)), Some(at(1_207))));
    assert_eq!(after.latest(at(7), at(2_000)), Some(at(1_807)));
    assert_eq!(after.latest(at(7), at(606)), None);
    let daily = Schedule::parse("@daily", "").unwrap();
    assert!(!daily.follows_runs() && *daily.counted_from(at(7)) == daily && !daily.has(at(7)));
    // The first and the last moments there are.
    for moment in [Wall::MIN, Wall(i64::MIN + 1), Wall::MAX] {
        let next = after.next(moment).or_else(|| after.counted_from(moment).next(at(0)));
        assert!(next.is_none_or(|next| next > moment || next > at(0)));
    }
    let bounded = |from, until| {
        Schedule::read(&ScheduleSpec {
            text: "@after 10m",
            start_at: from,
            end_at: until,
            ..ScheduleSpec::default()
        })
    };
    let bounded = bounded("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z").unwrap();
    let from: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let from = Wall(from.as_millisecond());
    let first = bounded.counted_from(from - Millis(90_000)).next(from - Millis(90_000)).unwrap();
    assert_eq!(first, from + Millis(510_000), "the first one that is not before it");
    assert_eq!(bounded.counted_from(from).next(from + Millis(50 * 60_000)), None);
    assert!(
        Schedule::read(&ScheduleSpec {
            text: "@after 1h",
            end_at: "2026-01-01T00:00:00Z",
            ..ScheduleSpec::default()
        })
        .is_ok()
    );
}
