//! What is written costs a bounded number of steps, whatever it is; steps are counted, so that the answer is the same on a
//! busy machine.

use super::*;
use crate::calendar::{Calendar as Declared, LINES_MAX, LocalTimes};
use crate::ids::CalendarName;
use crate::steps::tests::counted;
use alloc::vec;

const CORPUS: &str = include_str!("../../../tests/corpus/schedules.txt");
const ZONES: [&str; 5] = ["", "Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe", "Pacific/Apia"];
const DSTS: [Option<Dst>; 5] = [None, Some(Dst::Skip), Some(Dst::Shift), Some(Dst::Once), Some(Dst::Twice)];
/// Moments from which the next fire is asked for: the ends of time, beyond the last year that can be named, and between.
const AFTER: [i64; 8] = [
    i64::MIN,
    -62_000_000_000_000,
    0,
    1_773_500_966_000,
    4_102_444_800_001,
    32_503_680_000_000,
    253_000_000_000_000,
    i64::MAX,
];

/// What reading a rule costs at most beside a step for each byte: 400 years, as one that is never due is looked for.
const READ: u64 = 12_000;
/// What its lists cost at most: 256 parts in each field, each of which names all numbers.
const LISTS: u64 = 256 * (60 + 60 + 24 + 31 + 12 + 7 + 130);
/// What the next fire of a rule costs at most.
const NEXT: u64 = 250;
/// What the next fire of a rule costs at most under calendars.
const UNDER: u64 = 120_000;
/// How often a jitter of a day asks for it.
const MOVED: u64 = 32;

/// Rules that are seldom due, or never.
const RARE: &[&str] = &[
    "0 0 30 2 *",
    "0 0 31 2,4,6,9,11 *",
    "0 0 0 30 2 ? 1970-2099",
    "0 0 0 29 2 ? 2027",
    "0 0 0 29 2 ? 1970-2099/3",
    "0 0 0 1 1 ? 1970",
    "0 0 0 31 12 ? 2099",
    "0 0 29 2 */7",
    "0 0 29 2 1",
    "0 0 0 ? 2 1#5",
    "0 */5 2 ? 3 1L",
    "30 2 29 3 */7",
    "30 2 */28 3 0",
    "59 59 23 31W 12 ? 2099",
    "0 0 0 1 1 ? 2099\n0 0 29 2 */7\n0 0 0 ? 2 1#5",
    "@every 366d",
    "at 9999-12-31T23:59:59Z",
    "* * * * * *",
];

/// Texts that are long, and whose parts are many.
fn long() -> Vec<String> {
    vec![
        "*".repeat(MAX_TEXT),
        "*".repeat(MAX_TEXT + 1),
        format!("{} * * * *", "*,".repeat(32_000) + "1"),
        format!("{} * * * *", "*/1,".repeat(16_000) + "1"),
        format!("{} * * * *", ["*"; 256].join(",")),
        format!("{0} {0} {0} * {0} {0} {1}", ["*"; 256].join(","), ["1970-2099"; 256].join(",")),
        format!("0 0 0 {} * ?", "31W,".repeat(16_000) + "L"),
        format!("*/{} * * * *", "1".repeat(60_000)),
        format!("0 0 30 2 {}", " ".repeat(60_000) + "*"),
        "1 ".repeat(30_000),
        format!("@every {}s", "1".repeat(60_000)),
        format!("@every {}", "1ms".repeat(20_000)),
        format!("at {}", "2026-".repeat(12_000)),
        ["* * * * *"; 1_000].join("\n"),
        ["0 0 29 2 */7"; 16].join("\n"),
        ["30 2 */28 3 0"; 16].join("\n"),
        "\n".repeat(60_000),
    ]
}

/// Lines of the corpus, and lines whose fields are those of several.
fn mixed() -> Vec<String> {
    let corpus: Vec<String> = CORPUS.lines().map(|line| line.replace("\\n", "\n")).collect();
    let fields: Vec<Vec<&str>> = corpus.iter().map(|line| line.split_whitespace().collect()).collect();
    let crosses = fields.iter().enumerate().flat_map(|(n, one)| {
        let other = |ahead: usize| &fields[(n + ahead) % fields.len()];
        [1, 7, 19].map(|ahead| {
            let pick =
                |at: usize| *if at.is_multiple_of(2) { one } else { other(ahead) }.get(at).unwrap_or(&one[0]);
            (0..one.len()).map(pick).collect::<Vec<_>>().join(" ")
        })
    });
    corpus.iter().cloned().chain(crosses).collect()
}

/// proves: I16
#[test]
fn any_text_is_read_and_its_next_fire_found_in_a_bounded_number_of_steps() {
    let texts = RARE.iter().map(ToString::to_string).chain(long()).chain(mixed());
    let (mut read, mut asked) = (0, 0);
    for text in texts {
        let rules = text.lines().count().clamp(1, MAX_RULES) as u64;
        for (zone, dst) in ZONES.iter().flat_map(|zone| DSTS.map(|dst| (*zone, dst))) {
            for (jitter, often) in [("", 1), ("1d", MOVED)] {
                let times =
                    ScheduleSpec { text: &text, timezone: zone, dst, jitter, ..ScheduleSpec::default() };
                let (schedule, steps) = counted(|| Schedule::read(&times));
                let most = (READ + LISTS) * rules + text.len() as u64 + NEXT * rules * MOVED;
                assert!(steps <= most, "{steps} steps to read {times:.200?}");
                let Ok(schedule) = schedule else { continue };
                read += 1;
                for after in AFTER {
                    let (_, steps) = counted(|| schedule.next(Wall(after)));
                    assert!(steps <= NEXT * rules * often, "{steps} steps from {after}: {times:.200?}");
                    asked = steps.max(asked);
                }
            }
        }
    }
    assert!(read > 1_000, "{read} schedules were read");
    assert!(asked > NEXT / 2, "the dearest fire took {asked} steps: the bound is far off");
}

/// Calendars under their names.
type NamedCalendars = Vec<(CalendarName, Arc<LocalTimes>)>;

/// A calendar of these lines.
fn declared(days: &[&str], weekdays: &[&str], windows: &[&str]) -> (CalendarName, Arc<LocalTimes>) {
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let (days, weekdays, windows) = (owned(days), owned(weekdays), owned(windows));
    let calendar = Declared { days, weekdays, windows, ..Declared::new("c".parse().unwrap()) };
    (calendar.name.clone(), Arc::new(calendar.read().unwrap()))
}

/// Calendars that hold everything, or all but little, each in another way: those that close, and those that open.
fn closed() -> Vec<(CalendarFilter, u64)> {
    let day = |n: usize| format!("{:04}-{:02}-{:02}", 2026 + n / 336, 1 + n / 28 % 12, 1 + n % 28);
    let every_other = |from: usize| {
        let days: Vec<String> = (0..LINES_MAX).map(|n| day(2 * n + from)).collect();
        declared(&days.iter().map(String::as_str).collect::<Vec<_>>(), &[], &[])
    };
    let (odd, even) = (every_other(0), every_other(1));
    let year = declared(&["01-01..12-31"], &[], &[]);
    let week = declared(&[], &["mon-sun"], &[]);
    let nearly = declared(&["01-01..02-28", "03-01..12-31"], &["mon-sat"], &["sun 00:00..sun 23:59:59"]);
    let (noon, second) = (declared(&[], &[], &["12:00..13:00"]), declared(&[], &[], &["00:00:00..00:00:01"]));
    let (leap, monday) = (declared(&["02-29"], &[], &[]), declared(&[], &["mon"], &[]));
    let rarely = vec![leap, monday, second.clone()];
    let lists = [
        (vec![odd.clone(), even.clone()], vec![]),
        (vec![year], vec![]),
        (vec![week], vec![]),
        (vec![nearly.clone()], vec![]),
        (vec![nearly], rarely.clone()),
        (vec![odd.clone(), even.clone(), noon.clone()], rarely.clone()),
        (vec![], vec![noon, second]),
        (vec![], rarely),
        (vec![odd; 4], vec![even; 4]),
    ];
    let dated = |list: &[(CalendarName, Arc<LocalTimes>)]| -> u64 {
        list.iter().map(|(_, c)| c.dated() as u64).sum()
    };
    lists.map(|(except, only)| (dated(&except) + dated(&only), except, only)).map(with).into()
}

fn with((dated, except, only): (u64, NamedCalendars, NamedCalendars)) -> (CalendarFilter, u64) {
    (CalendarFilter::new(except, only), dated)
}

/// proves: I16
#[test]
fn the_next_fire_under_any_calendars_is_found_in_a_bounded_number_of_steps() {
    let rules = ["* * * * * *", "@every 7h", "30 12 * * *", "30 2 29 3 */7", "0 0 0 29 2 ? 1970-2099/3"];
    let zones = ["Europe/Berlin", "Australia/Lord_Howe"];
    let mut dearest = 0;
    for (calendars, dated) in closed() {
        for (text, zone) in rules.iter().flat_map(|rule| zones.map(|zone| (*rule, zone))) {
            for (jitter, often) in [("", 1), ("1d", MOVED)] {
                let schedule =
                    Schedule::read(&ScheduleSpec { text, timezone: zone, jitter, ..ScheduleSpec::default() })
                        .unwrap();
                let schedule = schedule.under(calendars.clone());
                for after in AFTER {
                    let (_, steps) = counted(|| schedule.next(Wall(after)));
                    let most = (UNDER + 10 * dated) * often;
                    assert!(
                        steps <= most,
                        "{steps} steps for {text} in {zone} from {after}: {calendars:.200?}"
                    );
                    dearest = steps.max(dearest);
                }
            }
        }
    }
    assert!(dearest > UNDER / 4, "the dearest fire took {dearest} steps: the bound is far off");
}

#[test]
fn a_calendar_of_long_lines_is_refused_unread() {
    let wide = vec!["1".repeat(64 * 1024); LINES_MAX];
    let calendar = Declared { days: wide, ..Declared::new("c".parse().unwrap()) };
    let (read, steps) = counted(|| calendar.read());
    assert!(read.is_err() && steps == 0, "{steps} steps");
}
