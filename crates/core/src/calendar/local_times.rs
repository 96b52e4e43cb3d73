//! A set of local times, with searches for its next end and its next start.
//!
//! Local times are seconds since 1970-01-01T00:00:00 on the wall clock of whatever zone.

use alloc::vec::Vec;
use core::cell::Cell;

use crate::steps::step;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

/// A day in seconds.
pub(super) const DAY: i64 = 86_400;
const WEEK: i64 = 7 * DAY;
/// From the Monday before to the first local time there is, a Thursday.
const MONDAY: i64 = 3 * DAY;
/// Months looked at for a day of the year: eight years may lie between two leap days.
const MONTHS: usize = 12 * 9;

/// Bit `n` for each day `n` that a month may have.
const ALL_DAYS: u32 = u32::MAX - 1;

/// Half-open intervals in order, none of which touches another.
type Intervals = Vec<(i64, i64)>;

/// The budget of a search before it is given up.
#[derive(Debug)]
pub(crate) struct SearchBudget(Cell<u32>);

impl SearchBudget {
    /// A budget of this size.
    pub(crate) fn new(left: u32) -> Self {
        Self(Cell::new(left))
    }

    /// Takes some of it; `None` when there is not so much left.
    pub(crate) fn spend(&self, some: u32) -> Option<()> {
        self.0.set(self.0.get().checked_sub(some)?);
        Some(())
    }
}

/// The local times that a calendar holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalTimes {
    /// In seconds since Monday, 00:00.
    weekly: Intervals,
    /// Days of each month of every year: bit `n` for day `n`.
    yearly: [u32; 12],
    dated: Intervals,
}

/// A builder of local times from a calendar's lines.
#[derive(Debug, Default)]
pub(super) struct LocalTimesBuilder(LocalTimes);

impl LocalTimesBuilder {
    /// Adds an interval of every week that begins within it, in seconds since Monday.
    pub(super) fn weekly(&mut self, from: i64, until: i64) {
        if until <= WEEK {
            return self.0.weekly.push((from, until));
        }
        self.0.weekly.extend([(from, WEEK), (0, until - WEEK)]);
    }

    /// Adds days of each year, both included; the last may lie in the year after.
    pub(super) fn yearly(&mut self, first: (u32, u32), last: (u32, u32)) {
        let (mut month, mut day) = first;
        loop {
            step();
            self.0.yearly[month as usize - 1] |= 1 << day;
            if (month, day) == last {
                return;
            }
            (month, day) = if day < 31 { (month, day + 1) } else { (month % 12 + 1, 1) };
        }
    }

    /// Adds one interval.
    pub(super) fn dated(&mut self, from: i64, until: i64) {
        self.0.dated.push((from, until));
    }

    /// Finishes the set.
    pub(super) fn finish(self) -> LocalTimes {
        LocalTimes { weekly: joined(self.0.weekly), dated: joined(self.0.dated), ..self.0 }
    }
}

fn joined(mut all: Intervals) -> Intervals {
    all.sort_unstable();
    let mut found: Intervals = Vec::with_capacity(all.len());
    for (from, until) in all {
        match found.last_mut() {
            Some((_, end)) if from <= *end => *end = until.max(*end),
            _ => found.push((from, until)),
        }
    }
    found
}

/// The state of a part of a calendar at a local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartState {
    /// The part holds it, and everything up to this time; for ever, without one.
    Holds(Option<i64>),
    /// The part does not hold it, and begins again at this time; never, without one.
    Begins(Option<i64>),
}

impl LocalTimes {
    /// Whether it holds a local time.
    #[must_use]
    pub fn holds(&self, local: i64) -> bool {
        self.parts(local).into_iter().any(|part| matches!(part, PartState::Holds(_)))
    }

    /// The first local time at or after `from` that it does not hold.
    pub(crate) fn first_free(&self, from: i64, effort: &SearchBudget) -> Option<i64> {
        let mut local = from;
        loop {
            step();
            let holds = |part| match part {
                PartState::Holds(until) => Some(until.unwrap_or(i64::MAX)),
                PartState::Begins(_) => None,
            };
            match self.parts(local).into_iter().filter_map(holds).max() {
                None => return Some(local),
                Some(i64::MAX) => return None,
                Some(until) => local = until,
            }
            effort.spend(1)?;
        }
    }

    /// The first local time at or after `from` that it holds.
    pub(crate) fn first_held(&self, from: i64) -> Option<i64> {
        let begins = |part| match part {
            PartState::Holds(_) => Some(from),
            PartState::Begins(at) => at,
        };
        self.parts(from).into_iter().filter_map(begins).min()
    }

    /// How many intervals it has that never come again.
    pub(crate) fn dated(&self) -> usize {
        self.dated.len()
    }

    fn parts(&self, local: i64) -> [PartState; 3] {
        [self.weekly_part(local), self.yearly_part(local), dated_part(&self.dated, local)]
    }

    fn weekly_part(&self, local: i64) -> PartState {
        let (since, first) = ((local + MONDAY).rem_euclid(WEEK), self.weekly.first());
        let monday = local - since;
        match dated_part(&self.weekly, since) {
            PartState::Holds(_) if self.weekly == [(0, WEEK)] => PartState::Holds(None),
            PartState::Holds(until) => PartState::Holds(until.map(|until| monday + until)),
            PartState::Begins(Some(at)) => PartState::Begins(Some(monday + at)),
            PartState::Begins(None) => PartState::Begins(first.map(|(from, _)| monday + WEEK + from)),
        }
    }

    fn yearly_part(&self, local: i64) -> PartState {
        if self.yearly == [0; 12] {
            return PartState::Begins(None);
        }
        let Ok(now) = Timestamp::from_second(local) else { return PartState::Begins(None) };
        let today = Offset::UTC.to_datetime(now).date();
        let midnight = local - local.rem_euclid(DAY);
        let begins = |day: Date| midnight + i64::from((day - today).get_days()) * DAY;
        let held = self.yearly[today.month() as usize - 1] & (1 << today.day()) != 0;
        let turns = self.first_day(today, !held).map(begins);
        if held { PartState::Holds(turns) } else { PartState::Begins(turns) }
    }

    /// The first day from this one on that the days of the year name, or that they do not.
    fn first_day(&self, from: Date, named: bool) -> Option<Date> {
        let days = |month: i8| {
            let days = self.yearly[month as usize - 1];
            (if named { days } else { !days }) & ALL_DAYS
        };
        // Months that never name one are not looked at again in each year.
        let months: u16 = (1..=12).filter(|month| days(*month) != 0).map(|month| 1 << month).sum();
        let (mut year, mut month, mut day) = (from.year(), from.month(), from.day());
        for _ in 0..MONTHS {
            step();
            let left = months >> month;
            if left == 0 {
                (year, month, day) = (year + 1, 1, 1);
                continue;
            }
            if left & 1 == 0 {
                (month, day) = (month + left.trailing_zeros() as i8, 1);
            }
            let opening = Date::new(year, month, 1).ok()?;
            let whole = (2_u32 << (opening.days_in_month() - 1) << 1).wrapping_sub(2);
            let left = (days(month) & whole) >> day;
            if left != 0 {
                return Date::new(year, month, day + left.trailing_zeros() as i8).ok();
            }
            (month, day) = (month + 1, 1);
        }
        None
    }
}

/// The state of sorted intervals at a time.
fn dated_part(stretches: &[(i64, i64)], at: i64) -> PartState {
    let next = stretches.partition_point(|(_, until)| *until <= at);
    match stretches.get(next) {
        Some((from, until)) if *from <= at => PartState::Holds(Some(*until)),
        Some((from, _)) => PartState::Begins(Some(*from)),
        None => PartState::Begins(None),
    }
}
