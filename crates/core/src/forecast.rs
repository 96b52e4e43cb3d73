//! How many fires are due in each step of a time to come, of all jobs together.
//!
//! Jobs with equal schedules are counted together, so a hundred thousand jobs with some hundred schedules cost some hundred counts. Also a
//! rule with `H`, which means something else for each name, gives few schedules: `H H * * *` names 1,440 moments. Which
//! schedule a job has is remembered from forecast to forecast (`groups`), so that only changed declarations are read again.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::ids::JobName;
use crate::schedule::{CountBudget, ForecastWindow, MovableFire, Schedule, SpreadName, SpreadNames};

mod groups;
mod interned;
mod reading;

pub use groups::ForecastGroups;
pub use reading::{ForecastReading, ForecastScope};

/// How many fires may be looked for in a count: more than a second's work. The jobs that come last are left out.
const LOOKED_FOR: u64 = 4_000_000;
/// How many moved fires cost as much as one that is looked for.
const MOVED: u64 = 64;
/// How many of the highest steps are named, and how many jobs of each.
const PEAKS: usize = 3;
const NAMED: usize = 10;

/// Jobs sorted by their schedules, whose fires can be counted.
#[derive(Debug, Default)]
pub struct ForecastJobs {
    list: Vec<SameFires>,
    inactive: usize,
    manual: usize,
    unpredictable: usize,
}

/// Jobs with equal schedules, but for a jitter.
#[derive(Debug)]
struct SameFires {
    schedule: Schedule,
    jittered: bool,
    jobs: u64,
    runs: u64,
    /// All jobs if a jitter moves their fires, else some, with the runs of a fire.
    named: Vec<(JobName, u64)>,
}

/// How many fires are due in each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FireForecast {
    /// The number of fires in each step.
    pub fires: Vec<u64>,
    /// The number of runs that these fires have: one for each shard.
    pub runs: Vec<u64>,
    /// The steps with the most fires, the highest first.
    pub peaks: Vec<ForecastPeak>,
    /// How many jobs are counted.
    pub jobs: usize,
    /// How many jobs are not counted because they are disabled or paused.
    pub inactive: usize,
    /// How many jobs are not counted because they have no schedule.
    pub manual: usize,
    /// How many jobs are not counted because no node is eligible, their fires follow their runs, or nothing is known of their schedule or calendars.
    pub unpredictable: usize,
    /// How many jobs are not counted because that would take too long.
    pub uncounted: usize,
}

/// A step with many fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForecastPeak {
    /// The step.
    pub step: usize,
    /// How many jobs fire in it.
    pub jobs: u64,
    /// Those of them that fire most often in it, then by name; not all where there are many.
    pub named: Vec<JobName>,
}

impl ForecastJobs {
    /// The place of jobs with this schedule, which has no other place.
    fn place(&mut self, schedule: Schedule) -> usize {
        let jittered = schedule.is_jittered();
        self.list.push(SameFires { schedule, jittered, jobs: 0, runs: 0, named: Vec::new() });
        self.list.len() - 1
    }

    /// Adds a job at this place, with so many runs of a fire. Jobs come in the order of their names, so that the first ones are
    /// named.
    fn add(&mut self, place: usize, name: &JobName, runs: u64) {
        let Some(group) = self.list.get_mut(place) else { return };
        group.jobs += 1;
        group.runs += runs;
        if group.named.len() < NAMED || group.jittered {
            group.named.push((name.clone(), runs));
        }
    }

    /// Counts their fires.
    #[must_use]
    pub fn forecast(mut self, window: &ForecastWindow) -> FireForecast {
        self.forecast_within(window, LOOKED_FOR)
    }

    fn forecast_within(&mut self, window: &ForecastWindow, looked_for: u64) -> FireForecast {
        let mut budget = CountBudget::new(looked_for);
        // Where the budget ends before the jobs do, most jobs are counted.
        self.list.sort_by_key(|group| Reverse(group.jobs));
        let empty = || vec![0; window.steps()];
        let mut forecast = FireForecast {
            fires: empty(),
            runs: empty(),
            inactive: self.inactive,
            manual: self.manual,
            unpredictable: self.unpredictable,
            ..FireForecast::default()
        };
        let mut counted = Vec::with_capacity(self.list.len());
        for group in &self.list {
            let jobs = usize::try_from(group.jobs).unwrap_or(usize::MAX);
            if let Some(steps) = group.count(window, &mut budget) {
                for (step, fires, runs) in steps {
                    add(&mut forecast.fires, step, fires);
                    add(&mut forecast.runs, step, runs);
                }
                forecast.jobs += jobs;
                counted.push(group);
            } else {
                forecast.uncounted += jobs;
            }
        }
        forecast.peaks = highest(&forecast.fires).map(|step| peak(step, &counted, window)).collect();
        forecast
    }
}

fn add(counts: &mut [u64], step: usize, more: u64) {
    if let Some(count) = counts.get_mut(step) {
        *count = count.saturating_add(more);
    }
}

/// The steps with the most fires, the first of equal ones.
fn highest(fires: &[u64]) -> impl Iterator<Item = usize> {
    let mut steps: Vec<(usize, u64)> = fires.iter().copied().enumerate().filter(|(_, n)| *n > 0).collect();
    steps.sort_by_key(|(step, fires)| (Reverse(*fires), *step));
    steps.into_iter().take(PEAKS).map(|(step, _)| step)
}

/// The jobs that fire in a step.
fn peak(step: usize, groups: &[&SameFires], window: &ForecastWindow) -> ForecastPeak {
    let only = window.only(step);
    let (mut jobs, mut named) = (0, Vec::new());
    for group in groups {
        group.each_job(&only, |count, fires, names| {
            jobs += count;
            named.extend(names.iter().map(|(name, _)| (Reverse(fires), name)));
        });
    }
    named.sort_unstable();
    named.truncate(NAMED);
    ForecastPeak { step, jobs, named: named.into_iter().map(|(_, name)| name.clone()).collect() }
}

impl SameFires {
    /// The steps in which its jobs fire, with the number of fires and of runs. `None` when the budget is used up.
    fn count(&self, window: &ForecastWindow, budget: &mut CountBudget) -> Option<Vec<(usize, u64, u64)>> {
        let mut steps = Vec::new();
        let movable = self.schedule.count(window, budget, |step, fires| {
            steps.push((step, fires.saturating_mul(self.jobs), fires.saturating_mul(self.runs)));
        })?;
        if movable.is_empty() {
            return Some(steps);
        }
        budget.spend((movable.len() as u64).saturating_mul(self.jobs) / MOVED)?;
        let names = SpreadNames::new(self.named.iter().map(|(name, runs)| (name.as_str(), *runs)));
        let mut moved = vec![(0_u64, 0_u64); window.steps()];
        names.count(&movable, window, |step, fires, runs| {
            if let Some((all_fires, all_runs)) = moved.get_mut(step) {
                (*all_fires, *all_runs) =
                    (*all_fires + fires, all_runs.saturating_add(fires.saturating_mul(runs)));
            }
        });
        let moved = moved.into_iter().enumerate().filter(|(_, (fires, _))| *fires > 0);
        steps.extend(moved.map(|(step, (fires, runs))| (step, fires, runs)));
        Some(steps)
    }

    /// Passes on how many of its jobs fire in the only step of a window, how often each, and some of them.
    fn each_job<'a>(
        &'a self,
        window: &ForecastWindow,
        mut found: impl FnMut(u64, u64, &'a [(JobName, u64)]),
    ) {
        let mut all = 0;
        // One step is cheap, and the whole was counted before.
        let movable = self.schedule.count(window, &mut CountBudget::new(LOOKED_FOR), |_, fires| all += fires);
        let movable = movable.unwrap_or_default();
        if movable.is_empty() {
            if all > 0 {
                found(self.jobs, all, &self.named);
            }
            return;
        }
        for named in self.named.chunks(1) {
            let moved = named.iter().flat_map(|(name, _)| steps_of(&movable, name, window)).count();
            let fires = all + moved as u64;
            if fires > 0 {
                found(1, fires, named);
            }
        }
    }
}

/// The steps to which the jitter of a job moves its fires.
fn steps_of(movable: &[MovableFire], name: &JobName, window: &ForecastWindow) -> impl Iterator<Item = usize> {
    let name = SpreadName::of(name.as_str());
    movable.iter().filter_map(move |fire| window.step_of(fire.of(name)))
}

#[cfg(test)]
mod tests;
