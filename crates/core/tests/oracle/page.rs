//! The page about clock changes, written by the schedules themselves and checked by the oracle.

use super::clock;
use super::language::{OracleLine, OracleRule};
use super::zone;
use evenkeel_core::schedule::{Dst, Schedule, ScheduleSpec};
use evenkeel_core::time::Wall;
use std::fmt::Write as _;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/concepts/time.md");

/// Zones, and the day before which their last changes are shown.
const SHOWN: &[(&str, (i64, i64, i64))] = &[
    ("Europe/Berlin", (2027, 1, 1)),
    ("America/New_York", (2027, 1, 1)),
    ("Australia/Lord_Howe", (2027, 1, 1)),
    ("Asia/Kolkata", (2027, 1, 1)),
    ("Africa/Casablanca", (2027, 1, 1)),
    ("Pacific/Apia", (2012, 1, 1)),
    ("Africa/Cairo", (2027, 1, 1)),
];

const RULES: [Option<(Dst, clock::OracleDst)>; 5] = [
    None,
    Some((Dst::Skip, clock::OracleDst::Skip)),
    Some((Dst::Shift, clock::OracleDst::Shift)),
    Some((Dst::Once, clock::OracleDst::Once)),
    Some((Dst::Twice, clock::OracleDst::Twice)),
];

const HEAD: &str = "# Clock changes, zone by zone

The tables show when jobs run around clock changes. For each zone they show the last day on which its clock went forward and the last
day on which it went back, and the effect of each [rule for clock changes](schedule.md#when-the-clocks-change). Each change is shown
for a schedule that names its time and for a schedule that means \"every so often\". Times are local, with the offset from UTC; *none*
means that the job is not due that day.

A test generates this page from the schedules, and compares it with an oracle that shares no code with them.
";

fn local(zone: &zone::OracleZone, instant: i64, seconds_from: i64) -> String {
    let offset = zone.offset(instant);
    let (_, month, day) = zone::date((instant + offset).div_euclid(86_400));
    let time = (instant + offset).rem_euclid(86_400);
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
    let date = if seconds_from == 0 { String::new() } else { format!("{month:02}-{day:02} ") };
    format!("{date}{:02}:{:02}{sign}{hours:02}:{minutes:02}", time / 3600, time / 60 % 60)
}

/// The cell of one rule: what is due around a change.
fn cell(
    zone: &zone::OracleZone,
    text: &str,
    rule: Option<(Dst, clock::OracleDst)>,
    from: i64,
    until: i64,
) -> String {
    let times =
        ScheduleSpec { text, timezone: zone.name, dst: rule.map(|(dst, _)| dst), ..ScheduleSpec::default() };
    let schedule = Schedule::read(&times).expect("the page's schedules are right");
    let next = |after: Wall| schedule.next(after);
    let found: Vec<i64> = std::iter::successors(next(Wall(from * 1000 - 1)), |last| next(*last))
        .map(|due| due.0 / 1000)
        .take_while(|due| *due < until)
        .collect();
    let line = [OracleRule::Line(OracleLine::read(text, &|_| 0))];
    let expected = clock::fires(&line, zone, rule.map(|(_, dst)| dst), from, until, usize::MAX);
    assert_eq!(found, expected, "{text} in {} by {rule:?}", zone.name);
    if found.is_empty() {
        return "*none*".to_owned();
    }
    let dates = i64::from(zone.name == "Pacific/Apia");
    found.iter().map(|due| local(zone, *due, dates)).collect::<Vec<_>>().join(", ")
}

fn rows(page: &mut String, zone: &zone::OracleZone, at: i64) {
    let (before, after) = (zone.offset(at - 1), zone.offset(at));
    let jump = (after - before).abs();
    // In the middle of what is skipped or shown twice, at most half an hour into it.
    let odd = at + before.min(after) + (jump / 2).min(1800);
    let (hour, minute) = (odd.rem_euclid(86_400) / 3600, odd / 60 % 60);
    let (from, until) = (at - 6 * 3600, at + 6 * 3600);
    let (year, month, day) = zone::date((at + before).div_euclid(86_400));
    let way = if after > before { "forward" } else { "back" };
    let change = format!("{year}-{month:02}-{day:02}, {way} {} min", jump / 60);
    for text in [format!("{minute} {hour} * * *"), format!("*/{} {hour} * * *", (jump / 120).clamp(15, 30))] {
        let _ = write!(page, "| {change} | `{text}` |");
        for rule in RULES {
            let _ = write!(page, " {} |", cell(zone, &text, rule, from, until));
        }
        page.push('\n');
    }
}

/// `UPDATE=1` writes the page anew.
#[test]
fn the_page_about_clock_changes_is_true() {
    let mut page = HEAD.to_owned();
    for (name, (year, month, day)) in SHOWN {
        let zone = zone::named(name);
        let until = zone::days(*year, *month, *day) * 86_400;
        let since = zone::days(1970, 1, 1) * 86_400;
        let changes = zone.changes_in(since, until).iter().rev().map(|(at, _)| *at);
        let forward = |at: &i64| zone.offset(*at) > zone.offset(at - 1);
        let _ = write!(page, "\n## {name}\n\n");
        if zone.changes_in(since, until).is_empty() {
            page.push_str("Its clock was not changed since 1970: all rules are the same.\n");
            continue;
        }
        page.push_str("| change | schedule | `dst` absent | `skip` | `shift` | `once` | `twice` |\n");
        page.push_str("|---|---|---|---|---|---|---|\n");
        changes.clone().find(forward).into_iter().for_each(|at| rows(&mut page, &zone, at));
        changes.clone().find(|at| !forward(at)).into_iter().for_each(|at| rows(&mut page, &zone, at));
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/concepts/time.md differs: run the test with UPDATE=1 and look at what changed"
    );
}
