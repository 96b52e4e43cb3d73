//! What is kept of a calendar.

use alloc::boxed::Box;
use serde::{Deserialize, Serialize};

use crate::calendar::Calendar;
use crate::time::Wall;

/// A calendar as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CalendarSpec {
    /// The declaration.
    pub calendar: Calendar,
    /// Rises with every change of the entry.
    pub version: u64,
    /// When it was changed last: of jobs that name it, fires up to here are nobody's.
    pub since: Wall,
}

/// A calendar, or what is left of a deleted one, under `keys::calendar`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalendarRecord {
    /// The calendar is there.
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
