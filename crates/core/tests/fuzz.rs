//! Whatever is written as a schedule: it is read or refused, and what is read keeps its promises. Starts from a corpus and
//! changes it at random, the same way each time; `EVENKEEL_FUZZ_ROUNDS` and `EVENKEEL_FUZZ_SEED` choose other ways.

use evenkeel_core::calendar::Calendar;
use evenkeel_core::schedule::{CalendarFilter, Dst, Schedule, ScheduleSpec};
use evenkeel_core::time::{Millis, Wall};

const CORPUS: &str = include_str!("corpus/schedules.txt");
const CALENDARS: &str = include_str!("corpus/calendars.txt");
const ROUNDS: u64 = 8_000;
const ALPHABET: &[&str] = &[
    "*", "/", "-", ",", "?", "L", "W", "#", "H", "(", ")", " ", "\n", "\t", "0", "1", "5", "9", "31", "59",
    "60", "2099", "jan", "MON", "@", "@every ", "at ", " offset ", "vixie:", "quartz:", "s", "h", ":", "T",
    "Z", "é", "\0",
];
const WORDS: &[&str] = &[
    "..", "-", ":", ",", " ", "T", "0", "1", "9", "12", "24", "31", "60", "00:00", "06:00", "22:00", "2026-",
    "02-29", "mon", "SUN", "fri ", "sat-", "é", "\0",
];
const ZONES: &[&str] =
    &["", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"];
const BOUNDS: &[&str] = &["", "", "", "2026-03-29T02:30:00", "2027-01-01", "soon"];

struct FuzzRandom(u64);

impl FuzzRandom {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

/// A text of the corpus, changed in a few places.
fn changed(corpus: &[String], alphabet: &[&str], r: &mut FuzzRandom) -> String {
    let mut text: Vec<char> = corpus[r.below(corpus.len())].chars().collect();
    for _ in 0..r.below(5) {
        let (from, to) = (r.below(text.len() + 1), r.below(text.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match r.below(5) {
            0 => drop(text.drain(from..to.min(from + 3))),
            1 => drop(text.splice(from..from, r.pick(alphabet).chars())),
            2 => drop(text.splice(from..to.min(from + 1), r.pick(alphabet).chars())),
            3 => {
                let again: Vec<char> =
                    text[from..to].iter().copied().cycle().take((to - from) * r.below(40)).collect();
                text.splice(from..from, again);
            }
            _ => {
                let other: Vec<char> = corpus[r.below(corpus.len())].chars().collect();
                text.splice(from.., other[r.below(other.len() + 1)..].iter().copied());
            }
        }
    }
    text.into_iter().collect()
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn whatever_is_written_is_refused_or_keeps_its_promises() {
    let corpus: Vec<String> = CORPUS.lines().map(|line| line.replace("\\n", "\n")).collect();
    let r = &mut FuzzRandom(number("EVENKEEL_FUZZ_SEED", 1));
    let mut read = 0;
    for round in 0..number("EVENKEEL_FUZZ_ROUNDS", ROUNDS) {
        let text = match corpus.get(round as usize) {
            Some(text) => text.clone(),
            None => changed(&corpus, ALPHABET, r),
        };
        let dst = [None, Some(Dst::Skip), Some(Dst::Shift), Some(Dst::Once), Some(Dst::Twice)][r.below(5)];
        let times = ScheduleSpec {
            text: &text,
            timezone: r.pick(ZONES),
            name: "fuzz",
            dst,
            start_at: r.pick(BOUNDS),
            end_at: r.pick(BOUNDS),
            jitter: r.pick(&["", "", "5m", "1d"]),
        };
        match Schedule::read(&times) {
            Ok(schedule) => {
                read += 1;
                keeps(&schedule, &times, r);
            }
            Err(error) => {
                let said = error.to_string();
                assert!(!said.is_empty() && said.len() < 600 && !said.contains('\n'), "{text:?}: {said}");
                let marked = error.marked(&text);
                assert_eq!(marked.is_some(), error.span().is_some(), "{text:?}: {said}");
                assert!(marked.is_none_or(|marked| marked.ends_with('^')), "{text:?}: {said}");
            }
        }
    }
    assert!(read > 500, "only {read} texts were schedules");
}

/// Strictly onwards, the same whenever it is read, and `latest` where `next` arrives.
fn keeps(schedule: &Schedule, times: &ScheduleSpec<'_>, r: &mut FuzzRandom) {
    let again = Schedule::read(times).expect("it was read before");
    assert_eq!(*schedule, again, "{times:?}");
    let start = Wall(r.below(4_000_000_000) as i64 * 1000 - 500_000_000_000);
    let mut walked = vec![];
    let mut now = start;
    for _ in 0..6 {
        let next = schedule.next(now);
        assert_eq!(again.next(now), next, "{times:?} after {now}");
        let Some(due) = next else { break };
        assert!(due > now, "{times:?}: {due} after {now}");
        assert_eq!(
            schedule.next(due - Millis(1)),
            Some(due),
            "{times:?}: a fire is found from just before it"
        );
        walked.push(due);
        now = due;
    }
    let _ = schedule.notes(walked.first().copied().unwrap_or(start));
    assert_eq!(schedule.latest(start, start), None);
    if let Some(last) = walked.last() {
        assert_eq!(schedule.latest(start, *last), Some(*last), "{times:?} from {start}");
        let before = walked.iter().rev().nth(1).copied();
        assert_eq!(schedule.latest(start, *last - Millis(1)), before, "{times:?} from {start}");
    }
}

/// What is declared under the words in front of each text.
fn calendar(lines: &[String]) -> Calendar {
    let mut calendar = Calendar::new("fuzz".parse().expect("a name"));
    for line in lines {
        match line.split_once(' ') {
            Some(("days", text)) => calendar.days.push(text.to_owned()),
            Some(("weekdays", text)) => calendar.weekdays.push(text.to_owned()),
            Some((_, text)) => calendar.windows.push(text.to_owned()),
            None => calendar.windows.push(line.clone()),
        }
    }
    calendar
}

#[test]
fn whatever_is_written_as_a_calendar_is_refused_or_keeps_its_promises() {
    let corpus: Vec<String> = CALENDARS.lines().map(ToOwned::to_owned).collect();
    let r = &mut FuzzRandom(number("EVENKEEL_FUZZ_SEED", 1));
    let rules = ["*/7 * * * *", "30 2 * * *", "@every 90s", "0 0 29 2 *", "at 2026-12-25T12:00:00"];
    let mut read = 0;
    for round in 0..number("EVENKEEL_FUZZ_ROUNDS", ROUNDS) {
        let one = match corpus.get(round as usize) {
            Some(line) => line.clone(),
            None => changed(&corpus, WORDS, r),
        };
        let calendar = calendar(&[one]);
        let times = match calendar.read() {
            Ok(times) => times,
            Err(error) => {
                let said = error.to_string();
                assert!(said.starts_with("calendar fuzz: line 1 of "), "{calendar:?}: {said}");
                assert!(said.len() < 400 && !said.contains('\n'), "{calendar:?}: {said}");
                continue;
            }
        };
        read += 1;
        let zone = r.pick(ZONES);
        let rule = Schedule::parse(r.pick(&rules), zone).expect("a rule");
        let named = vec![(calendar.name.clone(), times.into())];
        let (shut, inside) = (
            rule.clone().under(CalendarFilter::new(named.clone(), vec![])),
            rule.clone().under(CalendarFilter::new(vec![], named)),
        );
        // What is due is due either without the calendar or within it, and nothing is due else.
        let start = Wall(1_600_000_000_000 + r.below(1_000_000_000) as i64 * 1000);
        let mut now = start;
        for _ in 0..5 {
            let next = rule.next(now);
            assert_eq!(
                shut.next(now).into_iter().chain(inside.next(now)).min(),
                next,
                "{calendar:?} in {zone:?} after {now}"
            );
            let Some(due) = next else { break };
            let (out, within) = (shut.next(due - Millis(1)) == next, inside.next(due - Millis(1)) == next);
            assert!(out != within, "{calendar:?} in {zone:?}: {due} is due in one of two ways");
            now = due;
        }
        for note in shut.notes(now).iter().chain(&inside.notes(now)) {
            assert!(!note.is_empty() && !note.contains('\n'), "a note is one line: {note:?}");
        }
    }
    assert!(read > 500, "only {read} texts were calendars");
}
