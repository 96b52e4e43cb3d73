//! Tests of calendars by examples.

use super::*;
use alloc::string::ToString;
use alloc::vec;

fn calendar(days: &[&str], weekdays: &[&str], windows: &[&str]) -> Calendar {
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let (days, weekdays, windows) = (owned(days), owned(weekdays), owned(windows));
    Calendar { days, weekdays, windows, ..Calendar::new("c".parse().unwrap()) }
}

/// A local time, read as if it were UTC.
fn local(text: &str) -> i64 {
    alloc::format!("{text}Z").parse::<jiff::Timestamp>().unwrap().as_second()
}

/// Each stretch that it holds from here on, until there are so many.
fn stretches(calendar: &Calendar, from: &str, n: usize) -> Vec<String> {
    let times = calendar.read().unwrap();
    let effort = SearchBudget::new(100_000);
    let shown = |at: i64| jiff::Timestamp::from_second(at).unwrap().to_string().replace(":00Z", "");
    let mut found = vec![];
    let mut at = local(from);
    while found.len() < n {
        let Some(begin) = times.first_held(at) else { break };
        assert!(times.holds(begin) && !(begin > at && times.holds(begin - 1)));
        let Some(end) = times.first_free(begin, &effort) else {
            found.push(format!("{}..", shown(begin)));
            break;
        };
        assert!(!times.holds(end) && times.holds(end - 1));
        found.push(format!("{}..{}", shown(begin), shown(end)));
        at = end;
    }
    found
}

#[test]
fn days_are_whole_once_or_each_year() {
    let some = calendar(&["2026-12-25", "2026-12-24..2026-12-25", "2027-01-06", "12-31..01-01"], &[], &[]);
    assert_eq!(
        stretches(&some, "2026-11-22T10:00:00", 4),
        [
            "2026-12-24T00:00..2026-12-26T00:00",
            "2026-12-31T00:00..2027-01-02T00:00",
            "2027-01-06T00:00..2027-01-07T00:00",
            "2027-12-31T00:00..2028-01-02T00:00",
        ]
    );
    let leap = calendar(&["02-29"], &[], &[]);
    assert_eq!(
        stretches(&leap, "2096-11-22T10:00:00", 2),
        ["2104-02-29T00:00..2104-03-01T00:00", "2108-02-29T00:00..2108-03-01T00:00"]
    );
}

#[test]
fn weekdays_and_windows_come_again_each_week() {
    let weekend = calendar(&[], &["sat", "Sun"], &["mon-fri 18:00..08:00"]);
    assert_eq!(
        stretches(&weekend, "2026-11-19T12:00:00", 3),
        [
            "2026-11-19T18:00..2026-11-20T08:00",
            "2026-11-20T18:00..2026-11-23T00:00",
            "2026-11-23T18:00..2026-11-24T08:00",
        ],
        "a window belongs to the day on which it begins"
    );
    let freeze = calendar(&[], &[], &["fri 22:00..mon 06:00"]);
    assert_eq!(stretches(&freeze, "2026-11-22T12:00:00", 2)[0], "2026-11-22T12:00..2026-11-23T06:00");
    let nights = calendar(&[], &[], &["22:00..06:00", "2026-11-23T06:00..2026-11-23T07:30"]);
    assert_eq!(
        stretches(&nights, "2026-11-22T12:00:00", 2),
        ["2026-11-22T22:00..2026-11-23T07:30", "2026-11-23T22:00..2026-11-24T06:00"]
    );
}

#[test]
fn what_holds_always_is_over_never() {
    for always in [
        calendar(&[], &["mon-sun"], &[]),
        calendar(&["01-01..12-31"], &[], &[]),
        calendar(&[], &[], &["00:00..24:00"]),
        calendar(&[], &["mon,tue-fri"], &["sat 00:00..mon 00:00"]),
    ] {
        assert_eq!(stretches(&always, "2026-11-22T12:00:00", 2), ["2026-11-22T12:00.."]);
    }
    assert_eq!(stretches(&calendar(&[], &[], &[]), "2026-11-22T12:00:00", 2), Vec::<String>::new());
    let past = calendar(&["2020-01-01"], &[], &["2021-01-01T00:00..2021-01-01T00:01"]);
    assert_eq!(stretches(&past, "2026-11-22T12:00:00", 2), Vec::<String>::new());
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    let days = |text: &str| calendar(&["2026-12-25", text], &[], &[]).read().unwrap_err().to_string();
    for text in ["", "x", "2026-13-01", "2026-02-29", "02-30", "26-12-25", "2026-12-24..12-25", "2026-1-1"] {
        let said = days(text);
        assert!(said.starts_with(&format!("calendar c: line 2 of days, `{text}`: write a day as")), "{said}");
    }
    assert!(days("2026-12-25..2026-12-24").ends_with("it ends before it begins"));
    assert!(days(&"1".repeat(200)).contains("longer than 100 bytes"));
    for text in ["", "monday", "sat-", "1", "sat sun"] {
        let said = calendar(&[], &[text], &[]).read().unwrap_err().to_string();
        assert!(said.contains("line 1 of weekdays") && said.contains("write weekdays as"), "{said}");
    }
    for text in [
        "",
        "22:00",
        "22:00-06:00",
        "25:00..26:00",
        "9:00..17:00",
        "09:60..10:00",
        "mon,tue 09:00..wed 10:00",
        "09:00..mon 10:00",
        "2026-12-24T18:00..06:00",
        "2026-12-24T24:01..2026-12-25T06:00",
    ] {
        let said = calendar(&[], &[], &[text]).read().unwrap_err().to_string();
        assert!(said.contains("write hours as"), "{text}: {said}");
    }
    for (text, why) in [
        ("22:00..22:00", "whole days"),
        ("mon 22:00..mon 22:00", "the whole week"),
        ("24:00..06:00", "only be an end"),
        ("2026-12-24T18:00..2026-12-24T18:00", "ends before"),
    ] {
        let said = calendar(&[], &[], &[text]).read().unwrap_err().to_string();
        assert!(said.contains(why), "{text}: {said}");
    }
    let many = calendar(&vec!["12-25"; LINES_MAX + 1], &[], &[]).read().unwrap_err().to_string();
    assert!(many.contains("has 2001 lines, allowed are 2000"), "{many}");
    let key = r#"{"name":"c","dayz":[]}"#;
    assert!(
        serde_json::from_str::<Calendar>(key).unwrap_err().to_string().contains("expected one of `name`")
    );
}
