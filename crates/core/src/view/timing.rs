//! When the jobs of a view are due, read without the rest of their declarations, and what says that this changed.

use serde::Deserialize;

use super::{JobView, KnownEntry, View};
use crate::job::SpecTiming;
use crate::record::CalendarRecord;

/// An entry of a spec, as far as it is decoded.
#[derive(Deserialize)]
struct TimingRecord {
    /// Of a job that exists.
    #[serde(default)]
    live: Option<SpecTiming>,
}

impl JobView<'_> {
    /// When it is due, as its declaration says; `None` when it is deleted or unreadable. It takes a fraction of the time of
    /// [`JobView::spec`].
    #[must_use]
    pub fn timing(&self) -> Option<SpecTiming> {
        self.state.spec.record::<TimingRecord>(self.name())?.live
    }
}

impl View {
    /// A number that changes whenever the declaration or a switch of a job changes, or a calendar.
    #[must_use]
    pub fn timing_version(&self) -> u64 {
        let jobs = self.jobs.iter().map(|job| job.spec.revision().0);
        let entry = |entry: &KnownEntry<CalendarRecord>| entry.revision.0;
        let calendars = self.calendars.known.values().map(|known| entry(&known.entry));
        jobs.chain(calendars).fold(self.jobs.len() as u64, u64::wrapping_add)
    }
}
