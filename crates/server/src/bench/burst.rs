//! How long functions take to start that are due in the same second.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::bench::{FireLog, declare, until, usage};
use evenkeel::clock;
use evenkeel_core::time::{Millis, Wall};
use tokio::time::sleep;

use super::errors::{failed, registry_error};
use super::lateness::{LATEST, next_second};
use super::load::BenchLoad;
use super::report::BenchReport;
use super::stage::BenchStage;
use crate::exit::CliError;

/// How long it takes at most to declare and to claim one job, and all that does not depend on their number.
const A_JOB: Duration = Duration::from_micros(1_500);
const BEFORE: Millis = Millis::secs(10);
/// The nodes settle for this long before the moment.
const SETTLE: Millis = Millis::secs(3);

/// Measures.
pub(super) async fn measure(stage: &Arc<BenchStage>, load: &BenchLoad) -> Result<BenchReport, CliError> {
    let (url, observer) = stage.registry().await?;
    let log = Arc::new(FireLog::default());
    let slots = load.jobs.max(64);
    let nodes = stage.open_nodes(&url, load.nodes, slots, &log.functions()).await?;
    let due = next_second(BEFORE + Millis((A_JOB * load.jobs).as_millis() as i64));
    declare(&url, load.jobs as usize, &schedule(due)).await.map_err(|e| registry_error(&e))?;
    stage.until_held(&nodes, load.jobs).await?;
    if clock::now().wall + SETTLE > due {
        return Err(failed(
            "the nodes were not ready when the jobs were due: this machine is too busy; try again with fewer --jobs",
        ));
    }
    log.record(load.jobs as usize);
    sleep(until(due - Millis(1_500))).await;
    let before = usage(None);
    sleep(until(due)).await;
    let deadline = clock::now().mono + LATEST;
    while log.recorded() < u64::from(load.jobs) && clock::now().mono < deadline {
        sleep(Duration::from_millis(10)).await;
    }
    let processor = usage(None).processor - before.processor;
    let seen = log.due_between(due, due + Millis(1));
    let mut report = BenchReport::new("burst", &observer, load);
    let row = report.spread("from due to start", &seen.lateness);
    row.fires(Some(u64::from(load.jobs) - seen.fires), seen.doubled).processor(processor);
    report.figure("fires", seen.fires as f64, "");
    report.figure("all_started_after", seen.lateness.max, "ms");
    report.figure("processor_time_a_fire", processor * 1e6 / seen.fires.max(1) as f64, "us");
    Ok(report)
}

/// A schedule that is due at this second, and an hour later.
fn schedule(due: Wall) -> String {
    let seconds = due.0 / 1_000;
    format!("{} {} * * * *", seconds % 60, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_due_at_that_second() {
        // 2026-03-01T22:30:07Z
        assert_eq!(schedule(Wall(1_772_404_207_000)), "7 30 * * * *");
    }
}
