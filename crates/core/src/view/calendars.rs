//! The view of calendars and of the jobs that name them: a change of a calendar changes when those jobs are due.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::calendar_index::KnownCalendar;
use super::known_entry::{EntryUpdate, newer};
use super::{JobId, JobTerms, JobView, KnownEntry, ShardTerms, View, ViewChanges};
use crate::calendar::LocalTimes;
use crate::ids::CalendarName;
use crate::job::{Job, MisfireSettings, Spec};
use crate::keys;
use crate::record::{CalendarRecord, CalendarSpec, SpecRecord, decode};
use crate::registry::{Change, Guard};
use crate::schedule::{CalendarFilter, Schedule};
use crate::time::Wall;

impl View {
    /// The existing calendars, by name.
    pub fn calendars(&self) -> impl Iterator<Item = &CalendarSpec> {
        self.calendars.known.values().filter_map(|known| known.entry.value.as_ref()?.live())
    }

    /// A calendar.
    #[must_use]
    pub fn calendar(&self, name: &CalendarName) -> Option<&CalendarSpec> {
        self.calendars.known.get(name)?.entry.value.as_ref()?.live()
    }

    /// The known entry of a calendar.
    #[must_use]
    pub fn calendar_entry(&self, name: &CalendarName) -> Option<&KnownEntry<CalendarRecord>> {
        Some(&self.calendars.known.get(name)?.entry)
    }

    /// The guard that a calendar's entry is still as this view has it.
    #[must_use]
    pub fn calendar_guard(&self, name: &CalendarName) -> Guard {
        let key = keys::calendar(name);
        match self.calendar_entry(name) {
            Some(entry) => entry.guard(key),
            None => Guard::Absent(key),
        }
    }

    /// The living jobs that name a calendar, in the view's order.
    pub fn jobs_under(&self, name: &CalendarName) -> impl Iterator<Item = JobView<'_>> {
        self.calendars.users.get(name).into_iter().flatten().map(|id| self.job(*id))
    }

    /// The missing calendars that living jobs name, each with these jobs: they are never due.
    pub fn missing_calendars(
        &self,
    ) -> impl Iterator<Item = (&CalendarName, impl Iterator<Item = JobView<'_>>)> {
        let missing = self.calendars.users.iter().filter(|(name, _)| self.times_of(name).is_none());
        missing.map(|(name, users)| (name, users.iter().map(|id| self.job(*id))))
    }

    /// The missing calendars that a declaration names: without them its due times are unknown.
    #[must_use]
    pub fn missing(&self, job: &Job) -> Vec<CalendarName> {
        job.calendars().filter(|name| self.times_of(name).is_none()).cloned().collect()
    }

    /// When a job is due, under the calendars that it names; `None` for one that runs only when triggered, and for one
    /// whose calendars are not all there.
    #[must_use]
    pub fn schedule_of(&self, job: &Job) -> Option<Schedule> {
        job.schedule_with_calendars(self.calendars_of(job).as_ref())
    }

    /// The calendars that a job names, parsed; `None` while one of them is missing.
    #[must_use]
    pub fn calendars_of(&self, job: &Job) -> Option<CalendarFilter> {
        self.calendars_named(job.exclude_calendars(), job.require_calendars())
    }

    /// The calendars of these names, parsed; `None` while one of them is missing.
    #[must_use]
    pub fn calendars_named(
        &self,
        exclude: &[CalendarName],
        require: &[CalendarName],
    ) -> Option<CalendarFilter> {
        let list = |names: &[CalendarName]| -> Option<Vec<_>> {
            names.iter().map(|name| Some((name.clone(), self.times_of(name)?.clone()))).collect()
        };
        Some(CalendarFilter::new(list(exclude)?, list(require)?))
    }

    /// Fires up to this moment are ignored: the last such change of the job, or of a calendar that it names.
    #[must_use]
    pub fn since_of(&self, spec: &Spec) -> Wall {
        let changed = spec.job.calendars().filter_map(|name| Some(self.calendar(name)?.since));
        changed.fold(spec.since, Wall::max)
    }

    /// The times of a calendar, parsed; `None` while it is missing.
    #[must_use]
    pub fn times_of(&self, name: &CalendarName) -> Option<&Arc<LocalTimes>> {
        self.calendars.known.get(name)?.times.as_ref()
    }

    /// The part of a declaration that firing needs.
    pub(super) fn terms_of(&self, record: Option<&SpecRecord>) -> Option<JobTerms> {
        match record? {
            SpecRecord::Live(spec) => self.living_terms_of(spec),
            SpecRecord::Deleted { .. } | SpecRecord::Unsealed(_) => None,
        }
    }

    fn living_terms_of(&self, spec: &Spec) -> Option<JobTerms> {
        let job = &spec.job;
        // A declaration was checked before it was written; one that this version cannot read is left alone.
        job.schedule().ok()?;
        let misfire = job.misfire_settings();
        Some(JobTerms {
            schedule: self.schedule_of(job),
            since: self.since_of(spec),
            paused: spec.paused,
            enabled: job.enabled,
            delivery: job.delivery,
            misfire: (misfire != MisfireSettings::default()).then(|| Box::new(misfire)),
            pause_after_failures: job.pause_after_failures,
            shards: ShardTerms::of(spec).map(Box::new),
        })
    }

    /// Updates which job names which calendar.
    pub(super) fn set_calendars(&mut self, id: JobId, declared: Option<&Job>) {
        let new: Box<[CalendarName]> =
            declared.into_iter().flat_map(|job| job.calendars()).cloned().collect();
        let old = match new.is_empty() {
            true => self.calendars.named.remove(&id),
            false => self.calendars.named.insert(id, new.clone()),
        };
        for name in old.iter().flatten().filter(|name| !new.contains(name)) {
            if let Some(jobs) = self.calendars.users.get_mut(name) {
                jobs.remove(&id);
                if jobs.is_empty() {
                    self.calendars.users.remove(name);
                }
            }
        }
        for name in new {
            self.calendars.users.entry(name).or_default().insert(id);
        }
    }

    pub(super) fn absorb_calendar(&mut self, name: CalendarName, change: &Change, touched: &mut ViewChanges) {
        match newer(self.calendar_entry(&name).map(|entry| entry.revision), change) {
            EntryUpdate::Stale => return,
            EntryUpdate::Gone(revision) => {
                self.gone.insert(change.key.clone(), revision);
                self.calendars.known.remove(&name);
            }
            EntryUpdate::Put(entry) => {
                let record: Option<CalendarRecord> = decode(&entry.value);
                let live = record.as_ref().and_then(CalendarRecord::live);
                let times = live.and_then(|spec| spec.calendar.read().ok()).map(Arc::new);
                if record.is_none() || (live.is_some() && times.is_none()) {
                    touched.unreadable.push(change.key.clone());
                }
                let entry = KnownEntry::present(record, entry.revision);
                self.calendars.known.insert(name.clone(), KnownCalendar { entry, times });
            }
        }
        touched.peers = true;
        for id in self.calendars.users.get(&name).cloned().unwrap_or_default() {
            let record = self.job(id).spec_record();
            self.set_terms(id, record.as_ref());
            touched.jobs.insert(id);
        }
    }

    /// Rebuilds what is kept of a declaration for firing.
    pub(super) fn set_terms(&mut self, id: JobId, record: Option<&SpecRecord>) {
        let placement = self.state(id).placement;
        self.set_shard_terms(id, placement, record);
        self.set_dispatched_terms(id, placement, record);
        if self.held.get(id).is_some() {
            let terms = self.terms_of(record);
            self.held_mut(id).terms = terms;
        }
    }
}

impl<'a> JobView<'a> {
    /// The calendars that it names.
    fn calendars(&self) -> impl Iterator<Item = &'a CalendarName> + use<'a> {
        self.view.calendars.named.get(&self.id).into_iter().flatten()
    }

    /// The guards that the calendars which it names are still as this view has them. A transaction that depends on when
    /// it is due carries them, so none goes by a calendar that was changed.
    pub fn calendar_guards(&self) -> impl Iterator<Item = Guard> + use<'a> {
        let view = self.view;
        self.calendars().map(|name| view.calendar_guard(name))
    }

    /// Rises with every change of a calendar that it names, while its own version stays.
    #[must_use]
    pub fn calendars_version(&self) -> u64 {
        let version = |name| Some(self.view.calendar_entry(name)?.value.as_ref()?.version());
        self.calendars().filter_map(version).fold(0, u64::wrapping_add)
    }
}
