//! The calendars that a view knows, with the jobs that name them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::job_id::JobId;
use super::known_entry::KnownEntry;
use crate::calendar::LocalTimes;
use crate::ids::CalendarName;
use crate::keys;
use crate::record::CalendarRecord;

/// A calendar's entry, and its parsed lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct KnownCalendar {
    pub(super) entry: KnownEntry<CalendarRecord>,
    /// `None` for one that is deleted, or that this version cannot read.
    pub(super) times: Option<Arc<LocalTimes>>,
}

/// All calendars, with the jobs that name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CalendarIndex {
    pub(super) known: BTreeMap<CalendarName, KnownCalendar>,
    pub(super) users: BTreeMap<CalendarName, BTreeSet<JobId>>,
    /// The calendars that a job names, of the jobs that name any.
    pub(super) named: BTreeMap<JobId, Box<[CalendarName]>>,
}

impl CalendarIndex {
    /// The keys of all entries.
    pub(super) fn keys(&self) -> impl Iterator<Item = keys::Key> {
        self.known.keys().map(keys::calendar)
    }
}
