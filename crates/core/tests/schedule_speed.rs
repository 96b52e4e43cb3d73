//! Whatever is written as a schedule or as a calendar, the answer comes at once.

use evenkeel_core::calendar::{Calendar, LINES_MAX};
use evenkeel_core::schedule::{Calendars, Schedule};
use evenkeel_core::time::Wall;
use std::sync::Arc;
use std::time::Duration;

/// Far above what a busy machine needs, far below a search that has no bound.
const BOUND: Duration = Duration::from_millis(500);

#[test]
fn any_text_answers_quickly() {
    let nasty = [
        "*".repeat(64 * 1024),
        format!("{} * * * *", "*,".repeat(32_000) + "1"),
        format!("{} * * * *", "*/1,".repeat(16_000) + "1"),
        format!("0 0 0 1 1 ? {}", "*,".repeat(32_000) + "2099"),
        format!("0 0 0 {} * ?", "31W,".repeat(16_000) + "L"),
        format!("0 0 30 2 {}", " ".repeat(60_000) + "*"),
        "1 ".repeat(30_000),
        format!("@every {}s", "1".repeat(60_000)),
        format!("at {}", "2026-".repeat(12_000)),
        "0 0 30 2 *".to_string(),
        "0 */5 2 ? 3 1L".to_string(),
    ];
    for text in nasty {
        let spent = timed(|| drop(Schedule::parse(&text, "Europe/Berlin")));
        assert!(spent < BOUND, "{} took {spent:?}", &text[..20.min(text.len())]);
    }
}

/// A calendar with these lines.
fn calendar(days: Vec<String>, windows: Vec<String>) -> Calendar {
    Calendar { days, windows, ..Calendar::new("c".parse().expect("a name")) }
}

#[test]
fn any_calendar_answers_quickly() {
    let day = |n: usize| format!("{:04}-{:02}-{:02}", 2026 + n / 336, 1 + n / 28 % 12, 1 + n % 28);
    let odd = calendar((0..LINES_MAX).map(|n| day(2 * n)).collect(), vec![]);
    let even = calendar((0..LINES_MAX).map(|n| day(2 * n + 1)).collect(), vec![]);
    let ten_years = calendar(vec!["2026-01-01..2035-12-31".to_owned()], vec![]);
    let noon = calendar(vec![], vec!["12:00..13:00".to_owned()]);
    let nearly = calendar(vec!["01-01..02-28".to_owned(), "03-01..12-31".to_owned()], vec![]);
    let wide = calendar(vec!["1".repeat(64 * 1024); LINES_MAX], vec![]);
    assert!(timed(|| drop(wide.read())) < BOUND);
    let cases: [(&str, &[&Calendar], &[&Calendar]); 6] = [
        ("@every 1s", &[&ten_years], &[]),
        ("@every 1s", &[&odd, &even], &[]),
        ("30 12 * * *", &[&noon], &[]),
        ("@every 7h", &[], &[&noon]),
        ("0 0 * * 1", &[&nearly], &[]),
        ("*/5 * * * *", &[&odd], &[&even, &noon]),
    ];
    for (rule, except, only) in cases {
        let read = |list: &[&Calendar]| {
            let one = |c: &&Calendar| (c.name.clone(), Arc::new(c.read().expect("a calendar")));
            list.iter().map(one).collect::<Vec<_>>()
        };
        let schedule = Schedule::parse(rule, "Europe/Berlin").expect("a rule");
        let schedule = schedule.under(Calendars::new(read(except), read(only)));
        let spent = timed(|| assert!(schedule.next(Wall(1_767_225_600_000)) != Some(Wall(0))));
        assert!(spent < BOUND, "{rule} took {spent:?}");
        println!("{rule}: {spent:?}");
    }
}

/// The best of three, so that a busy machine does not fail the test.
#[expect(clippy::disallowed_methods, reason = "the test measures real time")]
fn timed(mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let start = std::time::Instant::now();
        work();
        start.elapsed()
    };
    (0..3).map(once).min().expect("three rounds were timed")
}
