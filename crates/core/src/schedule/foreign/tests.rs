//! What people bring from other programs, and what each is refused with.

use super::*;
use crate::schedule::Schedule;

fn refused(text: &str, zone: &str) -> alloc::string::String {
    Schedule::parse(text, zone).expect_err(text).to_string()
}

/// Each text, and what its refusal says; rules that it says to write must be valid.
fn check(rows: &[(&str, &str)]) {
    for (text, says) in rows {
        let said = refused(text, "");
        assert!(said.contains(says), "{text}: {said}");
        for line in says.split("write `").skip(1).filter_map(|rest| rest.split('`').next()) {
            assert!(Schedule::parse(line, "").is_ok(), "what is proposed is valid: {line}");
        }
    }
}

#[test]
fn schedules_of_other_programs_are_refused_with_their_translation() {
    check(&[
        (
            "CRON_TZ=America/New_York 30 9 * * 1-5",
            "write timezone = \"America/New_York\" and schedule = \"30 9 * * 1-5\"",
        ),
        (
            "TZ=Europe/London 0 22 * * SUN",
            "write timezone = \"Europe/London\" and schedule = \"0 22 * * SUN\"",
        ),
        ("cron_tz=\"UTC\" @daily", "write timezone = \"UTC\" and schedule = \"@daily\""),
        ("TZ=UTC cron(0 1 * * ? *)", "write timezone = \"UTC\" and schedule = \"0 0 1 * * ?\""),
        ("TZ=GMT+3 0 1 * * *", "schedule = \"0 1 * * *\"; timezone `GMT+3`"),
        ("TZ=Europe/Berln 0 1 * * *", "; did you mean `Europe/Berlin`?"),
        ("TZ=UTC", "the time zone has a key of its own: write timezone = \"UTC\""),
        ("\"0 3 * * *\"", "the quotes are part of the schedule: write `0 3 * * *`"),
        ("0 9 * * 1-5 Europe/Berlin", "write timezone = \"Europe/Berlin\" and schedule = \"0 9 * * 1-5\""),
        ("0 3 * * * /bin/backup -v", "write `0 3 * * *`; a command has a key of its own"),
        ("0 3 * * * root /bin/backup", "write `0 3 * * *`; a command"),
    ]);
}

#[test]
fn the_words_of_event_bridge_are_translated() {
    check(&[
        ("cron(0 2 ? * 6L *)", "AWS EventBridge: write `0 0 2 ? * 6L`, the second first"),
        ("cron(15 10 * * ? 2031)", "write `0 15 10 * * ? 2031`"),
        ("CRON (0/15 8-17 ? * MON-FRI *)", "write `0 0/15 8-17 ? * MON-FRI`"),
        ("cron(0 9 1 * 2 *)", "AWS EventBridge; day-of-month and day-of-week are both set"),
        ("cron(0 10 * * *)", "write `0 10 * * *`"),
        ("cron(0 10 *)", "whose cron has six fields"),
        ("rate(5 minutes)", "AWS EventBridge: write `@every 5m`"),
        ("RATE( 1 day )", "write `@every 1d`"),
        ("rate(2 weeks)", "write `@every 14d`"),
        ("rate(0 minutes)", "is no interval"),
        ("at(2030-01-02T03:04:05)", "write `at 2030-01-02T03:04:05`"),
    ]);
}

#[test]
fn the_calendar_events_of_systemd_are_translated() {
    check(&[
        ("Mon..Fri *-*-* 09:00", "systemd's OnCalendar: write `0 9 * * MON-FRI`"),
        ("*-*-* 02:30:00", "write `30 2 * * *`"),
        ("Sat,Sun 10:00", "write `0 10 * * SAT,SUN`"),
        ("Mon-Fri 09:00", "write `0 9 * * MON-FRI`"),
        ("*-*-01 04:00", "write `0 4 1 * *`"),
        ("*-01,07-1 04:00:00", "write `0 4 1 1,7 *`"),
        ("*:0/15", "write `*/15 * * * *`"),
        ("*-*-* *:05/15:00", "write `5-59/15 * * * *`"),
        ("*-*-* 9..17:00:30", "write `30 0 9-17 * * ?`"),
        ("2031-05-06 07:08:09", "write `9 8 7 6 5 ? 2031`"),
        ("*-*~01 23:00", "write `0 0 23 L * ?`"),
        ("Sat *-*-1..7 18:00", "write `0 0 18 ? * SAT#1`"),
        ("Sat *-*-13 18:00", "write it as a cron line"),
        ("*-*-* 09:00 Europe/Berlin", "write timezone = \"Europe/Berlin\" and schedule = \"0 9 * * *\""),
        ("hourly", "a word of systemd's OnCalendar: write `@hourly`"),
        ("weekly", "write `0 0 * * MON`"),
        ("quarterly", "write `0 0 1 1,4,7,10 *`"),
    ]);
}

#[test]
fn intervals_and_words_are_translated() {
    check(&[
        ("every 5 minutes", "a schedule is no sentence: write `@every 5m`"),
        ("every hour", "write `@every 1h`"),
        ("every day at 10:00", "write `0 10 * * *`"),
        ("every monday 9:30", "write `30 9 * * MON`"),
        ("@every 5 minutes", "write `@every 5m`"),
        ("5m", "a span alone: write `@every 5m`"),
        ("300", "write `@every 300s`"),
        ("@600", "write `@every 600s`"),
        ("PT1H30M", "ISO 8601: write `@every 1h30m`"),
        ("R/2026-01-01T00:00:00Z/P1D", "write `@every 1d`"),
        ("P1M", "write `@monthly`"),
        ("2031-01-02T03:04:05Z", "write `at 2031-01-02T03:04:05Z`"),
        ("@dayly", "`@dayly` is unknown: write `@daily`"),
        ("@minutely", "write `* * * * *`"),
        ("RRULE:FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=9", "iCalendar: write `0 9 * * MON,FRI`"),
        ("FREQ=YEARLY;BYMONTH=3", "iCalendar: write it as a cron line"),
    ]);
}

#[test]
fn the_words_of_other_crons_are_translated() {
    check(&[
        ("0 12 ? * MON", "in schedules of 6 or 7 fields; write `0 12 * * MON`"),
        ("0 12 L * *", "need 6 fields, seconds first; write `0 0 12 L * ?`"),
        ("0 12 15W * ?", "write `0 0 12 15W * ?`"),
        ("0 12 * * 5L", "write `0 0 12 ? * FRIL`"),
        ("0 12 * * 1#2", "write `0 0 12 ? * MON#2`"),
        ("10~50 4 * * *", "a random time of OpenBSD and cronie: write `H(10-50) 4 * * *`"),
        ("~ ~ * * *", "write `H H * * *`"),
        ("0 9 * * Mo-Fr", "write `0 9 * * MON-FRI`"),
        ("0 9 * january monday", "write `0 9 * JAN MON`"),
        ("0 9 * * mon..fri", "write `0 9 * * mon-fri`"),
    ]);
    let sunday = refused("0 0 2 * * 0", "");
    assert!(sunday.contains("0 is outside 1-7; with 6 fields Sunday is 1 or SUN"), "{sunday}");
    let long = refused("*/90 * * * *", "");
    assert!(long.ends_with("step 90 is outside 1-60; `@every 90m` counts on"), "{long}");
}

#[test]
fn characters_that_look_like_others_are_named_where_they_stand() {
    for (text, says) in [
        ("0 5\u{a0}* * *", "a no-break space (U+00A0): write a plain space"),
        ("0 5 * * *\u{200b}", "a zero-width space (U+200B): remove it"),
        ("\u{feff}0 5 * * *", "a byte order mark (U+FEFF): remove it"),
        ("0 5 * * 1\u{2013}5", "a dash that is no hyphen (U+2013): write `-`"),
        ("0 5 \u{ff0a} * *", "a full-width character (U+FF0A): write `*`"),
        ("\u{201c}0 5 * * *\u{201d}", "a typographic quotation mark (U+201C): write `\"`"),
        ("0 5\r* * *", "a carriage return (U+000D)"),
        ("@every\u{2003}5m", "a space that is no plain one (U+2003)"),
        ("@every 5\u{a0}m", "a no-break space (U+00A0)"),
    ] {
        let error = Schedule::parse(text, "").expect_err(text);
        assert!(error.to_string().contains(says), "{text:?}: {error}");
        assert!(error.span().is_some(), "{text:?} is pointed at");
    }
    let zone = refused("@daily", "Europe/Berlin\u{a0}");
    assert!(zone.contains("holds a no-break space (U+00A0): write a plain space"), "{zone}");
}

#[test]
fn zones_in_other_words_are_refused_with_what_was_meant() {
    for (zone, says) in [
        ("GMT+3", "3 h ahead of UTC is `Etc/GMT-3`"),
        ("UTC-5", "5 h behind UTC is `Etc/GMT+5`"),
        ("UTC +2", "2 h ahead of UTC is `Etc/GMT-2`"),
        ("+02:00", "2 h ahead of UTC is `Etc/GMT-2`"),
        ("-0300", "3 h behind UTC is `Etc/GMT+3`"),
        ("UTC+14", "`Etc/GMT-14`"),
        ("UTC+5:30", "write a place that has this offset, such as `Asia/Kolkata`"),
        ("-03:30", "such as `America/St_Johns`"),
        ("GMT+15", "no place has this offset"),
        ("berlin", "did you mean `Europe/Berlin`?"),
        ("Europe/Berln", "did you mean `Europe/Berlin`?"),
        ("Europe\\Berlin", "did you mean `Europe/Berlin`?"),
        ("America/NewYork", "did you mean `America/New_York`?"),
        ("New York", "did you mean `America/New_York`?"),
        ("Asia/Kolkatta", "did you mean `Asia/Kolkata`?"),
        ("US/New_York", "did you mean `America/New_York`?"),
        ("Europe/Berlin ", "remove the space around `Europe/Berlin`"),
        ("PST", "an abbreviation: write a place whose clock is meant, such as `America/Los_Angeles`"),
        ("CST", "`America/Chicago` or `Asia/Shanghai`"),
        ("W. Europe Standard Time", "a name of Windows: write a place, such as `Europe/Berlin`"),
        ("CET-1CEST", "a rule as POSIX writes it"),
        ("local", "nodes may be in several zones"),
        ("Z", "write `UTC`"),
        ("Mars/Olympus", "write `Area/City`"),
    ] {
        let said = refused("@daily", zone);
        assert!(said.contains(says), "{zone}: {said}");
    }
    let doubts = |zone| Schedule::parse("@daily", zone).expect(zone).doubts("@daily").concat();
    assert!(doubts("EST").contains("write America/New_York if its clock is meant"));
    assert_eq!(doubts("Europe/Berlin"), "");
}
