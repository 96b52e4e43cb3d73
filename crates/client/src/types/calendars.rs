//! Rows of calendars.

use evenkeel_core::calendar::Calendar;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A calendar in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CalendarRow {
    /// Its name.
    pub name: String,
    /// The number of its lines.
    pub lines: usize,
    /// The number of jobs that use it.
    pub jobs: usize,
    /// Rises with every change.
    pub version: u64,
    /// When it was last changed.
    pub since: String,
    /// Its description.
    pub description: String,
}

/// All details of a calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CalendarDetail {
    /// Its name.
    pub name: String,
    /// The declaration.
    #[schemars(schema_with = "crate::types::declared::calendar")]
    pub calendar: Calendar,
    /// Rises with every change.
    pub version: u64,
    /// When it was last changed: fires up to then are ignored, of the jobs that use it.
    pub since: String,
    /// The jobs that use it.
    pub jobs: Vec<String>,
}
