//! When a job is due.

use crate::time::Wall;
use alloc::string::String;
use core::fmt;

/// A rule and its zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule(i64);

/// A text that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError(String);

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Schedule {
    /// Reads a rule.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str, _zone: &str) -> Result<Self, ScheduleError> {
        let secs = text.trim_start_matches("@every ").trim_end_matches('s');
        secs.parse().map(Self).map_err(|_| ScheduleError(text.into()))
    }

    /// The first fire after `after`.
    #[must_use]
    pub fn next(&self, after: Wall) -> Option<Wall> {
        let ms = self.0 * 1000;
        Some(Wall((after.0.div_euclid(ms) + 1) * ms))
    }

    /// The last fire in `(after, until]`.
    #[must_use]
    pub fn latest(&self, after: Wall, until: Wall) -> Option<Wall> {
        let ms = self.0 * 1000;
        let last = Wall(until.0.div_euclid(ms) * ms);
        (last > after).then_some(last)
    }
}
