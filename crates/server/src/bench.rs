//! `evenkeel bench`: measures what this machine and a registry can do, and removes what it made.

mod burst;
mod child;
mod commands;
mod errors;
mod idle;
mod lateness;
mod load;
mod outputs;
mod report;
mod stage;
mod takeover;
mod throughput;

use std::sync::Arc;
use std::time::Duration;

use crate::exit::{CliError, ExitKind};
use crate::output;
use crate::serve::TerminationSignals;
use errors::failed;
pub(crate) use load::BenchLoad;
pub(crate) use report::BenchReport;
use stage::BenchStage;

/// What is measured, and with how much.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BenchMeasure {
    /// How late functions start that are due on every second.
    Lateness(BenchLoad),
    /// How long functions take to start that are due in the same second.
    Burst(BenchLoad),
    /// How many functions start a second when more are due.
    Throughput(BenchLoad),
    /// How long after a node's death its jobs start elsewhere.
    Takeover {
        /// The nodes and jobs; the span is not used.
        load: BenchLoad,
        /// How often a node is killed.
        rounds: u32,
    },
    /// How late commands start, and how many a second.
    Commands(BenchLoad),
    /// What nodes cost whose jobs are not due.
    Idle(BenchLoad),
}

/// Measures at the engine of a registry's URL, or with a file in a temporary folder, passes the report on, and removes
/// everything, also after an error or a signal.
///
/// # Errors
/// It could not be measured, or something is left behind; the text says what.
pub(crate) fn run(
    registry: Option<&str>,
    measure: BenchMeasure,
    print: impl FnOnce(&BenchReport) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| CliError::new(ExitKind::Failed, format!("no runtime: {e}")))?;
    let done = runtime.block_on(async {
        let mut end = TerminationSignals::new()?;
        let stage = Arc::new(BenchStage::new(registry)?);
        let mut task = tokio::spawn(perform(stage.clone(), measure));
        let measured = tokio::select! {
            done = &mut task => {
                done.unwrap_or_else(|panic| Err(failed(format!("the measurement ended unexpectedly: {panic}"))))
            }
            () = end.next() => {
                task.abort();
                // Nothing of it goes on when this returns.
                let _ = task.await;
                output::print_message("interrupted: what was made is being removed");
                Err(failed("interrupted before there was a result"))
            }
        };
        let printed = measured.and_then(|report| print(&report));
        let removed = stage.clean_up().await;
        match (printed, removed) {
            (printed, Ok(())) => printed,
            (Ok(()), Err(left)) => Err(left),
            (Err(error), Err(left)) => Err(CliError::new(error.exit, format!("{error}; {left}"))),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(2));
    done
}

async fn perform(stage: Arc<BenchStage>, measure: BenchMeasure) -> Result<BenchReport, CliError> {
    match &measure {
        BenchMeasure::Lateness(load) => lateness::measure(&stage, load).await,
        BenchMeasure::Burst(load) => burst::measure(&stage, load).await,
        BenchMeasure::Throughput(load) => throughput::measure(&stage, load).await,
        BenchMeasure::Takeover { load, rounds } => takeover::measure(&stage, load, *rounds).await,
        BenchMeasure::Commands(load) => commands::measure(&stage, load).await,
        BenchMeasure::Idle(load) => idle::measure(&stage, load).await,
    }
}
