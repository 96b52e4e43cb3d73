//! When a job fires, as its declaration says: its schedule, and what becomes of late fires.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::take;

use super::{JobFile, JobParts, MisfireSettings};
use crate::due::CatchUpSpread;
use crate::ids::{CalendarName, JobName, WrittenName};
use crate::schedule::{CalendarFilter, Dst, Schedule, ScheduleError, ScheduleSpec};

/// When a job is due, as it was written.
///
/// It stays a text. The registry keeps the spelling, so a parsed [`Schedule`] would be held beside the text, and a rule that
/// decodes a job for its other parts would parse cron rules and a time zone each time. The view keeps the schedule of a job
/// parsed where it fires it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobSchedule {
    /// The rules, one a line.
    pub rules: String,
    /// The IANA time zone in which they are read; UTC when empty.
    pub timezone: String,
    /// What clock changes do to it; when absent each rule's own default.
    pub dst: Option<Dst>,
    /// The first moment at which it may be due; none when empty.
    pub start_at: String,
    /// The moment from which on it is not due any more; none when empty.
    pub end_at: String,
    /// How far each fire may be moved; not at all when empty.
    pub jitter: String,
    /// It is not due at a moment that one of these calendars holds.
    pub exclude_calendars: Vec<CalendarName>,
    /// It is due only at moments that all of these calendars hold.
    pub require_calendars: Vec<CalendarName>,
}

impl JobSchedule {
    /// The schedule of a declaration, taken out of it.
    pub(super) fn take(file: &mut JobFile) -> Result<Option<Self>, String> {
        if file.schedule.is_empty() {
            file.validate_schedule_keys()?;
            return file.validate_calendars().map(|()| None);
        }
        Ok(Some(Self {
            rules: take(&mut file.schedule),
            timezone: take(&mut file.timezone),
            dst: file.dst,
            start_at: take(&mut file.start_at),
            end_at: take(&mut file.end_at),
            jitter: take(&mut file.jitter),
            exclude_calendars: names(take(&mut file.exclude_calendars)),
            require_calendars: names(take(&mut file.require_calendars)),
        }))
    }

    /// The schedule of the job of this name, parsed, without calendars.
    ///
    /// # Errors
    /// A newer version wrote a text that this one cannot read.
    pub fn parse(&self, name: &JobName) -> Result<Schedule, ScheduleError> {
        let Self { rules: text, timezone, dst, start_at, end_at, jitter, .. } = self;
        let name = name.as_str();
        Schedule::read(&ScheduleSpec { text, timezone, name, dst: *dst, start_at, end_at, jitter })
    }

    /// Writes the schedule into a declaration.
    pub(super) fn write(&self, file: &mut JobFile) {
        let Self { rules, timezone, dst, start_at, end_at, jitter, exclude_calendars, require_calendars } =
            self.clone();
        (file.schedule, file.timezone, file.dst) = (rules, timezone, dst);
        (file.start_at, file.end_at, file.jitter) = (start_at, end_at, jitter);
        let namespace = file.name.name().namespace();
        let written = |names: Vec<CalendarName>| -> Vec<WrittenName<CalendarName>> {
            names.into_iter().map(|name| WrittenName::read_in(namespace, name)).collect()
        };
        let both = (written(exclude_calendars), written(require_calendars));
        (file.exclude_calendars, file.require_calendars) = both;
    }
}

/// The names of calendars, as [`JobFile::resolve`] left them.
pub(super) fn names(written: Vec<WrittenName<CalendarName>>) -> Vec<CalendarName> {
    written.into_iter().map(WrittenName::into_name).collect()
}

impl JobParts {
    /// The schedule, parsed, without calendars; `None` for a job that runs only when triggered manually.
    ///
    /// # Errors
    /// A newer version wrote a text that this one cannot read.
    pub fn schedule(&self) -> Result<Option<Schedule>, ScheduleError> {
        self.schedule.as_ref().map(|schedule| schedule.parse(&self.name)).transpose()
    }

    /// When it is due under these calendars, which are those that it names; `None` for a job that runs only when
    /// triggered, and where one of them is missing.
    #[must_use]
    pub fn schedule_with_calendars(&self, calendars: Option<&CalendarFilter>) -> Option<Schedule> {
        Some(self.schedule().ok()??.under(calendars?.clone()))
    }

    /// The rules of its schedule as written, one a line; empty for a job that runs only when triggered manually.
    #[must_use]
    pub fn rules(&self) -> &str {
        self.schedule.as_ref().map_or("", |schedule| &schedule.rules)
    }

    /// The time zone of its schedule as written; empty for UTC.
    #[must_use]
    pub fn timezone(&self) -> &str {
        self.schedule.as_ref().map_or("", |schedule| &schedule.timezone)
    }

    /// The calendars that leave moments out.
    #[must_use]
    pub fn exclude_calendars(&self) -> &[CalendarName] {
        self.schedule.as_ref().map_or(&[], |schedule| &schedule.exclude_calendars)
    }

    /// The calendars outside of which it is not due.
    #[must_use]
    pub fn require_calendars(&self) -> &[CalendarName] {
        self.schedule.as_ref().map_or(&[], |schedule| &schedule.require_calendars)
    }

    /// Every calendar that it names.
    pub fn calendars(&self) -> impl Iterator<Item = &CalendarName> {
        self.exclude_calendars().iter().chain(self.require_calendars())
    }

    /// Its misfire settings.
    #[must_use]
    pub fn misfire_settings(&self) -> MisfireSettings {
        let spread = self.misfire.spread.as_ref();
        let seed = || crate::schedule::seed(self.name.as_str());
        MisfireSettings {
            grace: self.misfire.grace,
            catch_up: self.misfire.catch_up,
            overlap: self.overlap,
            age: self.misfire.window.as_ref().map(super::SpanText::length),
            spread: spread.map(|span| CatchUpSpread { span: span.length(), seed: seed() }),
        }
    }
}

impl JobFile {
    /// Refuses keys about times in a job that runs only when triggered.
    pub(super) fn validate_schedule_keys(&self) -> Result<(), String> {
        let keys = [
            ("timezone", !self.timezone.is_empty()),
            ("dst", self.dst.is_some()),
            ("start_at", !self.start_at.is_empty()),
            ("end_at", !self.end_at.is_empty()),
            ("jitter", !self.jitter.is_empty()),
        ];
        match keys.into_iter().find(|(_, written)| self.schedule.is_empty() && *written) {
            Some((key, _)) => Err(format!(
                "{key} says how a schedule is read, and the schedule is empty: give schedule, or leave {key} out"
            )),
            None => Ok(()),
        }
    }

    /// The schedule, parsed, without calendars; `None` where there is none.
    pub(super) fn read_schedule(&self) -> Result<Option<Schedule>, ScheduleError> {
        if self.schedule.is_empty() {
            return Ok(None);
        }
        let Self { schedule: text, timezone, dst, start_at, end_at, jitter, .. } = self;
        let name = self.name.name().as_str();
        Schedule::read(&ScheduleSpec { text, timezone, name, dst: *dst, start_at, end_at, jitter }).map(Some)
    }
}
