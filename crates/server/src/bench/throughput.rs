//! How many functions start a second when more are due than can be started.

use std::sync::Arc;

use evenkeel::bench::{FireLog, declare, until, usage};
use evenkeel_core::time::Millis;
use tokio::time::sleep;

use super::errors::registry_error;
use super::lateness::next_second;
use super::load::BenchLoad;
use super::report::BenchReport;
use super::stage::BenchStage;
use crate::exit::CliError;

/// How long the flood lasts before it is measured.
const SETTLE: Millis = Millis::secs(3);
/// More starts a second than any node makes, for which there is room in the record.
const STARTS_MAX: u64 = 100_000;

/// Measures.
pub(super) async fn measure(stage: &Arc<BenchStage>, load: &BenchLoad) -> Result<BenchReport, CliError> {
    let (url, observer) = stage.registry().await?;
    let log = Arc::new(FireLog::default());
    let nodes = stage.open_nodes(&url, load.nodes, load.jobs, &log.functions()).await?;
    declare(&url, load.jobs as usize, "* * * * * *").await.map_err(|e| registry_error(&e))?;
    stage.until_held(&nodes, load.jobs).await?;
    let from = next_second(SETTLE);
    let end = from + Millis(load.span.as_millis() as i64);
    sleep(until(from)).await;
    let room = STARTS_MAX.min(u64::from(load.jobs)) * load.span.as_secs();
    let before = observer.revision().await.map_err(|e| registry_error(&e))?;
    let used = usage(None);
    log.record(room as usize);
    sleep(until(end)).await;
    let processor = usage(None).processor - used.processor;
    let revisions = observer.revision().await.map_err(|e| registry_error(&e))?.0 - before.0;
    let seen = log.started_between(from, end);
    let fires = seen.fires.max(1) as f64;
    let mut report = BenchReport::new("throughput", &observer, load);
    report.spread("start lateness", &seen.lateness).fires(None, seen.doubled).processor(processor);
    report.figure("fires", seen.fires as f64, "");
    report.figure("fires_a_second", seen.fires as f64 / load.span.as_secs_f64(), "/s");
    report.figure("processor_time_a_fire", processor * 1e6 / fires, "us");
    report.figure("processor_share", processor / load.span.as_secs_f64() * 100.0, "% of a processor");
    report.figure("revisions_a_fire", revisions as f64 / fires, "");
    Ok(report)
}
