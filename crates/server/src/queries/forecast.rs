//! How many fires are due in a time to come: the jobs of a view, and what is counted of them.

use evenkeel::Handle;
use evenkeel_core::forecast::{FireForecast, ForecastJob, ForecastJobs, ForecastPeak};
use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::job::{JobSelector, Placement, SpecTiming};
use evenkeel_core::schedule::ForecastWindow;
use evenkeel_core::view::{JobView, View};

use crate::api_types::{ForecastAnswer, ForecastPeakRow, ForecastStep, QuietStepRow, moment};

/// The number of jobs read in one look at the view, for which the node waits: less than a millisecond.
const TIMINGS: usize = 300;

/// Which jobs are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForecastScope {
    /// Those of this namespace; of all for none.
    pub(crate) namespace: Option<Namespace>,
    /// Those whose labels meet these conditions.
    pub(crate) labels: Option<JobSelector>,
}

/// The jobs that were read.
#[derive(Default)]
struct FiringJobs {
    counted: ForecastJobs,
    inactive: usize,
    manual: usize,
    unpredictable: usize,
}

/// Counts the fires of all jobs of the scope in each step of the window. It takes up to 0.3 seconds with 100,000 jobs; the node
/// waits for a small part of that at a time.
pub(crate) fn forecast(
    handle: &Handle,
    scope: &ForecastScope,
    window: &ForecastWindow,
    step: ForecastStep,
) -> ForecastAnswer {
    let FiringJobs { counted, inactive, manual, unpredictable } = firing_jobs(handle, scope);
    let forecast = counted.forecast(window);
    let others = ForecastAnswer { inactive, manual, unpredictable, ..answer(&forecast, window, step) };
    ForecastAnswer { unpredictable: unpredictable + forecast.unpredictable, ..others }
}

fn firing_jobs(handle: &Handle, ForecastScope { namespace, labels }: &ForecastScope) -> FiringJobs {
    let mut jobs = FiringJobs::default();
    let mut last: Option<JobName> = None;
    loop {
        let mut seen = 0;
        last = handle.with_node(|node| {
            let view = node.view();
            let mut add = |job: JobView<'_>| {
                seen += 1;
                jobs.add(view, job, labels.as_ref());
                job.name().clone()
            };
            match namespace {
                Some(namespace) => view.page_in(namespace, last.as_ref(), TIMINGS).map(&mut add).last(),
                None => view.page(last.as_ref(), TIMINGS).map(&mut add).last(),
            }
        });
        if seen < TIMINGS {
            return jobs;
        }
    }
}

impl FiringJobs {
    /// Adds a job if the labels meet it.
    fn add(&mut self, view: &View, job: JobView<'_>, labels: Option<&JobSelector>) {
        let Some(SpecTiming { job: timing, paused, off }) = job.timing() else { return };
        if labels.is_some_and(|labels| !labels.fits(&timing.labels)) {
            return;
        }
        if !timing.enabled || paused {
            self.inactive += 1;
            return;
        }
        let runs = match timing.placement {
            Placement::Claimed | Placement::Dispatched => 1,
            Placement::Sharded => u64::from(timing.shards).saturating_sub(off.len() as u64),
            Placement::Broadcast => view.nodes_of(job.group()) as u64,
        };
        let Some(schedule) = timing.into_schedule() else {
            self.manual += 1;
            return;
        };
        if view.is_unschedulable(job.group()) {
            self.unpredictable += 1;
            return;
        }
        let calendars = view.calendars_named(&schedule.exclude_calendars, &schedule.require_calendars);
        self.counted.add(ForecastJob { name: job.name().clone(), schedule, calendars, runs });
    }
}

fn answer(forecast: &FireForecast, window: &ForecastWindow, step: ForecastStep) -> ForecastAnswer {
    let of = |counts: &[u64], step: usize| counts.get(step).copied().unwrap_or(0);
    let peak = |peak: &ForecastPeak| ForecastPeakRow {
        at: moment(window.at(peak.step)),
        fires: of(&forecast.fires, peak.step),
        runs: of(&forecast.runs, peak.step),
        jobs: peak.jobs,
        names: peak.named.iter().map(ToString::to_string).collect(),
    };
    let fewest = forecast.fires.iter().copied().enumerate().min_by_key(|(_, fires)| *fires);
    let (quietest, fires) = fewest.unwrap_or((0, 0));
    ForecastAnswer {
        begin: moment(window.begin()),
        step,
        fires: forecast.fires.clone(),
        runs: forecast.runs.clone(),
        total: forecast.fires.iter().sum(),
        peaks: forecast.peaks.iter().map(peak).collect(),
        quietest: QuietStepRow { at: moment(window.at(quietest)), fires },
        jobs: forecast.jobs,
        inactive: 0,
        manual: 0,
        unpredictable: forecast.unpredictable,
        uncounted: forecast.uncounted,
    }
}
