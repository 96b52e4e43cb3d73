//! Nodes that die and freeze under load, and witnesses that do not ask them what happened.
//!
//! Three nodes share one SQLite file. They run 50 claimed jobs each second, some for two leases, and ten sharded ones of
//! 1 to 50 shards each second, some for longer than a period or than a new cut waits. In each round one node is killed
//! or frozen for longer than its lease; between rounds nodes are drained and jobs get another number of shards. The jobs
//! themselves write down when they run; [`verdict`] and [`shards::verdict`] compare that with every second that was due.
//!
//! Two more trials are about nodes that depend on one another: [`peers`] plan for each other across a network that is cut,
//! and a serving [`leader`] dies with orders under way. And on each real engine that runs here, three nodes go through
//! kills, pauses, a cut wire and a restart of the engine: [`engines`].
//!
//! `EVENKEEL_CHAOS_TIMES` says how often each trial plays each of its faults; without it each has a number of its own, so
//! that all of them take a few minutes.

mod engines;
mod fleet;
mod leader;
mod peers;
#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
#[path = "../it/process.rs"]
mod process;
mod pulse;
mod shards;
#[path = "../../../registry/tests/common/still.rs"]
mod still;
mod verdict;
#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
#[path = "../it/wire.rs"]
mod wire;
mod witness;

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleet::{Fleet, settle, wall};
use process::millis;
use shards::verdict::{Course, Rescale};
use shards::witness as sharded;
use witness::{CLAIMED, read};

/// The nodes' lease.
const LEASE_MS: i64 = 4_000;
/// How long a frozen node sleeps: well past its lease.
const FREEZE_MS: i64 = 6_500;
/// Within so long a takeover is promised: lease + 1 s.
const PROMISED_MS: i64 = LEASE_MS + 1_000;
/// The most that a machine which stands still may add to what is promised before we call it broken.
const SLACK_MS: i64 = 3_000;
const NAMES: [&str; 3] = ["n1", "n2", "n3"];
/// A kill and a pause.
const FAULTS: usize = 2;
/// The trials measure how long things take, so each has the machine for itself.
static MACHINE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    pulse::begin();
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often a trial plays each of its faults.
fn times(brief: usize) -> usize {
    std::env::var("EVENKEEL_CHAOS_TIMES").ok().and_then(|n| n.parse().ok()).unwrap_or(brief)
}

/// Says something that is also read when nothing went wrong; what tests print usually is not.
fn aloud(text: &str) {
    // Nobody may listen, and that is no failure.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// proves: S1-03, S1-75, S1-89, I14, I15, I16, I18, I19, I20, I21, I22, I23, I33
#[test]
fn nothing_is_lost_and_nothing_doubled() {
    let _machine = alone();
    let rounds = FAULTS * times(5);
    let folder = tempfile::tempdir().expect("a folder");
    let mut fleet = Fleet::start(folder.path());
    let (log, shard_log) = (folder.path().join("witness.log"), folder.path().join("shards.log"));
    let _ticks = [&log, &shard_log].map(|log| sharded::Ticks::begin(log));
    let mut totals = sharded::JOBS.map(|job| job.shards);
    fleet.apply(&(CLAIMED.file(&log) + &sharded::jobs(&shard_log, &totals)));
    let begun = wall();
    fleet.wait_for_shares();
    settle(2_000);
    let (mut faults, mut rescales) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let victim = round % NAMES.len();
        let fault = if round % FAULTS == 0 { fleet.kill(victim) } else { fleet.freeze(victim) };
        println!("round {round}: {fault:?}");
        assert!(fault.in_time(fault.takeover, PROMISED_MS), "taken over too late: {fault:?}");
        let recut = PROMISED_MS + sharded::RECUT_WAIT_MS;
        assert!(fault.in_time(fault.recut, recut), "cut again too late: {fault:?}");
        faults.push(fault);
        if round % 4 == 1 {
            fleet.drain_for_a_while((victim + 1) % NAMES.len());
        } else {
            rescales.extend(rescale(&mut fleet, &log, &shard_log, &mut totals));
        }
        settle(1_000);
        fleet.hear_history();
    }
    let ended = wall();
    // The longest run and the fires that queued behind it are through by then, or they never will be.
    let mut check = || {
        fleet.hear_history();
        let mut complaints =
            verdict::Case::gather(&CLAIMED, read(&log), fleet.verdicts.values(), begun, ended, &faults)
                .judge();
        let course = Course { begun, ended, faults: &faults, rescales: &rescales };
        let verdicts = fleet.verdicts.values().filter_map(shards::verdict::Verdict::of);
        complaints.extend(shards::verdict::Case::gather(sharded::read(&shard_log), verdicts, course).judge());
        complaints
    };
    let mut complaints = check();
    let patience = millis() + 120_000;
    while !complaints.is_empty() && millis() < patience {
        settle(1_000);
        complaints = check();
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    let slowest = faults.iter().map(|f| f.takeover).max().unwrap_or(0);
    let lines = |log| std::fs::read_to_string(log).map(|text| text.lines().count()).unwrap_or(0);
    aloud(&format!(
        "chaos: {rounds} rounds, {} s, {} and {} witness lines, {} verdicts, slowest takeover {slowest} ms",
        (ended - begun) / 1000,
        lines(&log),
        lines(&shard_log),
        fleet.verdicts.len()
    ));
}

/// Gives the jobs that are made for it another number of shards, when none of their fires waits.
fn rescale(
    fleet: &mut Fleet<'_>,
    log: &std::path::Path,
    shard_log: &std::path::Path,
    totals: &mut [u32; sharded::JOBS.len()],
) -> Vec<Rescale> {
    fleet.wait_for_shares();
    let resized: Vec<usize> = (0..totals.len()).filter(|job| sharded::JOBS[*job].other.is_some()).collect();
    resized.iter().for_each(|job| fleet.wait_until_prompt(&sharded::name(*job)));
    let asked = wall();
    let old = *totals;
    for job in &resized {
        let is = &sharded::JOBS[*job];
        totals[*job] = if old[*job] == is.shards { is.other.unwrap_or(is.shards) } else { is.shards };
    }
    fleet.apply(&(CLAIMED.file(log) + &sharded::jobs(shard_log, totals)));
    resized.iter().for_each(|job| fleet.wait_for_total(&sharded::name(*job), totals[*job]));
    let done = wall();
    println!("        other numbers of shards after {} ms", done - asked);
    resized.iter().map(|job| Rescale { job: *job, from: old[*job], to: totals[*job], asked, done }).collect()
}
