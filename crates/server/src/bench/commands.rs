//! How late commands start, and how many a second, beside the same programs started by this process itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::bench::{Percentiles, declare_with, until, usage};
use evenkeel::{Functions, JobFile, Program, clock};
use evenkeel_core::time::Millis;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::errors::{failed, registry_error};
use super::lateness::next_second;
use super::load::BenchLoad;
use super::outputs::{OutputReader, check_clock, clock_command, files, moment, run_clock};
use super::report::BenchReport;
use super::stage::BenchStage;
use crate::exit::CliError;

/// How often the programs are started without a node.
const CLOCKS: usize = 200;
const STARTS: u32 = 2_000;
/// How many jobs are due on every second where more are due than can be started, and on how many slots.
const FLOOD: u32 = 2_000;
const SLOTS: u32 = 64;
/// How long a node settles after it owns all jobs.
const SETTLE: Millis = Millis::secs(2);
/// How long to wait for the last output.
const LATEST: Duration = Duration::from_secs(10);

/// Measures.
pub(super) async fn measure(stage: &Arc<BenchStage>, load: &BenchLoad) -> Result<BenchReport, CliError> {
    let own = block_in_place(clocks)?;
    let (url, observer) = stage.registry().await?;
    let mut report = BenchReport::new("commands", &observer, load);
    punctual(stage, load, &url, &mut report).await?;
    report.spread("the program alone", &own);
    stage.stop_nodes().await;
    let (url, _observer) = stage.registry().await?;
    flood(stage, load, &url, &mut report).await?;
    Ok(report)
}

/// One command due on every second: how late does its program read the clock?
async fn punctual(
    stage: &Arc<BenchStage>,
    load: &BenchLoad,
    url: &str,
    report: &mut BenchReport,
) -> Result<(), CliError> {
    let (node, data) = open_node(stage, url).await?;
    declare_with(url, 1, "* * * * * *", run_clock).await.map_err(|e| registry_error(&e))?;
    stage.until_held(&node, 1).await?;
    let from = next_second(SETTLE);
    let seconds = load.span.as_secs();
    let end = from + Millis::secs(seconds.cast_signed());
    let before = usage(None);
    sleep(until(end)).await;
    let processor = usage(None).processor - before.processor;
    let mut outputs = OutputReader::new(vec![data]);
    let found = |outputs: &OutputReader| {
        let due = outputs.starts.iter().filter(|start| (from.0..end.0).contains(&start.due));
        due.copied().collect::<Vec<_>>()
    };
    let deadline = clock::now().mono + Millis(LATEST.as_millis() as i64);
    outputs.read_new();
    while found(&outputs).len() < seconds as usize && clock::now().mono < deadline {
        sleep(Duration::from_millis(50)).await;
        outputs.read_new();
    }
    let mut starts = found(&outputs);
    let late = starts.iter().map(|start| (start.at - start.due * 1_000) as f64 / 1e3).collect();
    let all = starts.len();
    starts.sort_unstable();
    starts.dedup_by_key(|start| start.due);
    let (lost, doubled) = (seconds - starts.len() as u64, all - starts.len());
    let row = report.spread("one command a second", &Percentiles::of(late));
    row.fires(Some(lost), doubled as u64).processor(processor);
    Ok(())
}

/// More commands due than can be started.
async fn flood(
    stage: &Arc<BenchStage>,
    load: &BenchLoad,
    url: &str,
    report: &mut BenchReport,
) -> Result<(), CliError> {
    let before = block_in_place(bare_starts)?;
    let (node, data) = open_node(stage, url).await?;
    declare_with(url, FLOOD as usize, "* * * * * *", run_true).await.map_err(|e| registry_error(&e))?;
    stage.until_held(&node, FLOOD).await?;
    sleep(until(next_second(SETTLE))).await;
    let (first, used) = (files(&data).len(), usage(None));
    let begun = clock::wall_micros();
    sleep(load.span).await;
    let (last, now) = (files(&data).len(), usage(None));
    let seconds = (clock::wall_micros() - begun) as f64 / 1e6;
    stage.stop_nodes().await;
    // The guard has ended with its node, and what it and the programs used counts as this process's children's.
    let (all, guarded) = (files(&data).len(), usage(None).children - used.children);
    // The machine may have had more or less to do at either end.
    let bare = f64::midpoint(before, block_in_place(bare_starts)?);
    let starts = (last - first) as f64;
    report.figure("commands_a_second", starts / seconds, "/s");
    report.figure("bare_starts_a_second", bare, "/s");
    report.figure("ratio", starts / seconds / bare, "");
    report.figure(
        "processor_time_of_node",
        (now.processor - used.processor) / starts.max(1.0) * 1e3,
        "ms a command",
    );
    report.figure("processor_time_of_guard_and_program", guarded / all.max(1) as f64 * 1e3, "ms a command");
    Ok(())
}

async fn open_node(stage: &Arc<BenchStage>, url: &str) -> Result<(Vec<evenkeel::Handle>, PathBuf), CliError> {
    let nodes = stage.open_nodes(url, 1, SLOTS, &Functions::new()).await?;
    let data = stage.last_data_folder();
    Ok((nodes, data))
}

/// How long the program takes until it reads the clock, in milliseconds.
fn clocks() -> Result<Percentiles, CliError> {
    check_clock()?;
    let mut took = Vec::new();
    for _ in 0..CLOCKS {
        let asked = clock::wall_micros();
        let said = clock_command().output().map_err(|e| failed(format!("`date` cannot be started: {e}")))?;
        took.extend(moment(&said.stdout).map(|at| (at - asked) as f64 / 1e3));
    }
    Ok(Percentiles::of(took))
}

/// How many times a second this process starts `true`, one after the other, and waits for its end.
fn bare_starts() -> Result<f64, CliError> {
    let begun = clock::wall_micros();
    for _ in 0..STARTS {
        let ended = std::process::Command::new("true").status();
        ended.map_err(|e| failed(format!("`true` cannot be started: {e}")))?;
    }
    Ok(f64::from(STARTS) / (clock::wall_micros() - begun) as f64 * 1e6)
}

fn run_true(job: &mut JobFile) {
    job.function.clear();
    job.command = Program::Argv(vec!["true".into()]);
}
