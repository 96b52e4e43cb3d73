//! What nodes cost whose jobs are not due.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::Functions;
use evenkeel::bench::{declare, usage};
use evenkeel::clock;
use tokio::time::sleep;

use super::errors::registry_error;
use super::load::BenchLoad;
use super::report::BenchReport;
use super::stage::BenchStage;
use crate::exit::CliError;

/// How long nodes settle after they own all jobs.
const SETTLE: Duration = Duration::from_secs(10);
/// How long they settle after they are members.
const JOINED: Duration = Duration::from_secs(3);

/// Measures.
pub(super) async fn measure(stage: &Arc<BenchStage>, load: &BenchLoad) -> Result<BenchReport, CliError> {
    let (url, observer) = stage.registry().await?;
    let empty = usage(None).memory;
    let nodes = stage.open_nodes(&url, load.nodes, 64, &Functions::new()).await?;
    sleep(JOINED).await;
    let joined = usage(None).memory;
    let begun = clock::now().mono;
    declare(&url, load.jobs as usize, "0 0 1 1 *").await.map_err(|e| registry_error(&e))?;
    stage.until_held(&nodes, load.jobs).await?;
    let held = clock::now().mono - begun;
    sleep(SETTLE).await;
    let before = observer.revision().await.map_err(|e| registry_error(&e))?;
    let used = usage(None);
    sleep(load.span).await;
    let now = usage(None);
    let writes = observer.revision().await.map_err(|e| registry_error(&e))?.0 - before.0;
    let seconds = load.span.as_secs_f64();
    let memory = |since: u64| now.memory.saturating_sub(since) as f64;
    let processor = now.processor - used.processor;
    let mut report = BenchReport::new("idle", &observer, load);
    report.figure("processor_time", processor, "s");
    report.figure("processor_share", processor / seconds * 100.0, "% of a processor");
    report.figure("writes_a_minute", writes as f64 / seconds * 60.0, "revisions");
    report.figure("memory", memory(empty) / f64::from(1 << 20), "MB");
    report.figure(
        "memory_a_job_and_node",
        memory(joined) / f64::from(load.jobs) / f64::from(load.nodes),
        "bytes",
    );
    report.figure("all_jobs_declared_and_claimed_after", held.0 as f64 / 1e3, "s");
    Ok(report)
}
