//! The registry data of a calendar.

use serde::{Deserialize, Serialize};

use super::declared::{Declared, Versioned};
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

impl Versioned for CalendarSpec {
    fn version(&self) -> u64 {
        self.version
    }
}

/// A calendar, or the tombstone of a deleted one, under `keys::calendar`.
pub type CalendarRecord = Declared<CalendarSpec>;
