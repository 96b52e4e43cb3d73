//! Rows of calendars.

use evenkeel_core::calendar::Calendar;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A calendar in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CalendarRow {
    /// Its name.
    pub(crate) name: String,
    /// The number of its lines.
    pub(crate) lines: usize,
    /// The number of jobs that use it.
    pub(crate) jobs: usize,
    /// Rises with every change.
    pub(crate) version: u64,
    /// When it was last changed.
    pub(crate) since: String,
    /// Its description.
    pub(crate) description: String,
}

/// All details of a calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CalendarDetail {
    /// Its name.
    pub(crate) name: String,
    /// The declaration.
    #[schemars(schema_with = "crate::api_types::declared::calendar")]
    pub(crate) calendar: Calendar,
    /// Rises with every change.
    pub(crate) version: u64,
    /// When it was last changed: fires up to then are ignored, of the jobs that use it.
    pub(crate) since: String,
    /// The jobs that use it.
    pub(crate) jobs: Vec<String>,
}
