//! What one `next` costs, for typical schedules, beside the crate `croner` in the same run; a million jobs at once; and the
//! dearest texts.

use croner::parser::{CronParser, Seconds, Year};
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;
use std::hint::black_box;
use std::time::Duration;

/// 2026-03-14T15:09:26Z.
const START: Wall = Wall(1_773_500_966_000);

/// Fires computed per measurement; the best of [`ROUNDS`] measurements counts.
const FIRES: u32 = 2_000;
const ROUNDS: u32 = 15;

/// Text, zone, and whether `croner` speaks the same words.
const CASES: &[(&str, &str, bool)] = &[
    ("* * * * *", "UTC", true),
    ("*/5 * * * *", "UTC", true),
    ("0 5 * * *", "UTC", true),
    ("* * * * *", "Europe/Berlin", true),
    ("*/15 9-17 * * 1-5", "Europe/Berlin", true),
    ("0 5 * * *", "Europe/Berlin", true),
    ("30 4 1,15 * 5", "America/New_York", true),
    ("*/10 * * * * *", "Europe/Berlin", true),
    ("0 0 12 LW * ?", "Europe/Berlin", true),
    ("0 15 10 ? * 6#3", "America/New_York", true),
    ("0 0 29 2 *", "Europe/Berlin", true),
    ("0 15 10 L-3 * ?", "Europe/Berlin", false),
    ("@every 90s", "UTC", false),
];

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn timed(mut work: impl FnMut()) -> Duration {
    let best = (0..ROUNDS).map(|_| {
        let start = std::time::Instant::now();
        work();
        start.elapsed()
    });
    best.min().unwrap_or_default()
}

fn ours(text: &str, zone: &str) -> f64 {
    let schedule = Schedule::parse(text, zone).expect("a valid schedule");
    let spent = timed(|| {
        let mut now = START;
        for _ in 0..FIRES {
            now = black_box(schedule.next(now)).unwrap_or(START);
        }
    });
    spent.as_nanos() as f64 / f64::from(FIRES)
}

fn theirs(text: &str, zone: &str) -> f64 {
    let quartz = text.split(' ').count() > 5;
    let parser = CronParser::builder()
        .seconds(if quartz { Seconds::Required } else { Seconds::Disallowed })
        .year(Year::Optional)
        .alternative_weekdays(quartz)
        .build();
    let cron = parser.parse(text).expect("a valid schedule");
    let start = jiff::Timestamp::from_millisecond(START.0).expect("a moment of this century");
    let start = start.to_zoned(jiff::tz::TimeZoneDatabase::bundled().get(zone).expect("a known zone"));
    let spent = timed(|| {
        let mut now = start.clone();
        for _ in 0..FIRES {
            now = black_box(cron.find_next_occurrence(&now, false)).unwrap_or_else(|_| start.clone());
        }
    });
    spent.as_nanos() as f64 / f64::from(FIRES)
}

/// A million jobs are given their next fire, as after a restart, by ours and by `croner`. They share some schedules, as
/// they do in a program that keeps each zone once.
fn million() {
    const JOBS: usize = 1_000_000;
    let cases: Vec<_> = CASES.iter().filter(|(.., both)| *both).collect();
    let rounds = JOBS.div_ceil(cases.len()) as u32;
    let sum = |one: fn(&str, &str) -> f64| {
        cases.iter().map(|(text, zone, _)| one(text, zone)).sum::<f64>() * f64::from(rounds) / 1e9
    };
    let (us, them) = (sum(ours), sum(theirs));
    println!("\n{JOBS} jobs rescheduled: {us:.2} s, croner {them:.2} s, ratio {:.1}x", them / us);
}

/// Texts that ask for much work: each is read, or refused.
fn dearest() {
    let rules = ["0 0 29 2 */7"; 16].join("\n");
    let texts = [
        ("as long as allowed", "*".repeat(64 * 1024)),
        ("a list of 32,000", format!("{} * * * *", "*,".repeat(32_000) + "1")),
        ("a step of 60,000 digits", format!("*/{} * * * *", "1".repeat(60_000))),
        ("30,000 fields", "1 ".repeat(30_000)),
        ("a span of 60,000 digits", format!("@every {}s", "1".repeat(60_000))),
        ("a moment of 60,000 letters", format!("at {}", "2026-".repeat(12_000))),
        ("30 February", "0 0 30 2 *".to_string()),
        ("a gap each year", "0 */5 2 ? 3 1L".to_string()),
        ("16 rare rules", rules),
    ];
    println!("\n{:<28} {:>9}", "dear text", "us/read");
    for (what, text) in texts {
        let spent = timed(|| drop(black_box(Schedule::parse(&text, "Europe/Berlin"))));
        println!("{what:<28} {:>9.1}", spent.as_nanos() as f64 / 1e3);
    }
}

fn main() {
    println!("{:<22} {:<18} {:>9} {:>12} {:>7}", "schedule", "zone", "ns/next", "croner ns", "ratio");
    for (text, zone, both) in CASES {
        let us = ours(text, zone);
        let (them, ratio) = match both {
            true => (theirs(text, zone), theirs(text, zone) / us),
            false => (f64::NAN, f64::NAN),
        };
        println!("{text:<22} {zone:<18} {us:>9.0} {them:>12.0} {ratio:>6.1}x");
    }
    million();
    dearest();
}
