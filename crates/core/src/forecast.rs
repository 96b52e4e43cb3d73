//! How many fires are due in each step of a time to come, of all jobs together.
//!
//! Jobs with equal schedules are counted together, so a hundred thousand jobs with some hundred schedules cost some hundred counts. Also a
//! rule with `H`, which means something else for each name, gives few schedules: `H H * * *` names 1,440 moments.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::ids::JobName;
use crate::job::JobSchedule;
use crate::schedule::{CalendarFilter, CountBudget, ForecastWindow, MovableFire, Schedule, SpreadName};

/// How many fires may be looked for in a count: more than a second's work. The jobs that come last are left out.
const LOOKED_FOR: u64 = 4_000_000;
/// How many moved fires cost as much as one that is looked for.
const MOVED: u64 = 16;
/// How many of the highest steps are named, and how many jobs of each.
const PEAKS: usize = 3;
const NAMED: usize = 10;

/// A job whose fires are counted.
#[derive(Clone, Debug)]
pub struct ForecastJob {
    /// Its name.
    pub name: JobName,
    /// When it is due, as its declaration says.
    pub schedule: JobSchedule,
    /// The calendars that it names; `None` while one of them is missing.
    pub calendars: Option<CalendarFilter>,
    /// How many runs each of its fires has.
    pub runs: u64,
}

/// Jobs sorted by their schedules, whose fires can be counted.
#[derive(Debug, Default)]
pub struct ForecastJobs {
    /// What is known of jobs with the same texts.
    texts: BTreeMap<JobSchedule, SameText>,
    groups: BTreeMap<Schedule, usize>,
    list: Vec<SameFires>,
    unpredictable: usize,
}

/// What jobs with the same texts have in common.
#[derive(Clone, Copy, Debug)]
enum SameText {
    /// They are of this group.
    Group(usize),
    /// Each name means another schedule.
    Spread,
    /// Nothing is known of their fires.
    Unpredictable,
}

/// Jobs with equal schedules, but for a jitter.
#[derive(Debug)]
struct SameFires {
    schedule: Schedule,
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
    /// How many jobs are not counted because their fires follow their runs, or nothing is known of their schedule or calendars.
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
    /// Adds a job. Jobs come in the order of their names, so that the first ones are named.
    pub fn add(&mut self, job: ForecastJob) {
        let ForecastJob { name, schedule: text, calendars, runs } = job;
        let group = match self.texts.get(&text) {
            Some(SameText::Group(group)) => Some(*group),
            Some(SameText::Unpredictable) => None,
            Some(SameText::Spread) => self.group_of(&name, &text, calendars),
            None => {
                let group = self.group_of(&name, &text, calendars);
                let known = match group {
                    None => SameText::Unpredictable,
                    Some(_) if Schedule::is_spread(&text.rules) => SameText::Spread,
                    Some(group) => SameText::Group(group),
                };
                self.texts.insert(text, known);
                group
            }
        };
        let Some(group) = group.and_then(|group| self.list.get_mut(group)) else {
            self.unpredictable += 1;
            return;
        };
        group.jobs += 1;
        group.runs += runs;
        if group.named.len() < NAMED || group.schedule.is_jittered() {
            group.named.push((name, runs));
        }
    }

    /// The group of the job of this name with this schedule, which is new if there is none; `None` if its fires are not known ahead.
    fn group_of(
        &mut self,
        name: &JobName,
        text: &JobSchedule,
        calendars: Option<CalendarFilter>,
    ) -> Option<usize> {
        let schedule = text.parse(name).ok().filter(|schedule| !schedule.follows_runs())?;
        let schedule = schedule.under(calendars?).nameless();
        if let Some(known) = self.groups.get(&schedule) {
            return Some(*known);
        }
        let group = self.list.len();
        self.list.push(SameFires { schedule: schedule.clone(), jobs: 0, runs: 0, named: Vec::new() });
        self.groups.insert(schedule, group);
        Some(group)
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
        let mut moved = vec![(0_u64, 0_u64); window.steps()];
        for (name, runs) in &self.named {
            for step in steps_of(&movable, name, window) {
                if let Some((fires, all)) = moved.get_mut(step) {
                    (*fires, *all) = (*fires + 1, all.saturating_add(*runs));
                }
            }
        }
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
