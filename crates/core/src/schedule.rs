//! Schedules: a text, a time zone and the other timing fields of a job make a [`Schedule`], which is a pure function of
//! time.
//!
//! The submodules: `cron` parses the two cron dialects with `field`, `named` parses `@daily`, `@every` and `at`,
//! `cron_fields` finds the next local time, and `zone` alone knows what a clock change does. `bounds` keeps fires
//! between two moments and moves them by a jitter, `name_hash` decides how far, `notes` explains what is odd about a
//! fire. `foreign` recognises what other programs write, `zone_names` what they call a time zone. `calendar_filter` leaves out the fires that a job's calendars
//! exclude; `edit` compares two schedules; `fire_count` counts fires, `spread_names` those that a jitter moves.

mod bounds;
mod calendar_filter;
mod cron;
mod cron_fields;
mod doubts;
mod edit;
mod error;
mod field;
mod fire_count;
mod foreign;
mod name_hash;
mod named;
mod notes;
mod rule;
mod spec;
mod spread_names;
#[cfg(test)]
mod tests;
mod translation;
mod zone;
mod zone_names;

pub use calendar_filter::CalendarFilter;
pub use edit::{EditEffect, EditLimits, ScheduleEdit};
pub(crate) use error::quote;
pub use error::{ErrorSpan, ScheduleError};
pub use fire_count::ForecastWindow;
pub(crate) use fire_count::{CountBudget, MovableFire, SpreadName};
use rule::ScheduleRule;
pub use spec::ScheduleSpec;
pub(crate) use spread_names::SpreadNames;
pub use zone::Dst;

use crate::time::{Millis, Wall};
use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bounds::{ScheduleBounds, latest};
use field::CronDialect;
use jiff::Timestamp;
use name_hash::NameHash;
use zone::Zone;

/// The longest text that is parsed, in bytes; anything longer is refused unread.
const MAX_TEXT: usize = 64 * 1024;

/// The most rules of one schedule.
const MAX_RULES: usize = 16;

/// 2025-01-01T00:00:00Z: a rule without years must fire some time after this, under today's clock-change rules.
const RECENT: Wall = Wall(1_735_689_600_000);

/// When a job is due: rules, and the zone they are read in. Pure, so every node computes the same fires.
///
/// A node keeps one for each job that it owns, so it holds no text and what few schedules have is behind pointers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Schedule {
    // Schedules are sorted by what differs most.
    rules: ScheduleRules,
    bounds: Option<Arc<ScheduleBounds>>,
    zone: Zone,
    /// The calendars that leave fires out.
    calendars: Option<Arc<CalendarFilter>>,
}

/// The rules of a schedule: one, as nearly always, or several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ScheduleRules {
    One(ScheduleRule),
    Many(Arc<[ScheduleRule]>),
}

impl ScheduleRule {
    fn parse(text: &str, zone: &Zone, times: &ScheduleSpec<'_>) -> Result<Self, ScheduleError> {
        let rule = Self::read(text, zone, times).map_err(|error| match foreign::refuse(text) {
            Some(foreign) => foreign,
            None => error.adding(foreign::hint(text)),
        })?;
        rule.refuse_never(text, zone)?;
        Ok(rule)
    }

    fn read(text: &str, zone: &Zone, times: &ScheduleSpec<'_>) -> Result<Self, ScheduleError> {
        let spread = NameHash::of(times.name);
        let cron = |text: &str, dialect| {
            cron::parse(text.trim_ascii(), dialect, spread).map(|(calendar, dst)| Self::Cron(calendar, dst))
        };
        let rule = if text.starts_with('@') {
            named::at_sign(text, spread)?
        } else if let Some(moment) = text.strip_prefix("at ").or_else(|| text.strip_prefix("at\t")) {
            Self::Once(named::moment("at", moment.trim_ascii(), zone)?)
        } else if let Some(line) = text.strip_prefix("vixie:") {
            cron(line, Some(CronDialect::Vixie))?
        } else if let Some(line) = text.strip_prefix("quartz:") {
            cron(line, Some(CronDialect::Quartz))?
        } else {
            cron(text, None)?
        };
        Ok(match (rule, times.dst) {
            (Self::Cron(calendar, _), Some(dst)) => Self::Cron(calendar, dst),
            (rule, _) => rule,
        })
    }

    /// The first fire strictly after `after`.
    fn next(&self, zone: &Zone, after: Wall) -> Option<Wall> {
        match self {
            Self::Cron(calendar, dst) => {
                let from = after.0.div_euclid(1000) + 1;
                let due = zone.first(from, *dst, |local| calendar.first(local))?;
                Some(Wall(due.checked_mul(1000)?))
            }
            Self::Every(period, phase) => {
                let after = after.0.max(Timestamp::MIN.as_millisecond());
                let due =
                    ((after - phase).div_euclid(*period) + 1).checked_mul(*period)?.checked_add(*phase)?;
                Timestamp::from_millisecond(due).ok()?;
                Some(Wall(due))
            }
            Self::AfterCompletion(delay) => Self::Every(*delay, within(after)).next(zone, after),
            Self::Once(due) => Some(*due).filter(|due| *due > after),
        }
    }

    /// Refuses a rule whose fields can never meet, such as 30 February.
    fn refuse_never(&self, text: &str, zone: &Zone) -> Result<(), ScheduleError> {
        let start = match self {
            Self::Cron(calendar, _) if calendar.every_year() => RECENT,
            Self::Cron(..) => Wall(-zone::REACH * 1000),
            Self::Every(..) | Self::AfterCompletion(_) | Self::Once(_) => return Ok(()),
        };
        match self.next(zone, start) {
            Some(_) => Ok(()),
            None => Err(ScheduleError::new(format_args!(
                "schedule {} never fires: no date has that day, month and year; check the day fields",
                error::quote(text)
            ))
            .never()
            .on(text)),
        }
    }
}

impl Schedule {
    /// Parses one or several rules, one a line: 5 fields as Vixie cron, 6 or 7 as Quartz, `@daily` and its kin,
    /// `@every 90s`, `@after 90s`, `at <time>`. `zone` is an IANA name; empty means UTC.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str, zone: &str) -> Result<Self, ScheduleError> {
        Self::read(&ScheduleSpec { text, timezone: zone, ..ScheduleSpec::default() })
    }

    /// Parses all timing fields of a job.
    ///
    /// # Errors
    /// When the text is no schedule, when it can never fire, or when the zone is unknown. The error says which part is
    /// wrong and what is allowed there.
    pub fn read(times: &ScheduleSpec<'_>) -> Result<Self, ScheduleError> {
        Self::read_unplaced(times).map_err(|error| error.within(times.text))
    }

    fn read_unplaced(times: &ScheduleSpec<'_>) -> Result<Self, ScheduleError> {
        if times.text.len() > MAX_TEXT {
            return Err(ScheduleError::new(format_args!(
                "the schedule is {} bytes long; at most {MAX_TEXT} are read",
                times.text.len()
            )));
        }
        let text = times.text.trim_ascii();
        let zone = Zone::named(times.timezone)?;
        let lines = || text.split('\n').map(str::trim_ascii);
        if lines().nth(MAX_RULES).is_some() {
            return Err(ScheduleError::new(format_args!("a schedule has at most {MAX_RULES} rules")));
        }
        let rules = if text.contains('\n') {
            let rules: Result<Vec<_>, _> =
                lines().map(|line| ScheduleRule::parse(line, &zone, times)).collect();
            let rules: Arc<[ScheduleRule]> = rules?.into();
            if rules.iter().any(|rule| matches!(rule, ScheduleRule::AfterCompletion(_))) {
                return Err(ScheduleError::new(
                    "`@after` stands alone: it is counted from runs, and no other rule is",
                ));
            }
            ScheduleRules::Many(rules)
        } else {
            ScheduleRules::One(ScheduleRule::parse(text, &zone, times)?)
        };
        let bounds = ScheduleBounds::read(times, &zone)?.map(Arc::new);
        let schedule = Self { zone, rules, bounds, calendars: None };
        schedule.refuse_empty(text)?;
        if schedule.follows_runs() && schedule.bounds.as_ref().is_some_and(|bounds| bounds.moves()) {
            return Err(ScheduleError::new(
                "jitter moves moments of the clock, and `@after` has none: leave it out",
            ));
        }
        Ok(schedule)
    }

    /// Whether each fire is counted from the end of the run before.
    #[must_use]
    pub fn follows_runs(&self) -> bool {
        matches!(self.rules, ScheduleRules::One(ScheduleRule::AfterCompletion(_)))
    }

    /// The fires as they are when the last run ended at this moment and no other follows. Only where fires
    /// [follow runs](Self::follows_runs) this differs from the schedule itself.
    #[must_use]
    pub fn counted_from(&self, end: Wall) -> Cow<'_, Self> {
        let ScheduleRules::One(ScheduleRule::AfterCompletion(delay)) = self.rules else {
            return Cow::Borrowed(self);
        };
        Cow::Owned(Self {
            rules: ScheduleRules::One(ScheduleRule::Every(delay, within(end))),
            ..self.clone()
        })
    }

    /// The first fire strictly after `after`, or `None` when there is none.
    ///
    /// The work is bounded: it jumps from field to field, and gives up on a rule that met nothing but gaps of the clock
    /// for 400 years.
    #[must_use]
    pub fn next(&self, after: Wall) -> Option<Wall> {
        match &self.bounds {
            None => self.named(after),
            Some(bounds) => bounds.next(after, |after| self.named(after), |after| self.ruled(after)),
        }
    }

    /// The same schedule with these calendars. They filter the moments that the rules name, before a jitter moves them.
    #[must_use]
    pub fn under(self, calendars: CalendarFilter) -> Self {
        Self { calendars: (!calendars.is_empty()).then(|| Arc::new(calendars)), ..self }
    }

    /// The first moment after another that the rules name and no calendar leaves out, before bounds and jitter.
    fn named(&self, after: Wall) -> Option<Wall> {
        let Some(calendars) = &self.calendars else { return self.ruled(after) };
        let open =
            |rule: &ScheduleRule| calendars.next(&self.zone, after, |after| rule.next(&self.zone, after));
        match &self.rules {
            ScheduleRules::One(rule) => open(rule),
            ScheduleRules::Many(rules) => rules.iter().filter_map(open).min(),
        }
    }

    /// The first moment after another that the rules name, whatever the calendars.
    fn ruled(&self, after: Wall) -> Option<Wall> {
        match &self.rules {
            ScheduleRules::One(rule) => rule.next(&self.zone, after),
            ScheduleRules::Many(rules) => rules.iter().filter_map(|rule| rule.next(&self.zone, after)).min(),
        }
    }

    /// Whether a fire is due at exactly this moment; of those that follow runs one may be.
    #[must_use]
    pub fn has(&self, due: Wall) -> bool {
        self.follows_runs() || self.next(due - Millis(1)) == Some(due)
    }

    /// The last fire in `(after, until]`, or `None`. Fires that follow runs are counted from `after`.
    ///
    /// Found by halving, so it costs some forty calls of [`Self::next`] however many fires lie between.
    #[must_use]
    pub fn latest(&self, after: Wall, until: Wall) -> Option<Wall> {
        let counted = self.counted_from(after);
        latest(after, until, |after| counted.next(after))
    }

    /// The IANA name of the zone in which the text is read.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.name()
    }

    /// Refuses bounds between which nothing is due.
    fn refuse_empty(&self, text: &str) -> Result<(), ScheduleError> {
        match &self.bounds {
            Some(bounds) if self.next(bounds.before()).is_none() => Err(ScheduleError::new(format_args!(
                "schedule {} is never due between from and until; widen them or leave one out",
                error::quote(text)
            ))),
            _ => Ok(()),
        }
    }
}

/// A moment in milliseconds, or the first or last that there is.
fn within(moment: Wall) -> i64 {
    moment.0.clamp(Timestamp::MIN.as_millisecond(), Timestamp::MAX.as_millisecond())
}

/// The number that decides a job's moment in a span.
#[must_use]
pub fn seed(name: &str) -> u64 {
    NameHash::of(name).of_field("catch_up_spread")
}
