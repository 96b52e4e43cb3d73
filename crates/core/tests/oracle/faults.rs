//! The judge is not blind: schedules with a planted fault, each of which the oracle's list must tell from a sound one.
//!
//! A fault is planted where the oracle compares: the schedule is told what one with that fault would make of the same words,
//! or its list is what such a one would list. So nothing of it is in the code that is shipped.

use super::calendars::OracleCalendar;
use super::cases::OracleSpec;
use super::clock::OracleDst;
use super::language::{OracleRule, moved};
use super::zone::{self, OracleZone, date};
use super::{OracleCase, OracleZones, due, read, spoil, spread, walked};

/// Cases tried for each fault.
const PATIENCE: u64 = 5_000;
/// Fires walked over to see which of them a fault leaves.
const WALK: usize = 20_000;

/// How a fault is planted.
enum PlantedFault {
    /// The schedule is told something else.
    Spec(fn(&mut OracleSpec)),
    /// It is read in another zone.
    Zone(fn(&OracleZone, i64) -> Option<String>),
    /// It lists something else; nothing where the fault has no say.
    Lists(fn(&CaseWindow<'_>) -> Option<Vec<i64>>),
}

/// A case, and the window in which its fires are listed.
struct CaseWindow<'a> {
    case: &'a OracleCase<'a>,
    from: i64,
    until: i64,
    most: usize,
    /// How many fires there are.
    count: usize,
}

use PlantedFault::{Lists, Spec, Zone as Elsewhere};

const FAULTS: &[(&str, PlantedFault)] = &[
    (
        "a skipped time is dropped under `shift`",
        Spec(|said| spoil::dst(said, Some(OracleDst::Shift), OracleDst::Skip)),
    ),
    (
        "a skipped time is dropped under `once`",
        Spec(|said| spoil::dst(said, Some(OracleDst::Once), OracleDst::Skip)),
    ),
    (
        "a skipped time is moved too far under `once`",
        Spec(|s| spoil::dst(s, Some(OracleDst::Once), OracleDst::Shift)),
    ),
    (
        "a skipped time runs under `skip`",
        Spec(|said| spoil::dst(said, Some(OracleDst::Skip), OracleDst::Once)),
    ),
    ("every gap is an hour long under `shift`", Lists(every_gap_an_hour)),
    ("a repeated time runs twice under `once`", Lists(twice_under_once)),
    (
        "a repeated time runs once under `twice`",
        Spec(|said| spoil::dst(said, Some(OracleDst::Twice), OracleDst::Skip)),
    ),
    ("every so often is taken for named times", Spec(|said| spoil::dst(said, None, OracleDst::Once))),
    ("named times are taken for every so often", Spec(|said| spoil::dst(said, None, OracleDst::Twice))),
    ("the zone is not looked at", Elsewhere(|_, _| Some("UTC".to_owned()))),
    ("the clock is never changed", Elsewhere(unchanged)),
    ("both day fields must agree", Lists(both_day_fields)),
    ("the day of the month is forgotten beside a weekday", Spec(|said| spoil::one_day_field(said, 4))),
    ("the weekday is forgotten beside a day of the month", Spec(|said| spoil::one_day_field(said, 2))),
    ("`L` is a day early", Spec(spoil::last_day)),
    ("`6L` is every Friday", Spec(spoil::last_weekday)),
    ("`15W` is the 15th on any day", Spec(spoil::nearest)),
    ("`#` is a week late", Spec(spoil::nth)),
    ("leap days are left out", Lists(no_leap_days)),
    ("weeks begin on Monday", Spec(spoil::week_start)),
    ("months are counted from 0", Spec(spoil::months)),
    ("steps are counted from the field's low end", Spec(spoil::steps)),
    ("a range past the end stops there", Spec(spoil::past_the_end)),
    ("years are not looked at", Spec(spoil::years)),
    ("the offset of `@every` is not looked at", Spec(spoil::phase)),
    ("rules that meet are due twice", Lists(twice_where_rules_meet)),
    ("`until` is included", Spec(|said| spoil::later(&mut said.until, 1))),
    ("`from` is left out", Spec(|said| spoil::later(&mut said.from, 1))),
    ("local moments are read in UTC", Spec(spoil::local_moments)),
    ("`H` and the jitter go by no name", Spec(|said| said.name.clear())),
    ("a jitter goes past the next fire", Lists(jitter_past_the_next)),
    (
        "calendars are turned inside out",
        Spec(|said| said.closing.iter_mut().for_each(OracleCalendar::invert)),
    ),
    ("the end of a window is held", Spec(|said| said.closing.iter_mut().for_each(OracleCalendar::lengthen))),
    ("one calendar of `only` is enough", Spec(|said| OracleCalendar::pour_together(&mut said.closing))),
    ("calendars are read in UTC", Lists(calendars_in_utc)),
];

/// proves: I16
#[test]
fn every_planted_fault_is_found_by_the_oracle() {
    let world = &OracleZones::new();
    let found = |half: usize| {
        let faults = FAULTS.iter().skip(half).step_by(2);
        faults.map(|(name, plant)| (*name, hunt(plant, world))).collect::<Vec<_>>()
    };
    let all = std::thread::scope(|scope| {
        let [first, second] = [0, 1].map(|half| scope.spawn(move || found(half)));
        [first, second].map(|half| half.join().expect("a hunt ends"))
    });
    let all = all.concat();
    for (name, tried) in &all {
        println!(
            "oracle: {name}: {}",
            tried.map_or("not found".to_owned(), |n| format!("found in case {n}"))
        );
    }
    let missed: Vec<_> = all.iter().filter(|(_, tried)| tried.is_none()).map(|(name, _)| *name).collect();
    assert!(missed.is_empty(), "not found in {PATIENCE} cases each: {missed:?}");
}

/// How many cases it took to find it.
fn hunt(plant: &PlantedFault, world: &OracleZones) -> Option<u64> {
    (1..=PATIENCE).find(|n| shows(plant, &OracleCase::of(world, 1, spread(*n))))
}

/// Whether a schedule with this fault lists something else than the oracle does.
fn shows(plant: &PlantedFault, case: &OracleCase<'_>) -> bool {
    let (zone, name) = (case.zone, case.zone.name);
    let faulty = match plant {
        Spec(change) => {
            let mut said = case.spec.clone();
            change(&mut said);
            if said.words() == case.spec.words() {
                return false;
            }
            read(&said, name).ok()
        }
        Elsewhere(other) => other(zone, case.near).and_then(|other| read(&case.spec, &other).ok()),
        Lists(_) => None,
    };
    let sound = || read(&case.spec, name).is_ok();
    if faulty.is_none() && !matches!(plant, Lists(_)) || !sound() {
        return false;
    }
    let (from, until, most) = case.window();
    let expected = due(&case.spec, zone, from, until, most);
    let count = expected.len();
    let limit = if case.spec.jitter.is_some() { count } else { most };
    let listed = match plant {
        Lists(list) => list(&CaseWindow { case, from, until, most, count }),
        _ => faulty.map(|faulty| walked(&faulty, from, until, limit)),
    };
    listed.is_some_and(|listed| listed != expected)
}

impl CaseWindow<'_> {
    /// What a schedule lists that is told this, unless it is too much.
    fn listed(&self, change: impl Fn(&mut OracleSpec), most: usize) -> Option<Vec<i64>> {
        let mut said = self.case.spec.clone();
        change(&mut said);
        Some(walked(&read(&said, self.case.zone.name).ok()?, self.from, self.until, most))
    }

    /// What the job says, if it neither has a jitter nor names calendars.
    fn plain(&self) -> Option<&OracleSpec> {
        Some(&self.case.spec).filter(|said| said.jitter.is_none() && said.closing.is_empty())
    }
}

fn sorted(mut list: Vec<i64>) -> Vec<i64> {
    list.sort_unstable();
    list
}

/// A zone that always has the offset which this one has now, if it is of whole hours.
fn unchanged(zone: &OracleZone, near: i64) -> Option<String> {
    let (hours, rest) = (zone.offset(near) / 3_600, zone.offset(near) % 3_600);
    (rest == 0 && (-14..=12).contains(&-hours)).then(|| format!("Etc/GMT{:+}", -hours))
}

fn every_gap_an_hour(window: &CaseWindow<'_>) -> Option<Vec<i64>> {
    window.plain().filter(|said| said.dst == Some(OracleDst::Shift))?;
    let shifted = window.listed(|_| {}, window.most)?;
    let shown = window.listed(|said| said.dst = Some(OracleDst::Skip), window.most)?;
    let zone = window.case.zone;
    let moved = |at: i64| {
        let change = zone.changes.iter().rev().find(|(change, _)| *change <= at);
        let gap = change.map_or(3_600, |(change, offset)| offset - zone.offset(change - 1));
        if shown.binary_search(&at).is_ok() || gap <= 0 { at } else { at + 3_600 - gap }
    };
    let mut all = sorted(shifted.into_iter().map(moved).collect());
    all.dedup();
    Some(all)
}

fn twice_under_once(window: &CaseWindow<'_>) -> Option<Vec<i64>> {
    window.plain().filter(|said| said.dst == Some(OracleDst::Once))?;
    let once = window.listed(|_| {}, window.most)?;
    let twice = window.listed(|said| said.dst = Some(OracleDst::Twice), window.most)?;
    let mut all = sorted([once, twice].concat());
    all.dedup();
    all.truncate(window.most);
    Some(all)
}

fn both_day_fields(window: &CaseWindow<'_>) -> Option<Vec<i64>> {
    window.plain().filter(|said| said.texts.len() == 1)?;
    let by_day = window.listed(|said| spoil::one_day_field(said, 2), WALK)?;
    let by_week = window.listed(|said| spoil::one_day_field(said, 4), WALK)?;
    if by_day.len().max(by_week.len()) == WALK || by_day == by_week {
        return None;
    }
    let both = by_day.into_iter().filter(|at| by_week.binary_search(at).is_ok());
    Some(both.take(window.most).collect())
}

fn no_leap_days(window: &CaseWindow<'_>) -> Option<Vec<i64>> {
    let said = window.plain()?;
    if !said.rules.iter().all(|rule| matches!(rule, OracleRule::Line(_))) {
        return None;
    }
    let zone = window.case.zone;
    let leap = |at: &i64| matches!(date((at + zone.offset(*at)).div_euclid(86_400)), (_, 2, 29));
    Some(window.listed(|_| {}, window.most)?.into_iter().filter(|at| !leap(at)).collect())
}

fn twice_where_rules_meet(window: &CaseWindow<'_>) -> Option<Vec<i64>> {
    let said = window.plain()?;
    let one = |n: usize| window.listed(|said| said.texts = vec![said.texts[n].clone()], window.most);
    let all: Option<Vec<_>> = (0..said.texts.len()).map(one).collect();
    let mut all = sorted(all?.concat());
    all.truncate(window.most);
    Some(all)
}

fn jitter_past_the_next(window: &CaseWindow<'_>) -> Option<Vec<i64>> {
    let said = &window.case.spec;
    let jitter = said.jitter.filter(|_| said.closing.is_empty())?;
    let unmoved = |said: &mut OracleSpec| said.jitter = None;
    let early = CaseWindow { from: window.from - jitter, case: window.case, ..*window };
    let all = early.listed(unmoved, window.count + WALK)?;
    let moved = all.into_iter().map(|at| at + moved(&said.name, at, jitter));
    Some(moved.filter(|at| *at >= window.from).take(window.count).collect())
}

fn calendars_in_utc(window: &CaseWindow<'_>) -> Option<Vec<i64>> {
    let said = &window.case.spec;
    if said.jitter.is_some() || said.closing.is_empty() || window.most < usize::MAX {
        return None;
    }
    let utc = zone::named("UTC");
    let all = window.listed(|said| said.closing.clear(), usize::MAX)?;
    Some(all.into_iter().filter(|at| OracleCalendar::leave(&said.closing, &utc, *at)).collect())
}
