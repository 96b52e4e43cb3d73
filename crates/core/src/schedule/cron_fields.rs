//! The fields of a cron rule, and the next local time that they name, found by jumping from field to field.
//!
//! Local times are seconds since 1970-01-01T00:00:00 on the wall clock of some zone; which instants they are is the
//! business of [`super::zone`].

use alloc::boxed::Box;

use crate::steps::step;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

/// The Gregorian calendar repeats after this many years, so a rule that misses all of them misses for ever.
const CYCLE: usize = 400;

/// Every weekday pattern, repeated through a month.
const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;

/// A cron rule as sets of numbers. Bit `n` of a field stands for the number `n`, weekdays count from Sunday = 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CronFields {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u32,
    pub(super) months: u16,
    /// Weekdays of every week.
    pub(super) weekdays: u8,
    /// Days of the month.
    pub(super) days: u32,
    /// Vixie's rule: with both day fields restricted, one of them is enough.
    pub(super) either_day: bool,
    /// What only Quartz's dialect can say, if the rule says any of it.
    pub(super) quartz: Option<Box<QuartzFields>>,
}

/// The part of a cron rule that few have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct QuartzFields {
    /// Weekdays of the month's last seven days (`6L`).
    pub(super) last: u8,
    /// Weekdays of one week: bit `7 * (n - 1) + weekday` for the n-th (`6#3`).
    pub(super) nth: u64,
    /// Bit `n`: the weekday nearest to day `n` (`15W`).
    pub(super) nearest: u32,
    /// Bit `n`: `n` days before the last (`L`, `L-3`).
    pub(super) from_last: u32,
    /// Bit `n`: the weekday nearest to `n` days before the last (`LW`).
    pub(super) nearest_from_last: u32,
    /// The years, when they are restricted.
    pub(super) years: Option<Years>,
}

/// A set of years.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Years([u64; 3]);

impl Years {
    /// The first year that can be named.
    pub(super) const FIRST: u16 = 1970;
    /// The last year that can be named.
    pub(super) const LAST: u16 = 2099;

    /// Adds a year between [`Self::FIRST`] and [`Self::LAST`].
    pub(super) fn add(&mut self, year: u16) {
        let bit = usize::from(year - Self::FIRST);
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    /// The first year of the set at or after `year`.
    fn first(&self, year: i16) -> Option<i16> {
        let from = usize::try_from(year - Self::FIRST as i16).unwrap_or(0);
        let mut words = self.0.iter().enumerate().skip(from / 64);
        let bits = |(at, word): (usize, &u64)| {
            let word = if at == from / 64 { word >> (from % 64) << (from % 64) } else { *word };
            (word != 0).then(|| 64 * at + word.trailing_zeros() as usize)
        };
        let bit = words.find_map(bits)?;
        Some(Self::FIRST as i16 + bit as i16)
    }
}

impl CronFields {
    /// The years, when they are restricted.
    fn years(&self) -> Option<&Years> {
        self.quartz.as_ref()?.years.as_ref()
    }

    /// Whether the rule holds in every year.
    pub(super) fn every_year(&self) -> bool {
        self.years().is_none()
    }

    /// Whether the rule names this local time.
    pub(super) fn names(&self, local: i64) -> bool {
        self.first(local) == Some(local)
    }

    /// The first local time at or after `from` that the rule names.
    pub(super) fn first(&self, from: i64) -> Option<i64> {
        let from = Offset::UTC.to_datetime(Timestamp::from_second(from).ok()?);
        let today = from.date();
        let mut day = self.first_day(today)?;
        if day == today {
            if let Some(time) = self.time(from.hour() as u32, from.minute() as u32, from.second() as u32) {
                return at(today, time);
            }
            day = self.first_day(today.tomorrow().ok()?)?;
        }
        at(day, self.first_time())
    }

    /// The first day at or after `from` that the rule names.
    fn first_day(&self, from: Date) -> Option<Date> {
        let (mut year, mut month, mut day) = (from.year(), from.month() as u32, from.day() as u32);
        for _ in 0..CYCLE {
            step();
            if let Some(named) = self.years().map(|years| years.first(year)) {
                let named = named?;
                if named > year {
                    (year, month, day) = (named, 1, 1);
                }
            }
            while let Some(named) = first_bit(u64::from(self.months), month) {
                step();
                if named > month {
                    (month, day) = (named, 1);
                }
                let opening = Date::new(year, month as i8, 1).ok()?;
                if let Some(named) = first_bit(self.days_of(opening), day) {
                    return Date::new(year, month as i8, named as i8).ok();
                }
                (month, day) = (month + 1, 1);
            }
            (year, month, day) = (year + 1, 1, 1);
        }
        None
    }

    /// The days of the month that opens with `opening`: bit `n` for day `n`.
    fn days_of(&self, opening: Date) -> u64 {
        let length = opening.days_in_month() as u32;
        let whole = (2 << length) - 2;
        let first = opening.weekday().to_sunday_zero_offset() as u32;
        // Weekdays from the first day's on, so that bit 0 is the month's first day.
        let turned = |set: u64| (set >> first | set << (7 - first)) & 0x7f;
        let mut by_week = turned(u64::from(self.weekdays)) * WEEKS;
        let mut by_day = u64::from(self.days);
        if let Some(quartz) = &self.quartz {
            let nth = |week: u32| turned(quartz.nth >> (7 * week) & 0x7f) << (7 * week);
            by_week |= (0..5).map(nth).sum::<u64>();
            by_week |= (turned(u64::from(quartz.last)) * WEEKS) & (0x7f << (length - 7));
            for before in bits(quartz.from_last).filter(|before| *before < length) {
                by_day |= 1 << (length - before);
            }
            let near_last = bits(quartz.nearest_from_last).filter(|n| *n < length).map(|n| length - n);
            for day in bits(quartz.nearest).filter(|day| *day <= length).chain(near_last) {
                by_day |= 1 << nearest_weekday(day, (first + day - 1) % 7, length);
            }
        }
        let (by_week, by_day) = (by_week << 1 & whole, by_day & whole);
        if self.either_day { by_day | by_week } else { by_day & by_week }
    }

    /// The first time of day at or after the given one, in seconds.
    fn time(&self, hour: u32, minute: u32, second: u32) -> Option<u32> {
        let (hours, minutes) = (u64::from(self.hours), self.minutes);
        if first_bit(hours, hour) == Some(hour) {
            if first_bit(minutes, minute) == Some(minute)
                && let Some(second) = first_bit(self.seconds, second)
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = first_bit(minutes, minute + 1) {
                return Some(hour * 3600 + minute * 60 + self.seconds.trailing_zeros());
            }
        }
        let hour = first_bit(hours, hour + 1)?;
        Some(hour * 3600 + minutes.trailing_zeros() * 60 + self.seconds.trailing_zeros())
    }

    /// The first time of any day, in seconds.
    fn first_time(&self) -> u32 {
        self.hours.trailing_zeros() * 3600
            + self.minutes.trailing_zeros() * 60
            + self.seconds.trailing_zeros()
    }
}

/// The Monday to Friday nearest to a day (whose weekday is given) without leaving its month.
fn nearest_weekday(day: u32, weekday: u32, length: u32) -> u32 {
    match weekday {
        0 if day == length => day - 2,
        0 => day + 1,
        6 if day == 1 => day + 2,
        6 => day - 1,
        _ => day,
    }
}

/// The lowest set bit at or above `from`.
fn first_bit(set: u64, from: u32) -> Option<u32> {
    let above = set.checked_shr(from)?;
    (above != 0).then(|| from + above.trailing_zeros())
}

/// Every set bit.
fn bits(set: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |n| set & (1 << n) != 0)
}

/// A day and the seconds since its midnight as a local time.
fn at(day: Date, time: u32) -> Option<i64> {
    let midnight = Offset::UTC.to_timestamp(day.at(0, 0, 0, 0)).ok()?;
    Some(midnight.as_second() + i64::from(time))
}
