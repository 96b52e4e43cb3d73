//! Years of jobs whose clocks step and whose schedules are edited: what fires is the oracle's list, fire by fire.

use super::calendars::OracleCalendar;
use super::cases::{OracleRandom, OracleSpec};
use super::{due, parsed};
use crate::zone::{self, OracleZone, days};
use evenkeel_core::due::{MisfirePolicy, next};
use evenkeel_core::job::CatchUp;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::{Millis, Wall};
use std::collections::BTreeSet;

const YEARS: usize = 1_000;
/// The most fires of one year; what is due more often is not tried here.
const FIRES: usize = 2_000;
const GRACE: Millis = Millis::secs(60);

/// What became of the fires of all years.
#[derive(Default)]
struct YearTotals {
    fired: usize,
    skipped: usize,
    steps: usize,
    edits: usize,
}

/// A job as it stands: its schedule, and what the oracle says is still to come.
struct OracleJob {
    /// The rules as written.
    rules: String,
    schedule: Schedule,
    list: Vec<i64>,
}

impl OracleJob {
    /// A new declaration at a moment, from which on fires are its own.
    fn declared(r: &mut OracleRandom, zone: &OracleZone, since: i64, end: i64) -> Self {
        loop {
            let said = OracleSpec { jitter: None, ..OracleSpec::of(r, zone, since, None) };
            let Some(schedule) = parsed(&said, zone) else { continue };
            let open = OracleSpec { closing: Vec::new(), ..said.clone() };
            let list = due(&open, zone, since + 1, end, FIRES + 1);
            if list.len() <= FIRES {
                let left = list.into_iter().filter(|at| OracleCalendar::leave(&said.closing, zone, *at));
                return Self { rules: said.texts.join("\n"), schedule, list: left.collect() };
            }
        }
    }
}

/// proves: I16, I23
#[test]
fn a_thousand_years_of_jobs_fire_as_the_oracle_lists() {
    let zones = zone::all();
    let mut sum = YearTotals::default();
    let mut met = BTreeSet::new();
    for n in 0..YEARS {
        let zone = &zones[n % zones.len()];
        met.insert(zone.name);
        year(n as u64, zone, &mut sum);
    }
    println!(
        "{YEARS} job-years in {} zones: {} fires, {} given up, {} clock steps, {} edits",
        met.len(),
        sum.fired,
        sum.skipped,
        sum.steps,
        sum.edits
    );
    assert_eq!(met.len(), zones.len());
    assert!(sum.fired > 10_000 && sum.skipped > 1_000 && sum.steps > 1_000 && sum.edits > 100);
}

fn year(n: u64, zone: &OracleZone, sum: &mut YearTotals) {
    let r = &mut OracleRandom::of(0x1ea5, n);
    let start = days(1970 + (n as i64 * 7) % 130, 1, 1) * 86_400;
    let end = start + 366 * 86_400;
    let catch_up = [CatchUp::Skip, CatchUp::Latest, CatchUp::All(3)][n as usize % 3];
    let policy = MisfirePolicy { grace: GRACE, catch_up, age: None, spread: None, newest: false, lost: None };
    let mut job = OracleJob::declared(r, zone, start, end);
    let (mut floor, mut now, mut at) = (start, start, 0);
    while now < end {
        let found = next(&job.schedule, Wall(floor * 1000), Wall(now * 1000), &policy);
        if let Some((first, last)) = found.skipped {
            assert_eq!(job.list.get(at), Some(&(first.0 / 1000)), "{} in {}", job.rules, zone.name);
            let old = job.list[at..].partition_point(|t| *t <= last.0 / 1000);
            assert_eq!(job.list[at + old - 1], last.0 / 1000, "{} in {}", job.rules, zone.name);
            assert!(last < Wall(now * 1000) - GRACE, "only what is older than the grace is given up");
            (at, floor) = (at + old, last.0 / 1000);
            sum.skipped += old;
        }
        let coming = found.due.map(|due| due.0 / 1000).filter(|due| *due < end);
        assert_eq!(coming, job.list.get(at).copied(), "{} in {} at {now}", job.rules, zone.name);
        match coming {
            Some(due) if due <= now => {
                (at, floor) = (at + 1, due);
                sum.fired += 1;
            }
            _ => wait(r, coming.unwrap_or(end), &mut now, sum),
        }
        // Whoever edits a job gives up what its old schedule named, and nothing of the past is the new one's.
        if r.percent(1) {
            floor = floor.max(now);
            (job, at) = (OracleJob::declared(r, zone, floor, end), 0);
            sum.edits += 1;
        }
    }
}

/// Time passes until a moment, unless the clock is set: forward, or back to what it showed before.
fn wait(r: &mut OracleRandom, until: i64, now: &mut i64, sum: &mut YearTotals) {
    match r.between(0, 29) {
        0 => *now += r.between(1, 36 * 3600),
        1 => *now -= r.between(1, 3 * 3600),
        _ => return *now = (*now).max(until + r.between(0, 5)),
    }
    sum.steps += 1;
}
