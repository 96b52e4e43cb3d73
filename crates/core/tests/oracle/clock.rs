//! The oracle itself: looks at every day, minute and second of the local clock, and asks at which instants the clock shows
//! it.

use super::language::{OracleLine, OracleRule};
use super::zone::{OracleZone, days};

/// What becomes of local times that a clock change skips or shows twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OracleDst {
    Skip,
    Shift,
    Once,
    Twice,
}

/// Further than any clock jumps.
const FAR: i64 = 2 * 86_400;

/// The first day that nobody looks at any more.
pub(crate) fn end_of_time() -> i64 {
    days(2400, 1, 1)
}

/// Every fire of several rules within `from..until`, at most `most` of them.
pub(crate) fn fires(
    rules: &[OracleRule],
    zone: &OracleZone,
    dst: Option<OracleDst>,
    from: i64,
    until: i64,
    most: usize,
) -> Vec<i64> {
    let mut found: Vec<i64> = rules
        .iter()
        .flat_map(|rule| match rule {
            OracleRule::Line(line) => of_line(line, zone, dst, from, until, most),
            OracleRule::Every(period, phase) => {
                (from..until).filter(|t| (t - phase).rem_euclid(*period) == 0).take(most).collect()
            }
            OracleRule::Once(at) => Some(*at).filter(|at| (from..until).contains(at)).into_iter().collect(),
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(most);
    found
}

/// The instant at which a local time is due that is written alone.
pub(crate) fn moment(zone: &OracleZone, local: i64) -> i64 {
    let mut found = Vec::new();
    shown(zone, OracleDst::Once, local, &mut found);
    found[0]
}

fn of_line(
    line: &OracleLine,
    zone: &OracleZone,
    dst: Option<OracleDst>,
    from: i64,
    until: i64,
    most: usize,
) -> Vec<i64> {
    let dst = dst.unwrap_or(if line.often { OracleDst::Twice } else { OracleDst::Once });
    let mut found = Vec::new();
    let (mut day, last) = ((from - FAR).div_euclid(86_400), (until + FAR).div_euclid(86_400));
    while day <= last.min(end_of_time()) {
        if line.names_day(day) {
            for local in times(line, day) {
                shown(zone, dst, local, &mut found);
            }
            // Nothing that comes later lies before this.
            let settled = (day - 3) * 86_400;
            if found.len() > most && found.iter().filter(|t| (from..settled).contains(*t)).count() > most {
                break;
            }
        }
        day += 1;
    }
    found.retain(|t| (from..until).contains(t));
    found.sort_unstable();
    found.dedup();
    found.truncate(most);
    found
}

/// Every local second of a day that the line names.
fn times(line: &OracleLine, day: i64) -> Vec<i64> {
    let mut found = Vec::new();
    for minute in 0..1440 {
        if line.hour[minute / 60] && line.minute[minute % 60] {
            let named = (0..60).filter(|second| line.second[*second]);
            found.extend(named.map(|second| day * 86_400 + (minute * 60 + second) as i64));
        }
    }
    found
}

/// The instants at which a local time is due.
fn shown(zone: &OracleZone, dst: OracleDst, local: i64, found: &mut Vec<i64>) {
    let changes = zone.changes_in(local - FAR, local + FAR);
    let before = zone.offset(local - FAR - 1);
    if changes.is_empty() {
        return found.push(local - before);
    }
    // A clock that stands at `local` has one of these offsets.
    let mut instants: Vec<i64> = std::iter::once(before)
        .chain(changes.iter().map(|(_, offset)| *offset))
        .map(|offset| local - offset)
        .filter(|instant| instant + zone.offset(*instant) == local)
        .collect();
    instants.sort_unstable();
    instants.dedup();
    match (dst, instants.first()) {
        (OracleDst::Twice, _) => found.extend(instants),
        (_, Some(first)) => found.push(*first),
        (OracleDst::Skip, None) => {}
        (OracleDst::Once | OracleDst::Shift, None) => {
            let gap = changes.iter().find(|(at, offset)| {
                let before = zone.offset(at - 1);
                at + before <= local && local < at + offset
            });
            let (at, _) = gap.expect("what no clock shows lies in a gap");
            found.push(if dst == OracleDst::Once { *at } else { local - zone.offset(at - 1) });
        }
    }
}
