//! How many fires are due in a time to come: the jobs of a view, and what is counted of them.

use evenkeel::Handle;
use evenkeel_core::forecast::{FireForecast, ForecastGroups, ForecastPeak, ForecastScope};
use evenkeel_core::schedule::ForecastWindow;

use evenkeel_client::types::{ForecastAnswer, ForecastPeakRow, ForecastStep, QuietStepRow, moment};

/// Counts the fires of all jobs of the scope in each step of the window, and remembers in `groups` how each job counts. The node
/// waits for a small part of the work at a time.
pub(crate) fn forecast(
    handle: &Handle,
    groups: &mut ForecastGroups,
    scope: &ForecastScope,
    window: &ForecastWindow,
    step: ForecastStep,
) -> ForecastAnswer {
    let mut reading = groups.reading(scope);
    while handle.with_node(|node| reading.look(node.view())) {}
    answer(&reading.jobs().forecast(window), window, step)
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
        inactive: forecast.inactive,
        manual: forecast.manual,
        unpredictable: forecast.unpredictable,
        uncounted: forecast.uncounted,
    }
}
