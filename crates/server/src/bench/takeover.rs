//! How long after the death of a node's process its jobs start elsewhere, and which fires are lost or doubled by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::bench::{BenchObserver, Percentiles, declare_sealed, until, usage};
use evenkeel::clock;
use evenkeel_core::time::{Millis, Wall};
use tokio::time::sleep;

use super::child::ChildNode;
use super::errors::{failed, registry_error};
use super::lateness::next_second;
use super::load::BenchLoad;
use super::outputs::{CommandStart, OutputReader, check_clock, run_clock};
use super::report::BenchReport;
use super::stage::BenchStage;
use crate::exit::CliError;
use crate::identity::ClusterIdentity;

/// How long to wait until nodes are members, and until jobs start.
const PATIENCE: Millis = Millis::secs(120);
/// How long nodes settle before one of them is killed.
const SETTLE: Millis = Millis::secs(2);
/// How often to look.
const LOOK: Duration = Duration::from_millis(100);
/// By how much the moment of each kill is later within its second than that of the one before.
const PHASE: i64 = 370;

/// A node was killed, and all its jobs have started elsewhere.
struct NodeDeath {
    /// How long after the kill, or after the moment that was due next, each of its jobs started elsewhere, in milliseconds.
    delays: Vec<f64>,
    /// Of these the longest, but from the kill on.
    resumed: f64,
}

/// Measures.
pub(super) async fn measure(
    stage: &Arc<BenchStage>,
    load: &BenchLoad,
    rounds: u32,
) -> Result<BenchReport, CliError> {
    if stage.is_in_memory() {
        return Err(CliError::usage(
            "takeover needs a registry that several processes share: name another --registry, or leave it out",
        ));
    }
    check_clock()?;
    let (url, observer) = stage.registry().await?;
    let names: Vec<_> = (1..=load.nodes).map(|nth| format!("n{nth}")).collect();
    let data: Vec<_> = names.iter().map(|_| stage.data_folder()).collect();
    for (name, data) in names.iter().zip(&data) {
        stage.children().push(ChildNode::start(name, data, &url)?);
    }
    until_members(stage, &observer, load.nodes).await?;
    // The nodes have the identity of this user, too.
    let seals = ClusterIdentity::open(None, clock::now().wall)?.0.of_node().seals;
    let declared = declare_sealed(&url, load.jobs as usize, "* * * * * *", Some(&seals), run_clock).await;
    declared.map_err(|e| registry_error(&e))?;
    let mut outputs = OutputReader::new(data);
    until_started(stage, &mut outputs, "every job has started", |starts| {
        starts.iter().map(|start| start.job).collect::<BTreeSet<_>>().len() >= load.jobs as usize
    })
    .await?;
    let from = next_second(SETTLE);
    let (mut deaths, mut processor) = (Vec::new(), 0.0);
    for round in 0..rounds {
        let kill_at = next_second(SETTLE) + Millis(i64::from(round) * PHASE % 1_000);
        sleep(until(kill_at)).await;
        outputs.read_new();
        let victim = busiest(&outputs.starts);
        processor += usage(Some(stage.children()[victim].id())).processor;
        deaths.push(kill(stage, &mut outputs, victim).await?);
        stage.children()[victim].restart(&url)?;
        until_members(stage, &observer, load.nodes).await?;
    }
    let end = next_second(SETTLE);
    sleep(until(end + SETTLE)).await;
    processor += stage.children().iter().map(|child| usage(Some(child.id())).processor).sum::<f64>();
    outputs.read_new();
    let (lost, doubled) = verdict(&outputs.starts, (from, end), load.jobs);
    let mut report = BenchReport::new("takeover", &observer, load);
    let delays = Percentiles::of(deaths.iter().flat_map(|death| death.delays.clone()).collect());
    report.spread("next fire of each job", &delays).fires(Some(lost), doubled).processor(processor);
    let resumed = Percentiles::of(deaths.iter().map(|death| death.resumed).collect());
    report.spread("from kill to last job's start", &resumed);
    report.figure("rounds", f64::from(rounds), "");
    report.figure("fires_due", (end - from).0 as f64 / 1e3 * f64::from(load.jobs), "");
    report.figure("lost_a_kill", lost as f64 / f64::from(rounds), "");
    Ok(report)
}

/// Kills a node, and waits until each of its jobs has started on another one.
async fn kill(stage: &BenchStage, outputs: &mut OutputReader, victim: usize) -> Result<NodeDeath, CliError> {
    let owned: BTreeSet<u32> =
        owners(&outputs.starts).into_iter().filter(|(_, node)| *node == victim).map(|(job, _)| job).collect();
    let killed = clock::wall_micros();
    stage.children()[victim].kill();
    let elsewhere = |starts: &[CommandStart]| {
        let mut first: BTreeMap<u32, i64> = BTreeMap::new();
        for start in starts.iter().filter(|start| start.node != victim && start.at > killed) {
            if owned.contains(&start.job) {
                first.entry(start.job).and_modify(|at| *at = start.at.min(*at)).or_insert(start.at);
            }
        }
        first
    };
    until_started(stage, outputs, "the killed node's jobs start elsewhere", |starts| {
        elsewhere(starts).len() == owned.len()
    })
    .await?;
    let first = elsewhere(&outputs.starts);
    let ms = |micros: i64| micros as f64 / 1e3;
    // Before the next due moment there is nothing to start.
    let due = (killed / 1_000_000 + 1) * 1_000_000;
    Ok(NodeDeath {
        delays: first.values().map(|at| ms(*at - due).max(0.0)).collect(),
        resumed: first.values().map(|at| ms(*at - killed)).fold(0.0, f64::max),
    })
}

/// The node on which each job started last.
fn owners(starts: &[CommandStart]) -> BTreeMap<u32, usize> {
    let mut last: BTreeMap<u32, CommandStart> = BTreeMap::new();
    for start in starts {
        let known = last.entry(start.job).or_insert(*start);
        if start.at > known.at {
            *known = *start;
        }
    }
    last.into_iter().map(|(job, start)| (job, start.node)).collect()
}

/// The node that owns most jobs.
fn busiest(starts: &[CommandStart]) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    owners(starts).into_values().for_each(|node| *counts.entry(node).or_default() += 1);
    counts.into_iter().max_by_key(|(_, jobs)| *jobs).map_or(0, |(node, _)| node)
}

/// How many fires of this span never started, and how many started more than once.
fn verdict(starts: &[CommandStart], (from, end): (Wall, Wall), jobs: u32) -> (u64, u64) {
    let mut times: BTreeMap<(i64, u32), u64> = BTreeMap::new();
    for start in starts.iter().filter(|start| (from.0..end.0).contains(&start.due)) {
        *times.entry((start.due, start.job)).or_default() += 1;
    }
    let due = u64::from(jobs) * ((end - from).0 / 1_000).unsigned_abs();
    (due - times.len() as u64, times.values().filter(|times| **times > 1).count() as u64)
}

async fn until_members(stage: &BenchStage, observer: &BenchObserver, nodes: u32) -> Result<(), CliError> {
    let deadline = clock::now().mono + PATIENCE;
    while observer.members().await.map_err(|e| registry_error(&e))? < nodes as usize {
        check(stage, deadline, "all nodes are members")?;
        sleep(LOOK).await;
    }
    Ok(())
}

async fn until_started(
    stage: &BenchStage,
    outputs: &mut OutputReader,
    what: &str,
    is_so: impl Fn(&[CommandStart]) -> bool,
) -> Result<(), CliError> {
    let deadline = clock::now().mono + PATIENCE;
    outputs.read_new();
    while !is_so(&outputs.starts) {
        check(stage, deadline, what)?;
        sleep(LOOK).await;
        outputs.read_new();
    }
    Ok(())
}

/// Fails if it is too late, or a node that was not killed has ended.
fn check(stage: &BenchStage, deadline: evenkeel_core::time::Mono, what: &str) -> Result<(), CliError> {
    if let Some(ended) =
        stage.children().iter_mut().filter(|child| !child.is_killed()).find_map(ChildNode::end)
    {
        return Err(ended);
    }
    match clock::now().mono < deadline {
        true => Ok(()),
        false => Err(failed(format!(
            "after {} s it is not yet so that {what}: see the registry",
            PATIENCE.0 / 1_000
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(due: i64, job: u32, node: usize, late: i64) -> CommandStart {
        CommandStart { due, job, node, at: due * 1_000 + late }
    }

    #[test]
    fn each_fire_is_counted_once_and_only_within_the_span() {
        let starts = [
            start(0, 0, 0, 0),
            start(1_000, 0, 0, 10),
            start(1_000, 1, 0, 10),
            start(2_000, 0, 1, 10),
            start(2_000, 0, 2, 20),
            start(3_000, 1, 1, 0),
        ];
        assert_eq!(verdict(&starts, (Wall(1_000), Wall(3_000)), 2), (1, 1));
        assert_eq!(verdict(&starts[..3], (Wall(1_000), Wall(2_000)), 2), (0, 0));
    }

    #[test]
    fn a_job_belongs_to_the_node_on_which_it_started_last() {
        let starts =
            [start(2_000, 0, 1, 0), start(1_000, 0, 0, 0), start(1_000, 1, 1, 0), start(1_000, 2, 2, 0)];
        assert_eq!(owners(&starts), BTreeMap::from([(0, 1), (1, 1), (2, 2)]));
        assert_eq!(busiest(&starts), 1);
    }
}
