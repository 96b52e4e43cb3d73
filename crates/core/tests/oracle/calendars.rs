//! Random calendars, and what they hold, asked second by second.

use super::cases::OracleRandom;
use super::zone::{OracleZone, date, length, weekday_of};
use evenkeel_core::calendar::Calendar;
use evenkeel_core::schedule::CalendarFilter;
use std::sync::Arc;

const DAY: i64 = 86_400;
const NAMES: [&str; 7] = ["sun", "mon", "Tue", "wed", "thu", "fri", "SAT"];

/// One line: its kind, its text, and what it means. Local seconds, weekdays counted from Sunday.
#[derive(Clone, Debug)]
enum OracleCalendarLine {
    /// From one day to another, both included.
    Days(i64, i64),
    /// From one day of the year to another.
    Yearly((i64, i64), (i64, i64)),
    /// From one weekday to another.
    Weekdays(i64, i64),
    /// Beginning on one of these weekdays, from one time to another, maybe past midnight.
    Daily(Vec<i64>, i64, i64),
    /// From one time of the week to another.
    Weekly(i64, i64),
    /// From one local time to another.
    Dated(i64, i64),
}

/// A calendar that a job names.
#[derive(Clone, Debug)]
pub(crate) struct OracleCalendar {
    /// Whether a moment that it holds is closed, or one that it does not.
    except: bool,
    lines: Vec<OracleCalendarLine>,
}

impl OracleCalendar {
    /// Something with moments near this instant.
    pub(crate) fn of(r: &mut OracleRandom, near: i64) -> Self {
        let lines = (0..r.between(1, 4)).map(|_| OracleCalendarLine::of(r, near)).collect();
        Self { except: r.percent(65), lines }
    }

    /// Whether none of these closes the moment at which a zone's clock shows what it shows at this instant.
    pub(crate) fn leave(all: &[Self], zone: &OracleZone, instant: i64) -> bool {
        let local = instant + zone.offset(instant);
        all.iter().all(|one| one.lines.iter().any(|line| line.holds(local)) != one.except)
    }

    /// Closes what it left open, and the other way round.
    pub(crate) fn invert(&mut self) {
        self.except = !self.except;
    }

    /// Holds the end of each window, too.
    pub(crate) fn lengthen(&mut self) {
        for line in &mut self.lines {
            match line {
                OracleCalendarLine::Daily(_, from, until) if *until < DAY && *until + 1 != *from => {
                    *until += 1
                }
                OracleCalendarLine::Weekly(from, until) if (*until + 1) % DAY != 0 && *until + 1 != *from => {
                    *until += 1
                }
                OracleCalendarLine::Dated(_, until) => *until += 1,
                _ => {}
            }
        }
    }

    /// Makes one of all outside which a job is not due.
    pub(crate) fn pour_together(all: &mut Vec<Self>) {
        let (mut kept, only): (Vec<Self>, Vec<Self>) = all.drain(..).partition(|one| one.except);
        if !only.is_empty() {
            let lines = only.into_iter().flat_map(|one| one.lines).collect();
            kept.push(Self { except: false, lines });
        }
        *all = kept;
    }

    /// What is given to the schedule.
    pub(crate) fn declared(all: &[Self]) -> CalendarFilter {
        let mut lists = [Vec::new(), Vec::new()];
        for (n, one) in all.iter().enumerate() {
            let mut calendar = Calendar::new(format!("calendar-{n}").parse().expect("a name"));
            for line in &one.lines {
                let (kind, text) = line.text();
                [&mut calendar.days, &mut calendar.weekdays, &mut calendar.windows][kind].push(text);
            }
            let times = calendar.read().unwrap_or_else(|error| panic!("{error}"));
            lists[usize::from(!one.except)].push((calendar.name, Arc::new(times)));
        }
        let [except, only] = lists;
        CalendarFilter::new(except, only)
    }
}

impl OracleCalendarLine {
    fn of(r: &mut OracleRandom, near: i64) -> Self {
        let day = near.div_euclid(DAY) + r.between(-20, 20);
        let time = |r: &mut OracleRandom| {
            let step = *r.pick(&[3_600, 900, 60, 1]);
            r.between(0, DAY / step - 1) * step
        };
        match r.between(0, 6) {
            0 => Self::Days(day, day + if r.percent(50) { 0 } else { r.between(0, 40) }),
            1 => {
                let any = |r: &mut OracleRandom| {
                    let month = r.between(1, 12);
                    (month, r.between(1, length(2024, month)))
                };
                let (_, month, first) = date(day);
                let from = if r.percent(50) { (month, first) } else { any(r) };
                Self::Yearly(from, if r.percent(60) { from } else { any(r) })
            }
            2 => {
                let first = r.between(0, 6);
                Self::Weekdays(first, if r.percent(50) { first } else { r.between(0, 6) })
            }
            3..5 => {
                let every = r.percent(50);
                let weekdays = (0..7).filter(|_| every || r.percent(40)).collect::<Vec<_>>();
                let weekdays = if weekdays.is_empty() { vec![r.between(0, 6)] } else { weekdays };
                let from = time(r);
                let until = if r.percent(10) { DAY } else { time(r) };
                Self::Daily(weekdays, from, if until == from { until + 1 } else { until })
            }
            5 => {
                let (from, until) = (r.between(0, 6) * DAY + time(r), r.between(0, 6) * DAY + time(r));
                Self::Weekly(from, if until == from { until / DAY * DAY + (until + 1) % DAY } else { until })
            }
            _ => {
                let from = day * DAY + time(r);
                let longest = if r.percent(50) { DAY } else { 40 * DAY };
                Self::Dated(from, from + r.between(1, longest))
            }
        }
    }

    /// Whether it is a line of days, weekdays or windows, and how it is written.
    fn text(&self) -> (usize, String) {
        let dated = |day: i64| {
            let (year, month, day) = date(day);
            format!("{year:04}-{month:02}-{day:02}")
        };
        let time = |at: i64| match at % 60 {
            0 => format!("{:02}:{:02}", at / 3_600, at / 60 % 60),
            s => format!("{:02}:{:02}:{s:02}", at / 3_600, at / 60 % 60),
        };
        let weekday = |day: i64| NAMES[day as usize];
        let span = |a: String, b: String| if a == b { a } else { format!("{a}..{b}") };
        match self {
            Self::Days(first, last) => (0, span(dated(*first), dated(*last))),
            Self::Yearly(first, last) => {
                let shown = |(month, day): (i64, i64)| format!("{month:02}-{day:02}");
                (0, span(shown(*first), shown(*last)))
            }
            Self::Weekdays(first, last) if first == last => (1, weekday(*first).to_owned()),
            Self::Weekdays(first, last) => (1, format!("{}-{}", weekday(*first), weekday(*last))),
            Self::Daily(weekdays, from, until) => {
                let names: Vec<_> = weekdays.iter().map(|day| weekday(*day)).collect();
                let on = if names.len() == 7 { String::new() } else { format!("{} ", names.join(",")) };
                (2, format!("{on}{}..{}", time(*from), time(*until)))
            }
            Self::Weekly(from, until) => {
                let shown = |at: i64| format!("{} {}", weekday(at / DAY), time(at % DAY));
                (2, format!("{}..{}", shown(*from), shown(*until)))
            }
            Self::Dated(from, until) => {
                let shown = |at: i64| format!("{}T{}", dated(at.div_euclid(DAY)), time(at.rem_euclid(DAY)));
                (2, format!("{}..{}", shown(*from), shown(*until)))
            }
        }
    }

    fn holds(&self, local: i64) -> bool {
        let (day, at) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let weekday = weekday_of(day);
        let between = |low: i64, high: i64, n: i64| {
            if low <= high { (low..=high).contains(&n) } else { n >= low || n <= high }
        };
        match self {
            Self::Days(first, last) => (*first..=*last).contains(&day),
            Self::Yearly(first, last) => {
                let (_, month, day) = date(day);
                let number = |(month, day): (i64, i64)| month * 100 + day;
                between(number(*first), number(*last), month * 100 + day)
            }
            Self::Weekdays(first, last) => between(*first, *last, weekday),
            Self::Daily(weekdays, from, until) if from < until => {
                weekdays.contains(&weekday) && (*from..*until).contains(&at)
            }
            Self::Daily(weekdays, from, until) => {
                let yesterday = weekday_of(day - 1);
                (weekdays.contains(&weekday) && at >= *from) || (weekdays.contains(&yesterday) && at < *until)
            }
            Self::Weekly(from, until) => {
                let now = weekday * DAY + at;
                if from < until { (*from..*until).contains(&now) } else { now >= *from || now < *until }
            }
            Self::Dated(from, until) => (*from..*until).contains(&local),
        }
    }
}
