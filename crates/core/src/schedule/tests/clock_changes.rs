//! What schedules do when the clocks change.

use super::*;

/// A rule that names its time runs once a day: after the gap when its time is skipped, and on the first of two passes.
#[test]
fn named_times_run_once_a_day() {
    let cases: &[(&str, &str, &str, &[&str])] = &[
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T00:00:00Z",
            &["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
        ),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T00:00:00Z",
            &["2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
        ),
        (
            "0 30 2 * * ?",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
        ),
        (
            "0,20,40 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"],
        ),
        (
            "0 2,3 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"],
        ),
        (
            "0 1-3 * * *",
            "Europe/Berlin",
            "2026-10-24T23:30:00Z",
            &["2026-10-25T02:00+02:00", "2026-10-25T03:00+01:00", "2026-10-26T01:00+01:00"],
        ),
        (
            "30 2 * * *",
            "America/New_York",
            "2026-03-07T12:00:00Z",
            &["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00:00Z",
            &["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"],
        ),
        // Half an hour of summer time.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T00:00:00Z",
            &["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"],
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T00:00:00Z",
            &["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"],
        ),
        (
            "45 23 * * *",
            "Asia/Kolkata",
            "2026-01-01T00:00:00Z",
            &["2026-01-01T23:45+05:30", "2026-01-02T23:45+05:30"],
        ),
        // Samoa had no 30 December 2011, and the rule for that day runs when the day would have been over.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T00:00:00Z",
            &["2011-12-29T12:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00"],
        ),
        (
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-12-01T00:00:00Z",
            &["2011-12-31T00:00+14:00", "2012-12-30T12:00+14:00"],
        ),
        // Midnight itself is skipped.
        (
            "@daily",
            "Africa/Cairo",
            "2026-04-23T00:00:00Z",
            &["2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"],
        ),
    ];
    for (text, zone, after, expected) in cases {
        assert_eq!(shown(text, zone, after, expected.len()), *expected, "{text} in {zone}");
    }
}

/// A rule that says "every so often" goes by what the clock shows: nothing is due in a gap, and both passes count.
#[test]
fn every_so_often_follows_the_clock() {
    let cases: &[(&str, &str, &str, &[&str])] = &[
        (
            "@hourly",
            "Europe/Berlin",
            "2026-03-29T00:00:00Z",
            &["2026-03-29T03:00+02:00", "2026-03-29T04:00+02:00"],
        ),
        (
            "@hourly",
            "Europe/Berlin",
            "2026-10-24T23:30:00Z",
            &["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"],
        ),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:45:00Z",
            &[
                "2026-10-25T02:00+02:00",
                "2026-10-25T02:30+02:00",
                "2026-10-25T02:00+01:00",
                "2026-10-25T02:30+01:00",
                "2026-10-25T03:00+01:00",
            ],
        ),
        (
            "0 0/30 * * * ?",
            "Europe/Berlin",
            "2026-10-25T00:00:00Z",
            &["2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00"],
        ),
        (
            "0 0 0/1 * * ?",
            "Europe/Berlin",
            "2026-10-25T00:00:00Z",
            &["2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"],
        ),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-30T02:00+02:00"]),
        (
            "30 * * * *",
            "America/New_York",
            "2026-03-08T06:00:00Z",
            &["2026-03-08T01:30-05:00", "2026-03-08T03:30-04:00"],
        ),
        (
            "*/15 * * * *",
            "Australia/Lord_Howe",
            "2026-04-04T14:30:00Z",
            &[
                "2026-04-05T01:45+11:00",
                "2026-04-05T01:30+10:30",
                "2026-04-05T01:45+10:30",
                "2026-04-05T02:00+10:30",
            ],
        ),
        (
            "*/15 * * * *",
            "Australia/Lord_Howe",
            "2026-10-03T15:10:00Z",
            &["2026-10-04T01:45+10:30", "2026-10-04T02:30+11:00"],
        ),
        (
            "0 */12 * * *",
            "Pacific/Apia",
            "2011-12-29T12:00:00Z",
            &["2011-12-29T12:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00"],
        ),
        ("0 * 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", &["2012-12-30T00:00+14:00"]),
    ];
    for (text, zone, after, expected) in cases {
        assert_eq!(shown(text, zone, after, expected.len()), *expected, "{text} in {zone}");
    }
}

/// Starting in the middle of the second pass finds neither an old fire nor a missing one.
#[test]
fn the_second_pass_repeats_no_named_time() {
    let named = parsed("30 2 * * *", "Europe/Berlin");
    for after in
        ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:15:00Z", "2026-10-25T01:45:00Z"]
    {
        assert_eq!(named.next(wall(after)), Some(wall("2026-10-26T01:30:00Z")), "{after}");
    }
    assert_eq!(named.next(wall("2026-03-29T00:59:59.999Z")), Some(wall("2026-03-29T01:00:00Z")));
    assert_eq!(named.next(wall("2026-03-29T01:00:00Z")), Some(wall("2026-03-30T00:30:00Z")));
}

/// The proof that nothing far from a fire matters rests on offsets that differ by less than `REACH`.
#[test]
fn no_zone_jumps_further_than_reach() {
    for name in TimeZoneDatabase::bundled().available() {
        let zone = TimeZoneDatabase::bundled().get(name.as_str()).unwrap();
        let mut offsets: Vec<i64> = zone
            .following(Timestamp::MIN)
            .take_while(|change| change.timestamp() < wall_timestamp("2200-01-01T00:00:00Z"))
            .map(|change| i64::from(change.offset().seconds()))
            .collect();
        offsets.push(i64::from(zone.to_offset(Timestamp::MIN).seconds()));
        let spread = offsets.iter().max().unwrap() - offsets.iter().min().unwrap();
        assert!(spread < zone::REACH, "{}: {spread}", name.as_str());
    }
}

fn wall_timestamp(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A shifted fire takes its turn among the others, and is one with a fire that it meets.
#[test]
fn a_shifted_fire_meets_others() {
    let cases: &[(&str, &str, &str, &[&str])] = &[
        (
            "30 2,3 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["03-29T01:30", "03-30T00:30", "03-30T01:30"],
        ),
        (
            "45 2 * * *\n0,50 3 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["03-29T01:00", "03-29T01:45", "03-29T01:50", "03-30T00:45"],
        ),
        // 30 December 2011 was left out: its noon is that of the day after.
        ("0 12 30,31 12 *", "Pacific/Apia", "2011-12-29T12:00:00Z", &["12-30T22:00", "12-29T22:00"]),
    ];
    for (text, zone, after, expected) in cases {
        let shifted = Schedule::read(&ScheduleSpec {
            text,
            timezone: zone,
            dst: Some(Dst::Shift),
            ..ScheduleSpec::default()
        })
        .unwrap();
        let found = fires(&shifted, wall(after), expected.len());
        let found: Vec<_> = found.iter().map(|due| due.to_string()[5..16].to_string()).collect();
        assert_eq!(found, *expected, "{text}");
    }
}
