//! The calendars that the checker has seen in the registry.

use std::collections::BTreeMap;

use evenkeel_core::ids::CalendarName;
use evenkeel_core::record::CalendarSpec;

/// The calendars in the registry.
pub(crate) type StoredCalendars = BTreeMap<CalendarName, CalendarSpec>;
