//! Sorts the jobs of a view for a forecast, part by part, so that the node waits for a small part of the work at a time.

use alloc::vec::Vec;

use super::ForecastJobs;
use super::groups::{ForecastGroups, ForecastKind, KnownFires, RunsOfFire};
use crate::ids::{JobName, Namespace};
use crate::job::JobSelector;
use crate::view::{JobView, View};

/// How much is done in one look at the view: less than a millisecond's work.
const WORK: usize = 6_000;
/// How many looks at known jobs take as long as a declaration that is read.
const READ: usize = 20;

/// Which jobs are counted.
#[derive(Clone, Debug, Default)]
pub struct ForecastScope {
    /// Those of this namespace; of all for none.
    pub namespace: Option<Namespace>,
    /// Those whose labels meet these conditions.
    pub labels: Option<JobSelector>,
}

/// The jobs of a scope, as far as they were looked at.
#[derive(Debug)]
pub struct ForecastReading<'a> {
    groups: &'a mut ForecastGroups,
    scope: &'a ForecastScope,
    jobs: ForecastJobs,
    /// What becomes of the jobs of each kind, by the numbers of the kinds.
    fates: Vec<Option<KindFate>>,
    /// The places of schedules among the jobs, by the numbers of the schedules.
    places: Vec<Option<SchedulePlace>>,
    last: Option<JobName>,
    /// How many jobs' declarations were read, since they were not known.
    read: usize,
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug)]
enum KindFate {
    Ignored,
    Inactive,
    Manual,
    Unpredictable,
    Counted { place: usize, runs: u64 },
}

/// Where the jobs with a schedule are.
#[derive(Clone, Copy, Debug)]
enum SchedulePlace {
    At(usize),
    /// A calendar of it is missing.
    Nowhere,
}

impl ForecastGroups {
    /// Begins to sort the jobs of this scope. What is known of jobs must come from the same view.
    pub fn reading<'a>(&'a mut self, scope: &'a ForecastScope) -> ForecastReading<'a> {
        ForecastReading {
            groups: self,
            scope,
            jobs: ForecastJobs::default(),
            fates: Vec::new(),
            places: Vec::new(),
            last: None,
            read: 0,
        }
    }
}

impl ForecastReading<'_> {
    /// Sorts the next jobs, in the order of their names. Returns whether there may be more.
    pub fn look(&mut self, view: &View) -> bool {
        let last = self.last.take();
        if last.is_none() {
            self.groups.bound(view.ids().count());
        }
        match &self.scope.namespace {
            Some(namespace) => self.add_all(view, view.page_in(namespace, last.as_ref(), WORK)),
            None => self.add_all(view, view.page(last.as_ref(), WORK)),
        }
        self.last.is_some()
    }

    fn add_all<'v>(&mut self, view: &'v View, page: impl Iterator<Item = JobView<'v>>) {
        let mut work = 0;
        for job in page {
            let kind = self.groups.known(job).unwrap_or_else(|| {
                work += READ;
                self.read += 1;
                self.groups.read(job)
            });
            self.add(view, kind, job.name());
            work += 1;
            if work >= WORK {
                self.last = Some(job.name().clone());
                return;
            }
        }
    }

    /// Adds a job of this kind.
    fn add(&mut self, view: &View, kind: u32, name: &JobName) {
        let known = self.fates.get(kind as usize).copied().flatten();
        let fate = known.unwrap_or_else(|| {
            let fate = self.groups.kind(kind).map_or(KindFate::Ignored, |kind| self.fate_of(view, kind));
            put(&mut self.fates, kind, fate);
            fate
        });
        match fate {
            KindFate::Ignored => {}
            KindFate::Inactive => self.jobs.inactive += 1,
            KindFate::Manual => self.jobs.manual += 1,
            KindFate::Unpredictable => self.jobs.unpredictable += 1,
            KindFate::Counted { place, runs } => self.jobs.add(place, name, runs),
        }
    }

    fn fate_of(&mut self, view: &View, kind: ForecastKind) -> KindFate {
        let own = self.groups.labels(kind.labels);
        let fits = |labels: &JobSelector| own.is_some_and(|own| labels.fits(own));
        if !self.scope.labels.as_ref().is_none_or(fits) {
            return KindFate::Ignored;
        }
        let schedule = match kind.fires {
            KnownFires::Unreadable => return KindFate::Ignored,
            KnownFires::Inactive => return KindFate::Inactive,
            KnownFires::Manual => return KindFate::Manual,
            _ if view.is_unschedulable(kind.nodes) => return KindFate::Unpredictable,
            KnownFires::Unpredictable => return KindFate::Unpredictable,
            KnownFires::Scheduled(schedule) => schedule,
        };
        let runs = match kind.runs {
            RunsOfFire::Fixed(runs) => runs,
            RunsOfFire::EachNode => view.nodes_of(kind.nodes) as u64,
        };
        match self.place_of(view, schedule) {
            SchedulePlace::At(place) => KindFate::Counted { place, runs },
            SchedulePlace::Nowhere => KindFate::Unpredictable,
        }
    }

    fn place_of(&mut self, view: &View, number: u32) -> SchedulePlace {
        if let Some(known) = self.places.get(number as usize).copied().flatten() {
            return known;
        }
        let schedule = self.groups.schedule(number).and_then(|known| {
            let calendars = view.calendars_named(&known.exclude, &known.require)?;
            Some(known.schedule.clone().under(calendars))
        });
        let place =
            schedule.map_or(SchedulePlace::Nowhere, |schedule| SchedulePlace::At(self.jobs.place(schedule)));
        put(&mut self.places, number, place);
        place
    }

    /// How many jobs' declarations were read so far, since they were not known or have changed.
    #[must_use]
    pub fn read(&self) -> usize {
        self.read
    }

    /// The jobs, when all of them were looked at.
    #[must_use]
    pub fn jobs(self) -> ForecastJobs {
        self.jobs
    }
}

/// Puts a value under its number.
fn put<T: Copy>(list: &mut Vec<Option<T>>, number: u32, value: T) {
    let at = number as usize;
    if list.len() <= at {
        list.resize(at + 1, None);
    }
    if let Some(old) = list.get_mut(at) {
        *old = Some(value);
    }
}
