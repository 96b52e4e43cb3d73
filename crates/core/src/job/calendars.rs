//! The calendars that a job names.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::JobFile;
use crate::ids::{CalendarName, WrittenName};

/// The most calendars that a job may name: each of its transactions guards on all of them.
const CALENDARS_MAX: usize = 8;

impl JobFile {
    /// Every calendar that it names.
    pub(super) fn calendars(&self) -> impl Iterator<Item = &WrittenName<CalendarName>> {
        self.exclude_calendars.iter().chain(&self.require_calendars)
    }

    pub(super) fn validate_calendars(&self) -> Result<(), String> {
        let count = self.calendars().count();
        if count > CALENDARS_MAX {
            return Err(format!(
                "exclude_calendars and require_calendars name {count} calendars, allowed are {CALENDARS_MAX}"
            ));
        }
        let mut seen = BTreeSet::new();
        if let Some(name) = self.calendars().find(|name| !seen.insert(name.name())) {
            return Err(format!(
                "exclude_calendars and require_calendars name the calendar {} twice: once is enough",
                name.name()
            ));
        }
        if count > 0 && self.schedule.is_empty() {
            return Err(
                "exclude_calendars and require_calendars leave fires of a schedule out: give a schedule, or leave them out".into()
            );
        }
        Ok(())
    }
}
