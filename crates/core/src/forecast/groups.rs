//! What is remembered from forecast to forecast: how each job counts.
//!
//! To read a declaration and to parse its schedule takes microseconds, a look at what is remembered some nanoseconds. What is
//! remembered of a job holds for one revision of its declaration, in which the switches are, too. What else decides about fires
//! is asked at each forecast: the calendars that a schedule names, and which nodes are eligible.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::interned::{HashedValue, InternedValues};
use crate::ids::{CalendarName, JobName};
use crate::job::{JobLabels, JobSchedule, Placement, SpecTiming};
use crate::registry::Revision;
use crate::schedule::Schedule;
use crate::view::{GroupId, JobView};

/// How many things more than twice the number of jobs may be remembered before all is forgotten: things of former declarations
/// are among them.
const SPARE: usize = 1_000;

/// How each job of one view counts in forecasts.
#[derive(Debug, Default)]
pub struct ForecastGroups {
    /// By the numbers of the jobs.
    jobs: Vec<KnownJob>,
    kinds: InternedValues<ForecastKind>,
    labels: InternedValues<JobLabels>,
    schedules: InternedValues<ForecastSchedule>,
    /// What is known of jobs with the same texts.
    texts: BTreeMap<HashedValue<JobSchedule>, SameText>,
}

/// What is known of a job.
#[derive(Clone, Copy, Debug, Default)]
struct KnownJob {
    /// The revision of its declaration; 0 for a job that was not read.
    revision: Revision,
    kind: u32,
}

/// What jobs have in common that differ by their names only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ForecastKind {
    pub(super) fires: KnownFires,
    pub(super) runs: RunsOfFire,
    pub(super) nodes: GroupId,
    pub(super) labels: u32,
}

/// What is known of the fires of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum KnownFires {
    /// Nothing: its declaration is unreadable.
    Unreadable,
    /// It is disabled or paused.
    Inactive,
    /// It has no schedule.
    Manual,
    /// They follow its runs, or its schedule is unreadable.
    Unpredictable,
    /// They follow the schedule with this number.
    Scheduled(u32),
}

/// How many runs a fire has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RunsOfFire {
    /// So many.
    Fixed(u64),
    /// One for each eligible node.
    EachNode,
}

/// A schedule without a name, and the calendars that it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ForecastSchedule {
    pub(super) schedule: Schedule,
    pub(super) exclude: Vec<CalendarName>,
    pub(super) require: Vec<CalendarName>,
}

/// What jobs with the same texts have in common.
#[derive(Clone, Copy, Debug)]
enum SameText {
    /// Their fires.
    Fires(KnownFires),
    /// Each name means another schedule.
    Spread,
}

impl ForecastGroups {
    /// Forgets everything if more is remembered than so many jobs need, which keeps memory bounded where declarations change all
    /// the time.
    pub(super) fn bound(&mut self, jobs: usize) {
        let sizes = [self.kinds.len(), self.labels.len(), self.schedules.len(), self.texts.len()];
        if sizes.into_iter().any(|size| size > jobs.saturating_mul(2).saturating_add(SPARE)) {
            *self = Self::default();
        }
    }

    /// The number of a job's kind, if its declaration is still the one that was read.
    pub(super) fn known(&self, job: JobView<'_>) -> Option<u32> {
        let known = self.jobs.get(job.id.0 as usize)?;
        (known.revision != Revision(0) && job.has_spec_of(known.revision)).then_some(known.kind)
    }

    /// Reads a job's declaration, and returns the number of its kind.
    pub(super) fn read(&mut self, job: JobView<'_>) -> u32 {
        let kind = self.kind_of(job);
        let kind = self.kinds.number(kind);
        let at = job.id.0 as usize;
        if self.jobs.len() <= at {
            self.jobs.resize(at + 1, KnownJob::default());
        }
        if let Some(known) = self.jobs.get_mut(at) {
            *known = KnownJob { revision: job.spec_revision(), kind };
        }
        kind
    }

    /// The kind with this number.
    pub(super) fn kind(&self, number: u32) -> Option<ForecastKind> {
        self.kinds.get(number).copied()
    }

    /// The labels with this number.
    pub(super) fn labels(&self, number: u32) -> Option<&JobLabels> {
        self.labels.get(number)
    }

    /// The schedule with this number.
    pub(super) fn schedule(&self, number: u32) -> Option<&ForecastSchedule> {
        self.schedules.get(number)
    }

    fn kind_of(&mut self, job: JobView<'_>) -> ForecastKind {
        let nodes = job.group();
        let Some(SpecTiming { job: timing, paused, off }) = job.timing() else {
            let (fires, runs) = (KnownFires::Unreadable, RunsOfFire::Fixed(0));
            return ForecastKind { fires, runs, nodes, labels: self.labels.number(JobLabels::default()) };
        };
        let runs = match timing.placement {
            Placement::Claimed | Placement::Dispatched => RunsOfFire::Fixed(1),
            Placement::Sharded => {
                RunsOfFire::Fixed(u64::from(timing.shards).saturating_sub(off.len() as u64))
            }
            Placement::Broadcast => RunsOfFire::EachNode,
        };
        let labels = self.labels.number(timing.labels.clone());
        let is_active = timing.enabled && !paused;
        let fires = match timing.into_schedule() {
            _ if !is_active => KnownFires::Inactive,
            None => KnownFires::Manual,
            Some(text) => self.fires_of(job.name(), text),
        };
        ForecastKind { fires, runs, nodes, labels }
    }

    /// The fires of the job of this name with this schedule.
    pub(super) fn fires_of(&mut self, name: &JobName, text: JobSchedule) -> KnownFires {
        let text = HashedValue::new(text);
        match self.texts.get(&text) {
            Some(SameText::Fires(fires)) => *fires,
            Some(SameText::Spread) => self.parsed(name, text.value()),
            None => {
                let fires = self.parsed(name, text.value());
                let known = match fires {
                    KnownFires::Scheduled(_) if Schedule::is_spread(&text.value().rules) => SameText::Spread,
                    fires => SameText::Fires(fires),
                };
                self.texts.insert(text, known);
                fires
            }
        }
    }

    fn parsed(&mut self, name: &JobName, text: &JobSchedule) -> KnownFires {
        let Some(schedule) = text.parse(name).ok().filter(|schedule| !schedule.follows_runs()) else {
            return KnownFires::Unpredictable;
        };
        KnownFires::Scheduled(self.schedules.number(ForecastSchedule {
            schedule: schedule.nameless(),
            exclude: text.exclude_calendars.clone(),
            require: text.require_calendars.clone(),
        }))
    }
}

#[cfg(test)]
mod tests;
