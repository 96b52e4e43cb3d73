//! Calendars: days and hours that an operator declares once, under a name by which jobs share them.
//!
//! A calendar is a set of local times. It has no zone of its own: each job reads it on the clock of its own zone.

mod lines;
mod local_times;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::ids::{CalendarName, Namespace, WrittenName};
pub use local_times::LocalTimes;
pub(crate) use local_times::SearchBudget;

/// The most lines of each kind that a calendar may have.
pub const LINES_MAX: usize = 2_000;
/// The longest description in bytes.
const DESCRIPTION_MAX: usize = 4_096;

/// Parses a line into a set.
type LineParser = fn(&str, &mut local_times::LocalTimesBuilder) -> Result<(), String>;

/// A calendar as declared. It holds every local time that any of its lines names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calendar {
    /// Its name, for ever.
    pub name: CalendarName,
    /// Whole days: `2026-12-25`, `12-25` in each year, or from one to another as `2026-12-24..2027-01-01`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<String>,
    /// Whole days of every week: `sat`, `mon-fri`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weekdays: Vec<String>,
    /// Hours, the end not among them: `22:00..06:00`, `mon-fri 09:00..17:00`, `fri 22:00..mon 06:00`,
    /// `2026-12-24T18:00..2026-12-27T06:00`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<String>,
    /// A description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A calendar as it is written in a file or a request: its name may stand beside its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarFile {
    /// Its name, alone or with its namespace.
    pub name: WrittenName<CalendarName>,
    /// The namespace of a name that is written alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// See [`Calendar::days`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<String>,
    /// See [`Calendar::weekdays`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weekdays: Vec<String>,
    /// See [`Calendar::windows`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<String>,
    /// A description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl CalendarFile {
    /// The calendar. One whose name is written alone is in its own namespace, else in this one, else in `default`.
    ///
    /// # Errors
    /// `namespace` and `name` contradict each other, or the name is too long with the namespace before it.
    pub fn calendar(self, namespace: Option<&Namespace>) -> Result<Calendar, CalendarError> {
        let Self { mut name, namespace: own, days, weekdays, windows, description } = self;
        let moved = name.move_into(own.as_ref(), namespace);
        moved.map_err(|e| CalendarError(format!("calendar {name}: {e}")))?;
        Ok(Calendar { name: name.into_name(), days, weekdays, windows, description })
    }
}

/// An invalid calendar. Its display says the line and what is allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarError(String);

impl fmt::Display for CalendarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for CalendarError {}

impl Calendar {
    /// A calendar without lines, which holds no moment.
    #[must_use]
    pub fn new(name: CalendarName) -> Self {
        let (days, weekdays, windows) = (Vec::new(), Vec::new(), Vec::new());
        Self { name, days, weekdays, windows, description: String::new() }
    }

    /// Its lines, parsed; in bounded time.
    ///
    /// # Errors
    /// An invalid line: the error names it and says what is allowed there.
    pub fn read(&self) -> Result<LocalTimes, CalendarError> {
        let fail = |text: String| CalendarError(format!("calendar {}: {text}", self.name));
        if self.description.len() > DESCRIPTION_MAX {
            return Err(fail(format!("description is longer than {DESCRIPTION_MAX} bytes: shorten it")));
        }
        let mut set = local_times::LocalTimesBuilder::default();
        let kinds: [(&str, &[String], LineParser); 3] = [
            ("days", &self.days, lines::days),
            ("weekdays", &self.weekdays, lines::weekdays),
            ("windows", &self.windows, lines::window),
        ];
        for (kind, texts, read) in kinds {
            if texts.len() > LINES_MAX {
                return Err(fail(format!(
                    "{kind} has {} lines, allowed are {LINES_MAX}: declare a second calendar",
                    texts.len()
                )));
            }
            for (n, text) in texts.iter().enumerate() {
                read(text, &mut set).map_err(|why| {
                    fail(format!("line {} of {kind}, {}: {why}", n + 1, lines::quote(text)))
                })?;
            }
        }
        Ok(set.finish())
    }
}
