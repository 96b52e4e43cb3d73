//! Whatever is written as a schedule, the answer comes at once.

use evenkeel_core::schedule::Schedule;
use std::time::Duration;

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
        assert!(spent < Duration::from_millis(5), "{} took {spent:?}", &text[..20.min(text.len())]);
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
