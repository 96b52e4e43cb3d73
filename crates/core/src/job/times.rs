//! When a job fires, as its declaration says: its schedule, and what becomes of late fires.

use super::{JobFile, MisfireSettings};
use crate::due::CatchUpSpread;
use crate::schedule::{Schedule, ScheduleSpec};
use crate::time::{SpanLimits, TimeSpan, TimeSpanError};

impl JobFile {
    /// The first timing field that is set in a job that runs only when triggered.
    pub(super) fn moot_without_schedule(&self) -> Option<&'static str> {
        let keys = [
            ("timezone", !self.timezone.is_empty()),
            ("dst", self.dst.is_some()),
            ("start_at", !self.start_at.is_empty()),
            ("end_at", !self.end_at.is_empty()),
            ("jitter", !self.jitter.is_empty()),
        ];
        keys.into_iter().find(|(_, written)| self.schedule.is_empty() && *written).map(|(key, _)| key)
    }

    /// The schedule, parsed, without calendars; `None` for a job that runs only when triggered manually.
    ///
    /// # Errors
    /// The text or the zone is invalid.
    pub fn schedule(&self) -> Result<Option<Schedule>, crate::schedule::ScheduleError> {
        let times = self.schedule_spec();
        if times == (ScheduleSpec { name: times.name, ..ScheduleSpec::default() }) {
            return Ok(None);
        }
        Schedule::read(&times).map(Some)
    }

    /// Its misfire settings.
    ///
    /// # Errors
    /// A duration is invalid.
    pub fn misfire_settings(&self) -> Result<MisfireSettings, TimeSpanError> {
        let span = |word, text: &str| match text {
            "" => Ok(None),
            _ => TimeSpan::parse(word, text, SpanLimits::SCHEDULE).map(|span| Some(span.millis())),
        };
        let spread = span("catch_up_spread", &self.catch_up_spread)?;
        Ok(MisfireSettings {
            grace: self.misfire_grace,
            catch_up: self.catch_up,
            overlap: self.overlap,
            age: span("catch_up_window", &self.catch_up_window)?,
            spread: spread
                .map(|span| CatchUpSpread { span, seed: crate::schedule::seed(self.name.as_str()) }),
        })
    }

    /// Its timing fields without calendars. A change of any of these changes when it is due.
    #[must_use]
    pub fn schedule_spec(&self) -> ScheduleSpec<'_> {
        ScheduleSpec {
            text: &self.schedule,
            timezone: &self.timezone,
            name: self.name.as_str(),
            dst: self.dst,
            start_at: &self.start_at,
            end_at: &self.end_at,
            jitter: &self.jitter,
        }
    }
}
