//! What a job says beside its rules: lists, bounds, `H`, jitter, and where a mistake is.

use super::*;
use crate::job::{Job, JobFile, Spec, Work};
use crate::time::Millis;

fn read(times: ScheduleSpec<'_>) -> Schedule {
    Schedule::read(&times).unwrap_or_else(|e| panic!("{times:?}: {e}"))
}

#[test]
fn mistakes_are_pointed_at() {
    let marks = |text: &str| Schedule::parse(text, "").unwrap_err().marked(text);
    let cases = [
        ("1,5,61 * * * *", Some("1,5,61 * * * *\n    ^^")),
        ("0 5 * * mond", Some("0 5 * * mond\n        ^^^^")),
        ("  0 25 * * *", Some("  0 25 * * *\n    ^^")),
        ("@daily\n0 0 30 2 *", Some("0 0 30 2 *\n^^^^^^^^^^")),
        ("vixie: 0 0 5 * * ?", Some("vixie: 0 0 5 * * ?\n       ^^^^^^^^^^^")),
        ("@every 5x", Some("@every 5x\n       ^^")),
        ("@fortnightly", Some("@fortnightly\n^^^^^^^^^^^^")),
        ("* * *", None),
    ];
    for (text, expected) in cases {
        assert_eq!(marks(text).as_deref(), expected, "{text}");
    }
    let far = marks(&(" ".repeat(500) + "61 * * * *")).unwrap();
    assert!(far.len() < 250 && far.ends_with("^^"), "{far}");
}

#[test]
fn dialects_phases_and_lists() {
    let both = parsed("vixie: 0 5 * * *\nquartz: 0 0 5,6 * * ?", "");
    let moments = ["2026-01-01T05:00:00Z", "2026-01-01T06:00:00Z", "2026-01-02T05:00:00Z"];
    assert_eq!(fires(&both, wall("2026-01-01T00:00:00Z"), 3), moments.map(wall), "equal moments once");
    let phase = parsed("@every 1h offset 15m", "");
    assert_eq!(fires(&phase, wall("2026-01-01T00:15:00Z"), 1), [wall("2026-01-01T01:15:00Z")]);
    let refused = [
        ("vixie: 0 0 5 * * ?", "has 5 fields"),
        ("quartz: 0 5 * * *", "has 6 or 7 fields"),
        ("@every 15m offset 1h", "less than the span"),
        ("H(5-1) * * * *", "run backwards"),
        ("H(1 * * * *", "alone or with bounds"),
        ("0 0 0 1 1 ? H", "every field but the year"),
    ];
    for (text, why) in refused {
        let said = Schedule::parse(text, "").unwrap_err().to_string();
        assert!(said.contains(why), "{text}: {said}");
    }
    let many = ["@daily"; 17].join("\n");
    assert!(Schedule::parse(&many, "").unwrap_err().to_string().contains("at most 16 rules"));
}

#[test]
fn bounds_hold_and_nothing_between_them_is_refused() {
    let times = ScheduleSpec { text: "0 12 * * *", timezone: "Europe/Berlin", ..ScheduleSpec::default() };
    let some = read(ScheduleSpec { start_at: "2026-03-28T12:00:00", end_at: "2026-03-30T12:00:00", ..times });
    let found = ["2026-03-28T11:00:00Z", "2026-03-29T10:00:00Z"].map(wall);
    assert_eq!(fires(&some, wall("2020-01-01T00:00:00Z"), 5), found);
    let refused = |from, until| {
        Schedule::read(&ScheduleSpec { start_at: from, end_at: until, ..times }).unwrap_err().to_string()
    };
    assert!(refused("2026-01-01T13:00", "2026-01-02").contains("never due between"));
    assert!(refused("2026-01-02", "2026-01-02").contains("is not after start_at"));
    assert!(refused("soon", "").contains("start_at `soon`: write a time"));
}

#[test]
fn a_jitter_keeps_the_order_and_depends_on_the_job_alone() {
    let times = |name| ScheduleSpec { text: "*/5 * * * *", name, jitter: "1h", ..ScheduleSpec::default() };
    let (one, other) = (read(times("one")), read(times("other")));
    let start = wall("2026-01-01T00:00:00Z") - Millis(1);
    let (found, others) = (fires(&one, start, 500), fires(&other, start, 500));
    assert_eq!(found, fires(&read(times("one")), start, 500));
    assert_ne!(found, others);
    // The first one listed may belong to the moment before.
    let first = found[0].0.div_euclid(300_000);
    for (n, due) in found.iter().enumerate() {
        assert_eq!(due.0.div_euclid(300_000), first + n as i64, "each stays before the next");
    }
    assert_ne!(one, other, "whose moments differ is another schedule");
    let plain = |name| read(ScheduleSpec { text: "*/5 * * * *", name, ..ScheduleSpec::default() });
    assert_eq!(plain("one"), plain("other"));
}

#[test]
fn names_spread_over_the_whole_range() {
    let hours: alloc::collections::BTreeSet<i64> = (0..200)
        .map(|n| {
            let name = format!("job-{n}");
            let due = read(ScheduleSpec { text: "0 H(0-5) * * *", name: &name, ..ScheduleSpec::default() });
            due.next(wall("2026-01-01T00:00:00Z") - Millis(1)).unwrap().0 / 3_600_000 % 24
        })
        .collect();
    assert_eq!(hours.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

/// Entries that older versions wrote say nothing of all this, and mean what they meant.
#[test]
fn jobs_are_written_as_before_and_lists_as_lists() {
    let old = r#"{"job":{"name":"j","schedule":"0 5 * * *","timezone":"Europe/Berlin","function":"f"},"version":1,"since":5}"#;
    let spec: Spec = serde_json::from_str(old).unwrap();
    assert_eq!(serde_json::to_string(&spec).unwrap().replace(",\"command\":[]", ""), old);
    let list =
        r#"{"name":"j","schedule":["0 5 * * *","@hourly"],"dst":"shift","jitter":"5m","function":"f"}"#;
    let job: JobFile = serde_json::from_str(list).unwrap();
    assert_eq!(job.schedule, "0 5 * * *\n@hourly");
    assert_eq!(serde_json::to_string(&job).unwrap(), list);
    Job::parse(job).unwrap();
    let lonely =
        JobFile { jitter: "5m".into(), ..JobFile::new("j".parse().unwrap(), "", Work::Function("f".into())) };
    assert!(Job::parse(lonely).unwrap_err().to_string().contains("the schedule is empty"));
}

#[test]
fn notes_say_what_is_odd() {
    let notes = |dst, at| {
        let times =
            ScheduleSpec { text: "30 2 * * *", timezone: "Europe/Berlin", dst, ..ScheduleSpec::default() };
        read(times).notes(wall(at)).join("; ")
    };
    assert_eq!(notes(None, "2026-03-28T01:30:00Z"), "");
    assert!(notes(None, "2026-03-29T01:00:00Z").contains("skips the time"));
    assert!(notes(Some(Dst::Shift), "2026-03-29T01:30:00Z").contains("skips the time"));
    assert!(notes(None, "2026-10-25T00:30:00Z").contains("the first time"));
    assert!(notes(Some(Dst::Twice), "2026-10-25T01:30:00Z").contains("the second time"));
    let last = ScheduleSpec { text: "@daily", end_at: "2026-01-05", ..ScheduleSpec::default() };
    assert_eq!(read(last).notes(wall("2026-01-04T00:00:00Z")), ["the last one before end_at"]);
    let moved = ScheduleSpec { text: "@daily", name: "j", jitter: "1h", ..ScheduleSpec::default() };
    let moved = read(moved);
    let due = moved.next(wall("2026-01-04T00:00:00Z")).unwrap();
    assert!(moved.notes(due)[0].starts_with("jitter: "), "{:?}", moved.notes(due));
}
