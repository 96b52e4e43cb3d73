//! Rows of calendars.

use evenkeel_core::calendar::Calendar;
use serde::{Deserialize, Serialize};

/// A calendar in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CalendarRow {
    /// Its name.
    pub(crate) name: String,
    /// How many lines it has.
    pub(crate) lines: usize,
    /// How many jobs name it.
    pub(crate) jobs: usize,
    /// Rises with every change.
    pub(crate) version: u64,
    /// When it was changed last.
    pub(crate) since: String,
    /// For people.
    pub(crate) description: String,
}

/// Everything about a calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CalendarDetail {
    /// Its name.
    pub(crate) name: String,
    /// The declaration.
    pub(crate) calendar: Calendar,
    /// Rises with every change.
    pub(crate) version: u64,
    /// When it was changed last: of the jobs that name it, fires up to here are nobody's.
    pub(crate) since: String,
    /// The jobs that name it.
    pub(crate) jobs: Vec<String>,
}
