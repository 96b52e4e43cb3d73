//! The oracle: an independent reading of cron lines, zones and clock changes, by looking at every moment. It shares no code
//! with the schedules it judges, and reads the same zone data byte by byte.
//!
//! `EVENKEEL_ORACLE_CASES` and `EVENKEEL_ORACLE_SEED` choose how many cases and which.

mod calendars;
mod cases;
mod clock;
mod faults;
mod language;
mod page;
mod spoil;
mod years;
mod zone;

use calendars::OracleCalendar;
use cases::{OracleRandom, OracleSpec};
use evenkeel_core::schedule::{Dst, Schedule, ScheduleSpec};
use evenkeel_core::time::Wall;
use language::OracleRule;
use std::collections::BTreeSet;
use zone::{OracleZone, date, days};

const YEARS: std::ops::RangeInclusive<i64> = 1970..=2100;
/// So many cases meet every zone in every year.
const CASES: u64 = 100_000;
/// From one case to the next; it shares no divisor with [`CASES`].
const STRIDE: u64 = 7_919;
/// How many the gate compares. `cargo xtask oracle` compares all, and the soak more than that.
const GATE_CASES: u64 = 20_000;
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
struct CaseTally {
    met: BTreeSet<(usize, i64)>,
    around: u64,
    under: u64,
    left_out: u64,
    fires: u64,
    refused: u64,
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the run says how long it took")]
fn schedules_agree_with_the_oracle() {
    let begun = std::time::Instant::now();
    let (cases, seed) = (number("EVENKEEL_ORACLE_CASES", GATE_CASES), number("EVENKEEL_ORACLE_SEED", 1));
    let world = OracleZones::new();
    let zones = &world.zones;
    let parts: Vec<CaseTally> = std::thread::scope(|scope| {
        let part = |n: u64| {
            let world = &world;
            scope.spawn(move || {
                let mut tally = CaseTally::default();
                (n..cases).step_by(2).for_each(|case| judge(world, seed, spread(case), &mut tally));
                tally
            })
        };
        [part(0), part(1)].map(|part| part.join().expect("the oracle agrees")).into()
    });
    let met: BTreeSet<_> = parts.iter().flat_map(|tally| tally.met.iter().copied()).collect();
    let (zones_met, years_met): (BTreeSet<_>, BTreeSet<_>) = met.iter().copied().unzip();
    let sum = |count: fn(&CaseTally) -> u64| parts.iter().map(count).sum::<u64>();
    println!(
        "oracle: {cases} cases agree ({} around a clock change, {} under calendars that left {} fires out, {} fires, {} refused as \
         never due), {} zones, {} years, {} of each \
         with each, {:.0} seconds, seed {seed}",
        sum(|t| t.around),
        sum(|t| t.under),
        sum(|t| t.left_out),
        sum(|t| t.fires),
        sum(|t| t.refused),
        zones_met.len(),
        years_met.len(),
        met.len(),
        begun.elapsed().as_secs_f64(),
    );
    if cases >= GATE_CASES {
        assert_eq!(zones_met.len(), zones.len(), "every zone is met");
        assert_eq!(years_met.len(), YEARS.count(), "every year is met");
    }
    if cases >= CASES {
        assert_eq!(met.len(), zones.len() * YEARS.count(), "every zone is met in every year");
    }
}

/// The first cases in another order, in which every zone and every year are met soon.
fn spread(case: u64) -> u64 {
    if case < CASES { case * STRIDE % CASES } else { case }
}

/// Every zone, and which of their clock changes between 1970 and 2100 are not by an hour.
struct OracleZones {
    zones: Vec<OracleZone>,
    odd: Vec<(usize, i64)>,
}

impl OracleZones {
    fn new() -> Self {
        let zones = zone::all();
        let (since, until) = (days(*YEARS.start(), 1, 1) * 86_400, days(*YEARS.end(), 12, 31) * 86_400);
        let odd = |(at, zone): (usize, &OracleZone)| {
            let jump = |(at, offset): &(i64, i64)| (offset - zone.offset(at - 1)).abs();
            let changes = zone.changes_in(since, until).iter().filter(|change| jump(change) != 3_600);
            changes.map(|(change, _)| (at, *change)).collect::<Vec<_>>()
        };
        let odd = zones.iter().enumerate().flat_map(odd).collect();
        Self { zones, odd }
    }
}

/// What a job says, a zone, and the window in which its fires are listed.
struct OracleCase<'a> {
    zone: &'a OracleZone,
    spec: OracleSpec,
    /// A clock change that it is about.
    change: Option<i64>,
    /// Which zone in which year.
    met: (usize, i64),
    near: i64,
}

impl<'a> OracleCase<'a> {
    /// The case of this number: around a clock change of its year if there is one. Once every zone was met in every year,
    /// clocks that do not jump by an hour come up more often than there are such.
    fn of(world: &'a OracleZones, seed: u64, case: u64) -> Self {
        let (random, zones) = (&mut OracleRandom::of(seed, case), &world.zones);
        let (round, at) = (case as usize / zones.len(), case as usize % zones.len());
        let year = 1970 + round as i64 % YEARS.count() as i64;
        let odd = (round >= YEARS.count() && random.percent(25)).then(|| *random.pick(&world.odd));
        let (at, year) = odd.map_or((at, year), |(at, change)| (at, date(change.div_euclid(86_400)).0));
        let zone = &zones[at];
        let (first, next) = (days(year, 1, 1) * 86_400, days(year + 1, 1, 1) * 86_400);
        let changes = zone.changes_in(first, next);
        let some = |r: &mut OracleRandom| (!changes.is_empty() && r.percent(80)).then(|| r.pick(changes).0);
        let change = odd.map(|(_, change)| change).or_else(|| some(random));
        let near = change.unwrap_or_else(|| random.between(first, next - 1));
        let said = OracleSpec::of(random, zone, near, change);
        Self { zone, spec: said, change, met: (at, year), near }
    }

    /// From when until when fires are listed, and at most how many.
    fn window(&self) -> (i64, i64, usize) {
        let (said, zone) = (&self.spec, self.zone);
        let (from, until, most) = match self.change {
            Some(change) if said.jitter.is_none() => around(said, zone, change),
            Some(change) => (change - AROUND / 2, change + ROW_YEARS * 365 * 86_400, ROW),
            None => (self.near, self.near + ROW_YEARS * 365 * 86_400, ROW),
        };
        if said.closing.is_empty() {
            return (from, until, most);
        }
        let (until, most) = under(said, zone, (from, until), most);
        (from, until, most)
    }
}

/// No clock is changed again before as much time has passed as it skipped, so no skipped time is shown later, and no fire
/// that is shifted by a gap comes after another change. Schedules go by that; should a zone ever do it, this is where it
/// is heard of.
#[test]
fn no_clock_is_changed_again_within_what_it_skipped() {
    let mut gaps = 0;
    for zone in zone::all() {
        for pair in zone.changes.windows(2) {
            let ((at, offset), (next, _)) = (pair[0], pair[1]);
            let gap = offset - zone.offset(at - 1);
            gaps += u64::from(gap > 0);
            assert!(next - at >= gap, "{}: {} and {}", zone.name, Wall(at * 1000), Wall(next * 1000));
        }
    }
    assert!(gaps > 50_000, "{gaps} gaps were looked at");
}

/// One case: the oracle and the schedule list the same.
fn judge(world: &OracleZones, seed: u64, case: u64, tally: &mut CaseTally) {
    let this = OracleCase::of(world, seed, case);
    let (said, zone) = (&this.spec, this.zone);
    tally.met.insert(this.met);
    let Some(schedule) = parsed(said, zone) else {
        tally.refused += 1;
        return;
    };
    tally.around += u64::from(this.change.is_some());
    let (from, until, most) = this.window();
    let expected = due(said, zone, from, until, most);
    if !said.closing.is_empty() {
        let open = OracleSpec { closing: Vec::new(), ..said.clone() };
        tally.under += 1;
        tally.left_out += (due(&open, zone, from, until, most).len() - expected.len()) as u64;
    }
    // What a jitter does to the last one depends on what is not listed any more.
    let computed = walked(&schedule, from, until, if said.jitter.is_some() { expected.len() } else { most });
    assert!(
        expected == computed,
        "case {case} of seed {seed}: {:?} in {} with dst {:?}, from {:?}, until {:?}, jitter {:?}, name {}, under {:?}, \
         looked at from {} until {}\n{}",
        said.texts,
        zone.name,
        said.dst,
        said.from,
        said.until,
        said.jitter,
        said.name,
        said.closing,
        Wall(from * 1000),
        Wall(until * 1000),
        differ(&expected, &computed)
    );
    tally.fires += expected.len() as u64;
}

/// What the oracle says is due.
fn due(said: &OracleSpec, zone: &OracleZone, from: i64, until: i64, most: usize) -> Vec<i64> {
    let reach = said.jitter.unwrap_or(0);
    let first = said.from.as_ref().map_or(i64::MIN, |(_, at)| *at).max(from - reach);
    let end = said.until.as_ref().map_or(i64::MAX, |(_, at)| *at).min(until);
    let named = clock::fires(&said.rules, zone, said.dst, first, end, most);
    let open = |at: i64| OracleCalendar::leave(&said.closing, zone, at);
    let Some(jitter) = said.jitter else { return named.into_iter().filter(|at| open(*at)).collect() };
    // How far a fire is moved does not depend on what calendars leave out.
    let moved = named.windows(2).filter(|pair| open(pair[0])).map(|pair| {
        let room = jitter.min(pair[1] - pair[0]);
        pair[0] + language::moved(&said.name, pair[0], room)
    });
    moved.filter(|due| *due >= from).collect()
}

/// Where calendars leave some out, a window is judged whole: up to the last of so many that would be due without them.
fn under(said: &OracleSpec, zone: &OracleZone, (from, until): (i64, i64), most: usize) -> (i64, usize) {
    if most == usize::MAX || said.jitter.is_some() {
        return (until, most);
    }
    let open = OracleSpec { closing: Vec::new(), ..said.clone() };
    let listed = due(&open, zone, from, until, 4 * most);
    (if listed.len() < 4 * most { until } else { listed[listed.len() - 1] }, usize::MAX)
}

/// A window around a clock change, narrower where a schedule is due often.
fn around(said: &OracleSpec, zone: &OracleZone, change: i64) -> (i64, i64, usize) {
    let mut half = AROUND;
    loop {
        let (from, until) = (change - half, change + half);
        if due(said, zone, from, until, usize::MAX).len() <= 2 * FIRES {
            return (from, until, usize::MAX);
        }
        half = if half > 14_400 { 14_400 } else { half / 4 };
    }
}

/// What a job says, read by the schedule.
fn read(said: &OracleSpec, zone: &str) -> Result<Schedule, String> {
    let dst = said.dst.map(|dst| match dst {
        clock::OracleDst::Skip => Dst::Skip,
        clock::OracleDst::Shift => Dst::Shift,
        clock::OracleDst::Once => Dst::Once,
        clock::OracleDst::Twice => Dst::Twice,
    });
    let bound =
        |bound: &Option<(String, i64)>| bound.as_ref().map_or_else(String::new, |(text, _)| text.clone());
    let jitter = said.jitter.map_or_else(String::new, |secs| format!("{secs}s"));
    let (text, from, until) = (said.texts.join("\n"), bound(&said.from), bound(&said.until));
    let (name, from, until, jitter) = (said.name.as_str(), &*from, &*until, &*jitter);
    let schedule = Schedule::read(&ScheduleSpec {
        text: &text,
        timezone: zone,
        name,
        dst,
        start_at: from,
        end_at: until,
        jitter,
    });
    schedule.map(|it| it.under(OracleCalendar::declared(&said.closing))).map_err(|error| error.to_string())
}

/// The schedule, unless it was refused because it is never due; then the oracle must say the same.
fn parsed(said: &OracleSpec, zone: &OracleZone) -> Option<Schedule> {
    let error = match read(said, zone.name) {
        Ok(schedule) => return Some(schedule),
        Err(error) => error,
    };
    let end = clock::end_of_time() * 86_400;
    let never = |(rule, text): (&OracleRule, &String)| {
        let fields = text.trim_start_matches("quartz:").split_whitespace().count();
        let since = if fields == 7 { days(1970, 1, 1) * 86_400 } else { RECENT };
        clock::fires(std::slice::from_ref(rule), zone, said.dst, since, end, 1).is_empty()
    };
    let agreed = if error.contains("never fires") {
        said.rules.iter().zip(&said.texts).filter(|(rule, _)| matches!(rule, OracleRule::Line(_))).any(never)
    } else if error.contains("is never due between") {
        due(
            &OracleSpec { jitter: None, closing: Vec::new(), ..said.clone() },
            zone,
            days(1902, 1, 1) * 86_400,
            end,
            1,
        )
        .is_empty()
    } else {
        error.contains("is not after start_at")
            && said.from.as_ref().map(|b| b.1) >= said.until.as_ref().map(|b| b.1)
    };
    let (texts, dst, from, until) = (&said.texts, said.dst, &said.from, &said.until);
    assert!(agreed, "{texts:?} in {} with dst {dst:?}, from {from:?}, until {until:?}: {error}", zone.name);
    None
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
