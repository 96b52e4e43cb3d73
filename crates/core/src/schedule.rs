//! When a job is due: one text and one zone make a [`Schedule`], and a schedule is a function of time alone.
//!
//! The words live in `schedule/`: `cron` reads the two cron dialects over `field`, `named` reads `@daily`, `@every` and
//! `at`, `calendar` finds the next local time, and `zone` alone knows what a clock change does.

mod calendar;
mod cron;
mod error;
mod field;
mod named;
#[cfg(test)]
mod tests;
mod zone;

pub use error::ScheduleError;

use crate::time::Wall;
use alloc::sync::Arc;
use calendar::Calendar;
use core::fmt;
use core::hash::{Hash, Hasher};
use jiff::Timestamp;
use zone::{Change, Zone};

/// The longest text that is looked at, in bytes; anything longer is refused unread.
const MAX_TEXT: usize = 64 * 1024;

/// 2025-01-01T00:00:00Z: a rule without years must fire some time after this, under today's clock-change rules.
const RECENT: Wall = Wall(1_735_689_600_000);

/// When a job is due: a rule and the zone it is read in. Pure, so every node computes the same fires.
///
/// Two schedules are equal when their text and their zone are.
#[derive(Clone, Debug)]
pub struct Schedule {
    text: Arc<str>,
    zone: Zone,
    rule: Rule,
}

/// What the text says.
#[derive(Clone, Debug)]
enum Rule {
    /// Local times of the zone's calendar.
    Calendar(Calendar, Change),
    /// Every so many milliseconds, counted from the Unix epoch.
    Every(i64),
    /// One moment.
    Once(Wall),
}

impl Schedule {
    /// Reads a schedule: 5 fields as Vixie cron, 6 or 7 as Quartz, `@daily` and its kin, `@every 90s`, `at <time>`.
    /// `zone` is an IANA name; empty means UTC.
    ///
    /// # Errors
    /// When the text is no schedule, when it can never fire, or when the zone is unknown. The error says which part is
    /// wrong and what is allowed there.
    pub fn parse(text: &str, zone: &str) -> Result<Self, ScheduleError> {
        if text.len() > MAX_TEXT {
            return Err(ScheduleError::new(format_args!(
                "the schedule is {} bytes long; at most {MAX_TEXT} are read",
                text.len()
            )));
        }
        let text = text.trim_ascii();
        let zone = Zone::named(zone)?;
        let rule = if text.starts_with('@') {
            named::at_sign(text)?
        } else if let Some(moment) = text.strip_prefix("at ").or_else(|| text.strip_prefix("at\t")) {
            named::moment(moment.trim_ascii(), &zone)?
        } else {
            let (calendar, change) = cron::parse(text)?;
            Rule::Calendar(calendar, change)
        };
        let schedule = Self { text: text.into(), zone, rule };
        schedule.refuse_never()?;
        Ok(schedule)
    }

    /// The first fire strictly after `after`, or `None` when there is none (any more).
    ///
    /// The work is bounded: it jumps from field to field, and gives up on a rule that met nothing but gaps of the clock
    /// for 400 years.
    #[must_use]
    pub fn next(&self, after: Wall) -> Option<Wall> {
        match &self.rule {
            Rule::Calendar(calendar, change) => {
                let from = after.0.div_euclid(1000) + 1;
                let due = self.zone.first(from, *change, |local| calendar.first(local))?;
                Some(Wall(due.checked_mul(1000)?))
            }
            Rule::Every(period) => {
                let after = after.0.max(Timestamp::MIN.as_millisecond());
                let due = (after.div_euclid(*period) + 1).checked_mul(*period)?;
                Timestamp::from_millisecond(due).ok()?;
                Some(Wall(due))
            }
            Rule::Once(due) => Some(*due).filter(|due| *due > after),
        }
    }

    /// The last fire in `(after, until]`, or `None` when there is none.
    ///
    /// Found by halving, so it costs some forty calls of [`Self::next`] however many fires lie between.
    #[must_use]
    pub fn latest(&self, after: Wall, until: Wall) -> Option<Wall> {
        let fire_after = |t: i64| self.next(Wall(t)).filter(|due| *due <= until);
        let mut found = fire_after(after.0)?;
        // No fire lies in (none_after, until], and `found` is a fire at or before `none_after`.
        let mut none_after = until.0;
        while found.0 < none_after {
            let middle = found.0 + none_after.saturating_sub(found.0) / 2;
            match fire_after(middle) {
                Some(due) => found = due,
                None => none_after = middle,
            }
        }
        Some(found)
    }

    /// The IANA name of the zone in which the text is read.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.name()
    }

    /// Refuses a rule whose fields can never meet, such as 30 February.
    fn refuse_never(&self) -> Result<(), ScheduleError> {
        let start = match &self.rule {
            Rule::Calendar(calendar, _) if calendar.every_year() => RECENT,
            Rule::Calendar(..) => Wall(-zone::REACH * 1000),
            Rule::Every(_) | Rule::Once(_) => return Ok(()),
        };
        match self.next(start) {
            Some(_) => Ok(()),
            None => Err(ScheduleError::new(format_args!(
                "schedule {} never fires: no date has that day, month and year; check the day fields",
                error::quote(&self.text)
            ))),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.zone() == other.zone()
    }
}

impl Eq for Schedule {}

impl Hash for Schedule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
        self.zone().hash(state);
    }
}
