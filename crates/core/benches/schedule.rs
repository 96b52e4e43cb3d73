//! What one `next` costs, for typical schedules, beside the crates `croner` and `jiff-cron` in the same run; a million jobs at
//! once; and the dearest texts.

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
const JOBS: usize = 1_000_000;

/// A schedule, its zone, whether `croner` knows the same words, and what says the same to `jiff-cron`.
type ScheduleCase = (&'static str, &'static str, bool, &'static str);

const CASES: &[ScheduleCase] = &[
    ("* * * * *", "UTC", true, "0 * * * * *"),
    ("*/5 * * * *", "UTC", true, "0 */5 * * * *"),
    ("0 5 * * *", "UTC", true, "0 0 5 * * *"),
    ("* * * * *", "Europe/Berlin", true, "0 * * * * *"),
    ("*/15 9-17 * * 1-5", "Europe/Berlin", true, "0 */15 9-17 * * 2-6"),
    ("0 5 * * *", "Europe/Berlin", true, "0 0 5 * * *"),
    ("0 0 1 1,7 *", "Europe/Berlin", true, "0 0 0 1 1,7 *"),
    ("*/10 * * * * *", "Europe/Berlin", true, "*/10 * * * * *"),
    ("0 0 29 2 *", "Europe/Berlin", true, "0 0 0 29 2 *"),
    ("30 4 1,15 * 5", "America/New_York", true, ""),
    ("0 0 12 LW * ?", "Europe/Berlin", true, ""),
    ("0 15 10 ? * 6#3", "America/New_York", true, ""),
    ("0 15 10 L-3 * ?", "Europe/Berlin", false, ""),
    ("@every 90s", "UTC", false, ""),
];

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn timed(rounds: u32, mut work: impl FnMut()) -> Duration {
    let best = (0..rounds).map(|_| {
        let start = std::time::Instant::now();
        work();
        start.elapsed()
    });
    best.min().unwrap_or_default()
}

/// Nanoseconds for a fire, where each is found from the one before.
fn row<T: Clone>(start: &T, next: impl Fn(&T) -> Option<T>) -> f64 {
    let spent = timed(ROUNDS, || {
        let mut now = start.clone();
        for _ in 0..FIRES {
            now = black_box(next(&now)).unwrap_or_else(|| start.clone());
        }
    });
    spent.as_nanos() as f64 / f64::from(FIRES)
}

fn croner(text: &str) -> croner::Cron {
    let quartz = text.split(' ').count() > 5;
    let parser = CronParser::builder()
        .seconds(if quartz { Seconds::Required } else { Seconds::Disallowed })
        .year(Year::Optional)
        .alternative_weekdays(quartz)
        .build();
    parser.parse(text).expect("a valid schedule")
}

fn jiff_cron(text: &str) -> jiff_cron::Schedule {
    text.parse().expect("a valid schedule")
}

fn ours(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, zone).expect("a valid schedule")
}

/// The same moment in a zone.
fn start(zone: &str) -> jiff::Zoned {
    let start = jiff::Timestamp::from_millisecond(START.0).expect("a moment of this century");
    start.to_zoned(jiff::tz::TimeZoneDatabase::bundled().get(zone).expect("a known zone"))
}

fn print_row((text, zone, knows, same): &ScheduleCase) {
    let schedule = ours(text, zone);
    let us = row(&START, |now| schedule.next(*now));
    let beside = |them: Option<f64>| {
        them.map_or_else(|| format!("{:>20}", "-"), |them| format!("{them:>11.0} {:>7.1}x", them / us))
    };
    let first = knows.then(|| {
        let cron = croner(text);
        row(&start(zone), |now| cron.find_next_occurrence(now, false).ok())
    });
    let second = (!same.is_empty()).then(|| {
        let cron = jiff_cron(same);
        row(&start(zone), |now| cron.after(now.clone()).next())
    });
    println!("{text:<20} {zone:<17} {us:>8.0} {} {}", beside(first), beside(second));
}

/// A million jobs are given their next fire one after the other, as after a restart: of the schedules that all three can
/// say, each as often as the others. Ours are a million schedules; theirs are a few that stay in the cache, which is in their
/// favour.
fn million() {
    let cases: Vec<_> = CASES.iter().filter(|case| case.2 && !case.3.is_empty()).collect();
    let some = |n: usize| n % cases.len();
    let all: Vec<_> = (0..JOBS).map(|n| ours(cases[some(n)].0, cases[some(n)].1)).collect();
    let croner: Vec<_> = cases.iter().map(|case| croner(case.0)).collect();
    let jiff_cron: Vec<_> = cases.iter().map(|case| jiff_cron(case.3)).collect();
    let starts: Vec<_> = cases.iter().map(|case| start(case.1)).collect();
    let spent = |next: &dyn Fn(usize) -> bool| {
        timed(3, || assert!((0..JOBS).all(|n| black_box(next(n))), "each has a next fire")).as_secs_f64()
    };
    let us = spent(&|n| all[n].next(START).is_some());
    let first = spent(&|n| croner[some(n)].find_next_occurrence(&starts[some(n)], false).is_ok());
    let second = spent(&|n| jiff_cron[some(n)].after(starts[some(n)].clone()).next().is_some());
    println!(
        "\n{JOBS} jobs rescheduled on one core: {us:.2} s, croner {first:.2} s ({:.1}x), jiff-cron {second:.2} s ({:.1}x)",
        first / us,
        second / us
    );
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
        let spent = timed(ROUNDS, || drop(black_box(Schedule::parse(&text, "Europe/Berlin"))));
        println!("{what:<28} {:>9.1}", spent.as_nanos() as f64 / 1e3);
    }
}

fn main() {
    println!(
        "{:<20} {:<17} {:>8} {:>11} {:>8} {:>11} {:>8}",
        "schedule", "zone", "ns/next", "croner", "ratio", "jiff-cron", "ratio"
    );
    CASES.iter().for_each(print_row);
    million();
    dearest();
}
