//! The oracle: an independent reading of cron lines, zones and clock changes, by looking at every moment. It shares no code
//! with the schedules it judges, and reads the same zone data byte by byte.
//!
//! `EVENKEEL_ORACLE_CASES` and `EVENKEEL_ORACLE_SEED` choose how many cases and which.

mod cases;
mod clock;
mod language;
mod zone;

use cases::Random;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;
use language::Line;
use std::collections::BTreeSet;
use zone::{Zone, days};

const YEARS: std::ops::RangeInclusive<i64> = 1970..=2100;
const CASES: u64 = 100_000;
/// Around a clock change: so many seconds, and at most so many fires on either side.
const AROUND: i64 = 3 * 86_400;
const FIRES: usize = 200;
/// Away from one: so many fires within so many years.
const ROW: usize = 50;
const ROW_YEARS: i64 = 12;
/// 2025-01-01: a line without years that never fires after this is refused.
const RECENT: i64 = 1_735_689_600;

/// What a part of the cases came to.
#[derive(Default)]
struct Tally {
    met: BTreeSet<(usize, i64)>,
    around: u64,
    fires: u64,
    refused: u64,
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// proves: I17
#[test]
#[expect(clippy::disallowed_methods, reason = "the run says how long it took")]
fn schedules_agree_with_the_oracle() {
    let begun = std::time::Instant::now();
    let (cases, seed) = (number("EVENKEEL_ORACLE_CASES", CASES), number("EVENKEEL_ORACLE_SEED", 1));
    let zones = zone::all();
    let parts: Vec<Tally> = std::thread::scope(|scope| {
        let part = |n: u64| {
            let zones = &zones;
            scope.spawn(move || {
                let mut tally = Tally::default();
                (n..cases).step_by(2).for_each(|case| judge(zones, seed, case, &mut tally));
                tally
            })
        };
        [part(0), part(1)].map(|part| part.join().expect("the oracle agrees")).into()
    });
    let met: BTreeSet<_> = parts.iter().flat_map(|tally| tally.met.iter().copied()).collect();
    let (zones_met, years_met): (BTreeSet<_>, BTreeSet<_>) = met.iter().copied().unzip();
    let sum = |count: fn(&Tally) -> u64| parts.iter().map(count).sum::<u64>();
    println!(
        "oracle: {cases} cases agree ({} around a clock change, {} fires, {} refused as never due), {} zones, {} years, {} \
         of each with each, {:.0} seconds, seed {seed}",
        sum(|t| t.around),
        sum(|t| t.fires),
        sum(|t| t.refused),
        zones_met.len(),
        years_met.len(),
        met.len(),
        begun.elapsed().as_secs_f64(),
    );
    if cases >= CASES {
        assert_eq!(zones_met.len(), zones.len(), "every zone is met");
        assert_eq!(years_met.len(), YEARS.count(), "every year is met");
        assert_eq!(met.len(), zones.len() * YEARS.count(), "every zone is met in every year");
    }
}

/// One case: a line, a zone and a year, around a clock change of that year if there is one.
fn judge(zones: &[Zone], seed: u64, case: u64, tally: &mut Tally) {
    let random = &mut Random::of(seed, case);
    let at = case as usize % zones.len();
    let zone = &zones[at];
    let year = 1970 + (case as usize / zones.len()) as i64 % YEARS.count() as i64;
    let text = cases::line(random);
    let line = Line::read(&text, &|_| 0);
    let Some(schedule) = parsed(&text, &line, zone) else {
        tally.refused += 1;
        tally.met.insert((at, year));
        return;
    };
    let (first, next) = (days(year, 1, 1) * 86_400, days(year + 1, 1, 1) * 86_400);
    let changes = zone.changes_in(first, next);
    let (from, until, most) = if !changes.is_empty() && random.percent(80) {
        tally.around += 1;
        around(&line, zone, random.pick(changes).0)
    } else {
        let from = random.between(first, next - 1);
        (from, from + ROW_YEARS * 365 * 86_400, ROW)
    };
    let expected = clock::fires(&line, zone, None, from, until, most);
    let computed = walked(&schedule, from, until, most);
    assert!(
        expected == computed,
        "case {case} of seed {seed}: {text:?} in {} from {} until {}\n{}",
        zone.name,
        Wall(from * 1000),
        Wall(until * 1000),
        differ(&expected, &computed)
    );
    tally.fires += expected.len() as u64;
    tally.met.insert((at, year));
}

/// A window around a clock change, narrower where a line is due often.
fn around(line: &Line, zone: &Zone, change: i64) -> (i64, i64, usize) {
    let mut half = AROUND;
    loop {
        let (from, until) = (change - half, change + half);
        let found = clock::fires(line, zone, None, from, until, usize::MAX);
        if found.len() <= 2 * FIRES {
            return (from, until, usize::MAX);
        }
        half = if half > 14_400 { 14_400 } else { half / 4 };
    }
}

/// The schedule, unless it was refused because it is never due; then the oracle must say the same.
fn parsed(text: &str, line: &Line, zone: &Zone) -> Option<Schedule> {
    match Schedule::parse(text, zone.name) {
        Ok(schedule) => Some(schedule),
        Err(error) => {
            assert!(error.to_string().contains("never fires"), "{text:?}: {error}");
            let since = if text.split(' ').count() == 7 { days(1970, 1, 1) * 86_400 } else { RECENT };
            let found = clock::fires(line, zone, None, since, clock::end_of_time() * 86_400, 1);
            assert!(found.is_empty(), "{text:?} in {} is due at {}", zone.name, Wall(found[0] * 1000));
            None
        }
    }
}

fn walked(schedule: &Schedule, from: i64, until: i64, most: usize) -> Vec<i64> {
    std::iter::successors(schedule.next(Wall(from * 1000 - 1)), |last| schedule.next(*last))
        .map(|due| due.0.div_euclid(1000))
        .take_while(|due| *due < until)
        .take(most)
        .collect()
}

/// Both lists from a little before they differ.
fn differ(expected: &[i64], computed: &[i64]) -> String {
    let same = expected.iter().zip(computed).take_while(|(a, b)| a == b).count();
    let told = |list: &[i64]| {
        let tail = list.iter().skip(same.saturating_sub(2)).take(12);
        tail.map(|t| Wall(t * 1000).to_string()).collect::<Vec<_>>().join("\n    ")
    };
    format!(
        "  {same} agree; the oracle goes on\n    {}\n  the schedule\n    {}",
        told(expected),
        told(computed)
    )
}
