//! Tracks the stored calendars, and their effect on the jobs that use them.

use std::sync::Arc;

use evenkeel_core::ids::CalendarName;
use evenkeel_core::keys;
use evenkeel_core::record::{CalendarRecord, decode};
use evenkeel_core::schedule::CalendarFilter;

use super::stored_calendars::StoredCalendars;
use super::{CommittedTxn, Invariant, InvariantChecker, JobTrack};

impl InvariantChecker {
    /// Records a written calendar: all jobs that use it have another schedule from now on.
    pub(super) fn calendar_written(
        &mut self,
        act: &CommittedTxn<'_>,
        name: &CalendarName,
        record: Option<CalendarRecord>,
    ) {
        let key = keys::calendar(name);
        let stood = act.before.iter().find(|c| c.key == key).and_then(|c| c.entry.as_ref());
        let old = stood.and_then(|entry| decode::<CalendarRecord>(&entry.value));
        let (old, new) = (old.map_or(0, |old| old.version()), record.as_ref().map_or(0, |new| new.version()));
        self.findings.test(act.at, Invariant::I9, new == old + 1, || {
            format!("version {new} of calendar {name} was written over {old}")
        });
        match record.as_ref().and_then(CalendarRecord::live) {
            Some(spec) => self.calendars.insert(name.clone(), spec.clone()),
            None => self.calendars.remove(name),
        };
        let Self { jobs, calendars, .. } = self;
        let names =
            |book: &JobTrack| book.spec.as_ref().is_some_and(|s| s.job.calendars().any(|c| c == name));
        for book in jobs.values_mut().filter(|book| names(book)) {
            book.changed = act.at;
            book.put_under(calendars);
        }
    }
}

impl JobTrack {
    /// Applies these calendars to the job's schedule, and to the time up to which fires are ignored.
    pub(super) fn put_under(&mut self, standing: &StoredCalendars) {
        self.edition += 1;
        let Some(spec) = &mut self.spec else { return };
        let times = |name: &CalendarName| {
            let times = standing.get(name)?.calendar.read().ok()?;
            Some((name.clone(), Arc::new(times)))
        };
        let read = |names: &[CalendarName]| names.iter().map(times).collect::<Option<Vec<_>>>();
        let since = spec.job.calendars().filter_map(|name| Some(standing.get(name)?.since));
        spec.since = since.fold(self.since, Ord::max);
        let calendars = read(spec.job.exclude_calendars())
            .and_then(|except| Some(CalendarFilter::new(except, read(spec.job.require_calendars())?)));
        self.schedule = spec.job.schedule_with_calendars(calendars.as_ref());
    }
}
