//! The registry data of a calendar.

use alloc::boxed::Box;
use serde::{Deserialize, Serialize};

use crate::calendar::Calendar;
use crate::time::Wall;

/// The present state of a calendar.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CalendarSpec {
    /// The declaration.
    pub calendar: Calendar,
    /// Rises with every change of the entry.
    pub version: u64,
    /// When it was changed last: fires up to here of jobs that name it are ignored.
    pub since: Wall,
}

/// A calendar, or the tombstone of a deleted one, under `keys::calendar`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalendarRecord {
    /// The calendar exists.
    Live(Box<CalendarSpec>),
    /// It was deleted; its version goes on counting when it is created again.
    Deleted {
        /// The version of this entry.
        version: u64,
    },
}

impl CalendarRecord {
    /// The version of the entry.
    #[must_use]
    pub fn version(&self) -> u64 {
        match self {
            Self::Live(spec) => spec.version,
            Self::Deleted { version } => *version,
        }
    }

    /// The calendar, unless it was deleted.
    #[must_use]
    pub fn live(&self) -> Option<&CalendarSpec> {
        match self {
            Self::Live(spec) => Some(spec),
            Self::Deleted { .. } => None,
        }
    }
}
