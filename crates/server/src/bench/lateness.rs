//! How late functions start that are due on every second.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::bench::{FireLog, declare, jobs_held, until, usage};
use evenkeel::clock;
use evenkeel_core::time::{Millis, Wall};
use tokio::time::sleep;

use super::errors::registry_error;
use super::load::BenchLoad;
use super::report::BenchReport;
use super::stage::BenchStage;
use crate::exit::CliError;

/// How long nodes settle after they own all jobs.
const SETTLE: Millis = Millis::secs(2);
/// How long to wait for fires that are late: after the grace of a minute they are skipped, and only then lost.
pub(super) const LATEST: Millis = Millis::secs(75);
/// How often to look for these.
const LOOK: Duration = Duration::from_millis(50);

/// Measures.
pub(super) async fn measure(stage: &Arc<BenchStage>, load: &BenchLoad) -> Result<BenchReport, CliError> {
    let (url, observer) = stage.registry().await?;
    let log = Arc::new(FireLog::default());
    let begun = clock::now().mono;
    let nodes = stage.open_nodes(&url, load.nodes, load.jobs.max(64), &log.functions()).await?;
    let joined = clock::now().mono - begun;
    declare(&url, load.jobs as usize, "* * * * * *").await.map_err(|e| registry_error(&e))?;
    stage.until_held(&nodes, load.jobs).await?;
    let from = next_second(SETTLE);
    let seconds = load.span.as_secs();
    let end = from + Millis::secs(seconds.cast_signed());
    sleep(until(from - Millis(500))).await;
    let expected = u64::from(load.jobs) * seconds;
    log.record((expected + u64::from(load.jobs)) as usize);
    let held = jobs_held(&nodes);
    let before = usage(None);
    sleep(until(end)).await;
    let processor = usage(None).processor - before.processor;
    let deadline = clock::now().mono + LATEST;
    while log.started_of(from, end) < expected && clock::now().mono < deadline {
        sleep(LOOK).await;
    }
    let seen = log.due_between(from, end);
    let mut report = BenchReport::new("lateness", &observer, load);
    let row = report.spread("start lateness", &seen.lateness);
    row.fires(Some(expected - seen.fires), seen.doubled).processor(processor);
    report.figure("fires", seen.fires as f64, "");
    report.figure("fires_a_second", seen.fires as f64 / seconds as f64, "/s");
    report.figure("processor_time_a_fire", processor * 1e6 / seen.fires.max(1) as f64, "us");
    report.figure("processor_share", processor / load.span.as_secs_f64() * 100.0, "% of a processor");
    report.figure("all_nodes_joined_after", joined.0 as f64 / 1e3, "s");
    report.figure("fewest_jobs_of_a_node", held.iter().min().copied().unwrap_or(0) as f64, "");
    report.figure("most_jobs_of_a_node", held.iter().max().copied().unwrap_or(0) as f64, "");
    Ok(report)
}

/// The first whole second after this span.
pub(super) fn next_second(span: Millis) -> Wall {
    let at = clock::now().wall + span;
    Wall((at.0 / 1_000 + 1) * 1_000)
}
