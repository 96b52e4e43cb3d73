//! Nodes that die and freeze under load, and witnesses that do not ask them what happened.
//!
//! Three nodes share one SQLite file. They run 50 claimed jobs each second, some for eight seconds, and ten sharded ones of
//! 1 to 50 shards each second, some for longer than a period or than a new cut waits. In each round one node is killed
//! or frozen for longer than its lease; between rounds nodes are drained and jobs get another number of shards. The jobs
//! themselves write down when they run; [`verdict`] and [`shards::verdict`] compare that with every second that was due.
//!
//! Two more trials are about nodes that depend on one another: [`peers`] plan for each other across a network that is cut,
//! and a serving [`leader`] dies with orders under way. And on each real engine that runs here, three nodes go through
//! kills, pauses, a cut wire and a restart of the engine, and spread dispatched runs evenly: [`engines`].
//!
//! The gate runs two short trials, on SQLite and on Redis. They judge what ran, and measure how long things took without
//! judging that: a machine that is busy with something else delays everything. The soak runs all trials, and there the
//! promises about time are judged too, by the best of several rounds.
//!
//! `EVENKEEL_CHAOS_TIMES` says how often each trial of the soak plays each of its faults; without it each has a number of its
//! own.

mod engines;
#[path = "../it/evenly.rs"]
mod evenly;
mod evidence;
mod fleet;
mod leader;
mod peers;
#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
#[path = "../it/process.rs"]
mod process;
mod shards;
#[path = "../../../registry/tests/common/still.rs"]
mod still;
mod verdict;
#[expect(dead_code, reason = "shared with the other tests, which use all of it")]
#[path = "../it/wire.rs"]
mod wire;
mod witness;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use evidence::{Evidence, NodeFault};
use fleet::{ChaosFleet, settle, wall};
use process::millis;
use shards::skips;
use shards::verdict::{Rescale, TrialCourse};
use shards::witness as sharded;
use witness::{CLAIMED, PATIENCE_MS, read};

/// The nodes' lease: so long that no healthy node loses it on a machine that stands still for a moment.
const LEASE_MS: i64 = 12_000;
/// How long a frozen node sleeps: well past its lease.
const FREEZE_MS: i64 = LEASE_MS + 2_500;
/// Within so long a takeover is promised: lease + 1 s.
const PROMISED_MS: i64 = LEASE_MS + 1_000;
const NAMES: [&str; 3] = ["n1", "n2", "n3"];
/// A kill and a pause.
const FAULTS: usize = 2;
/// Each trial loads the machine for itself.
static MACHINE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often a trial of the soak plays each of its faults.
fn times(brief: usize) -> usize {
    std::env::var("EVENKEEL_CHAOS_TIMES").ok().and_then(|n| n.parse().ok()).unwrap_or(brief)
}

/// Says something that is also read when nothing went wrong; what tests print usually is not.
fn aloud(text: &str) {
    // Nobody may listen, and that is no failure.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Judges again and again until nothing is wrong: what queued behind a fault may still be under way.
fn wait_until_clean(mut judge: impl FnMut() -> Vec<String>) -> Vec<String> {
    let begun = millis();
    loop {
        let complaints = judge();
        if complaints.is_empty() || millis() - begun >= PATIENCE_MS {
            return complaints;
        }
        settle(1_000);
    }
}

/// proves: S1-03, S1-75, S1-89, I14, I15, I16, I18, I19, I20, I21, I22, I23, I33
#[test]
fn nothing_is_lost_and_nothing_doubled() {
    kills_and_freezes(FAULTS);
}

/// The same for longer. Jobs of a dead node are others' within its lease and a second, and within a second of the end of its
/// lease; its shards are others' as soon as running ones have had the time that a new cut leaves them.
#[test]
#[ignore = "soak: ten rounds, and how long takeovers take"]
fn nothing_is_lost_in_many_rounds_and_takeovers_are_prompt() {
    let faults = kills_and_freezes(FAULTS * times(5));
    let best = |span: fn(&NodeFault) -> i64| faults.iter().map(span).min().expect("a round");
    let takeover = best(|fault| fault.takeover);
    assert!(takeover <= PROMISED_MS, "taken over too late in every round: {faults:#?}");
    let after_lease = best(|fault| fault.after_lease.expect("the trial reads leases"));
    assert!(after_lease <= 1_000, "taken over too long after the lease in every round: {faults:#?}");
    let recut = best(|fault| fault.reshard);
    assert!(
        recut <= PROMISED_MS + sharded::RESHARD_TIMEOUT_MS,
        "resharded too late in every round: {faults:#?}"
    );
}

/// Three nodes on one SQLite file.
struct ChaosTrial<'a> {
    fleet: ChaosFleet<'a>,
    folder: &'a Path,
    log: PathBuf,
    shard_log: PathBuf,
    totals: [u32; sharded::JOBS.len()],
    begun: i64,
    rescales: Vec<Rescale>,
}

fn kills_and_freezes(rounds: usize) -> Vec<NodeFault> {
    let _machine = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (log, shard_log) = (folder.path().join("witness.log"), folder.path().join("shards.log"));
    let ticks = [&log, &shard_log].map(|log| sharded::WitnessTicks::begin(log));
    let mut trial = ChaosTrial::begin(folder.path(), log, shard_log);
    let faults: Vec<NodeFault> = (0..rounds).map(|round| trial.round(round)).collect();
    let ended = wall();
    let complaints = wait_until_clean(|| trial.judge(ended, &faults));
    assert!(
        complaints.is_empty(),
        "{} complaints:\n{}\n{}",
        complaints.len(),
        complaints.join("\n"),
        complaints.iter().take(5).map(|what| trial.fleet.rows_around(what)).collect::<String>()
    );
    drop(ticks);
    trial.report(ended, &faults);
    faults
}

impl<'a> ChaosTrial<'a> {
    fn begin(folder: &'a Path, log: PathBuf, shard_log: PathBuf) -> Self {
        let fleet = ChaosFleet::start(folder);
        skips::begin(folder);
        let totals = sharded::JOBS.map(|job| job.shards);
        fleet.apply(&(CLAIMED.file(&log) + &sharded::jobs(&shard_log, &totals)));
        let begun = wall();
        let trial = Self { fleet, folder, log, shard_log, totals, begun, rescales: Vec::new() };
        trial.fleet.wait_for_assignments();
        trial.wait_until_resumed();
        trial
    }

    /// Waits until every job has begun a fire that is due from now on.
    fn wait_until_resumed(&self) {
        let since = wall();
        witness::wait_until_resumed(&self.log, &CLAIMED, since);
        sharded::wait_until_resumed(&self.shard_log, &self.totals, since);
    }

    fn round(&mut self, round: usize) -> NodeFault {
        let victim = round % NAMES.len();
        let fault =
            if round.is_multiple_of(FAULTS) { self.fleet.kill(victim) } else { self.fleet.freeze(victim) };
        aloud(&format!("round {round}: {fault:?}"));
        self.wait_until_resumed();
        if round % 4 == 1 {
            self.fleet.drain_for_a_while((victim + 1) % NAMES.len());
        } else {
            self.rescale();
        }
        self.wait_until_resumed();
        self.fleet.collect_history();
        fault
    }

    /// Gives the jobs that are made for it another number of shards.
    fn rescale(&mut self) {
        self.fleet.wait_for_assignments();
        let old = self.totals;
        let changes = |job: &usize| sharded::JOBS[*job].other.is_some();
        let resized: Vec<usize> = (0..old.len()).filter(changes).collect();
        for job in &resized {
            let is = &sharded::JOBS[*job];
            self.totals[*job] =
                if old[*job] == is.shards { is.other.unwrap_or(is.shards) } else { is.shards };
        }
        let asked = millis();
        let settled =
            resized.iter().map(|job| self.fleet.claimed(&sharded::name(*job)).0).collect::<Vec<_>>();
        self.fleet.apply(&(CLAIMED.file(&self.log) + &sharded::jobs(&self.shard_log, &self.totals)));
        for (job, settled) in resized.into_iter().zip(settled) {
            let (name, from, to) = (sharded::name(job), old[job], self.totals[job]);
            self.fleet.wait_for_total(&name, to);
            let claimed = self.fleet.claimed(&name).1;
            self.rescales.push(Rescale { job, from, to, settled, claimed });
        }
        println!("        other numbers of shards after {} ms", millis() - asked);
    }

    fn judge(&mut self, ended: i64, faults: &[NodeFault]) -> Vec<String> {
        self.fleet.collect_history();
        let (lines, shard_lines) = (read(&self.log), sharded::read(&self.shard_log));
        let starts = witness::starts(&lines).chain(sharded::starts(&shard_lines));
        let evidence = Evidence::gather(faults, &self.fleet.lost_leases(), starts);
        let (begun, rescales) = (self.begun, &self.rescales);
        let rows = || self.fleet.verdicts.values();
        let case = verdict::ClaimedCase::gather(&CLAIMED, lines, rows(), (begun, ended), &evidence);
        let mut complaints = case.judge();
        let skips = skips::read(self.folder);
        let course = TrialCourse { begun, ended, evidence: &evidence, rescales, skips: &skips };
        let verdicts = rows().filter_map(shards::verdict::ShardVerdict::of);
        complaints.extend(shards::verdict::ShardedCase::gather(shard_lines, verdicts, course).judge());
        complaints
    }

    fn report(&self, ended: i64, faults: &[NodeFault]) {
        let longest = |span: fn(&NodeFault) -> i64| faults.iter().map(span).max().unwrap_or(0);
        let lines = |log| std::fs::read_to_string(log).map(|text| text.lines().count()).unwrap_or(0);
        aloud(&format!(
            "chaos: {} rounds, {} s, {} and {} witness lines, {} verdicts, {} skips, {} lost leases, slowest takeover {} ms, \
             {} ms after the lease, slowest cut {} ms",
            faults.len(),
            (ended - self.begun) / 1000,
            lines(&self.log),
            lines(&self.shard_log),
            self.fleet.verdicts.len(),
            skips::read(self.folder).len(),
            self.fleet.lost_leases().len(),
            longest(|fault| fault.takeover),
            longest(|fault| fault.after_lease.unwrap_or(0)),
            longest(|fault| fault.reshard),
        ));
    }
}
