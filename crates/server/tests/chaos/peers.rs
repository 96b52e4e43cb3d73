//! Nodes that plan for each other, on three hosts whose wires are cut.
//!
//! Each host is a network namespace; the registry's file is all they share. Dispatched jobs run each second while packets
//! vanish one way and both ways, between two hosts and between all, and while nodes are killed and frozen. Only a node that
//! was killed or frozen may lose what it had accepted; a cut excuses nothing, since the registry is never cut off.

pub(crate) mod lateness;
pub(crate) mod network;
pub(crate) mod trio;

use std::path::Path;

use crate::evidence::{Evidence, NodeFault};
use crate::fleet::{settle, wall};
use crate::process::millis;
use crate::shards::witness::WitnessTicks;
use crate::verdict::ClaimedCase;
use crate::witness::{JobRoster, read, starts, wait_until_resumed};
use crate::{NAMES, PROMISED_MS, alone, aloud, times, wait_until_clean};
use lateness::{FaultWindow, wait_until_calm, wait_until_prompt};
use network::{NetworkPath, TestNetwork};
use trio::Trio;

const DISPATCHED: JobRoster =
    JobRoster { prefix: "dispatched-", jobs: 30, placement: "dispatched", slow: ("brief", 3) };
/// A kill, a pause and three ways of cutting.
const FAULTS: usize = 5;
/// How long some wires stay cut: more than two beats.
const CUT_MS: i64 = 7_000;
/// How long all of them do: longer than anybody plans ahead, so that what had been offered before is used up.
const ALL_CUT_MS: i64 = 10_000;
/// proves: S0-44, I42
#[test]
#[ignore = "soak: minutes of cuts, and how late fires are"]
fn dispatched_jobs_outlive_cuts_kills_and_pauses() {
    let _machine = alone();
    let network = match TestNetwork::lay() {
        Ok(network) => network,
        Err(why) => return aloud(&format!("chaos: SKIPPED the trial of three network namespaces: {why}")),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut trio = Trio::start(folder.path(), Some(network));
    trio.ok(0, &["cluster", "settings", "--beat", "3s"]);
    let log = folder.path().join("witness.log");
    let _ticks = WitnessTicks::begin(&log);
    trio.apply(&DISPATCHED.file(&log));
    let begun = wall();
    wait_until_resumed(&log, &DISPATCHED, begun);
    let calm = wait_until_calm(&log, &DISPATCHED);
    let (mut faults, mut troubles) = (Vec::new(), Vec::new());
    for round in 0..FAULTS * times(1) {
        let (mut trouble, fault) = round_of(&mut trio, &log, round);
        trouble.calm = wait_until_calm(&log, &DISPATCHED);
        let (lasted, recovery) = (trouble.mended - trouble.from, trouble.calm - trouble.mended);
        println!("round {round}: {}, {lasted} ms, no fire late {recovery} ms later; {fault:?}", trouble.what);
        faults.extend(fault);
        troubles.push(trouble);
        trio.collect_history();
    }
    let ended = wall();
    let mut complaints = wait_until_clean(|| {
        trio.collect_history();
        let lines = read(&log);
        let evidence = Evidence::gather(&faults, &trio.lost_leases(), starts(&lines));
        let span = (begun, ended);
        ClaimedCase::gather(&DISPATCHED, lines, trio.verdicts.values(), span, &evidence).judge()
    });
    let measured = lateness::measure(&read(&log), &troubles, (calm, ended - 1_000));
    complaints.extend(measured.complaint());
    complaints.extend(slow_takeovers(&faults));
    let slowest = faults.iter().map(|fault| fault.takeover).max().unwrap_or(0);
    aloud(&format!(
        "chaos, three namespaces: {} rounds, {} s, {} verdicts; worst lateness {} ms ({} fires beyond 1 s), in trouble {} ms, no \
         fire late {} to {} ms after its end; slowest takeover {slowest} ms",
        troubles.len(),
        (ended - begun) / 1_000,
        trio.verdicts.len(),
        measured.in_peace,
        measured.late,
        measured.in_trouble,
        measured.best_recovery,
        measured.recovery,
    ));
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// Says when no takeover was as fast as promised; a machine that stands still may delay some of them, and not all.
fn slow_takeovers(faults: &[NodeFault]) -> Option<String> {
    let best = faults.iter().map(|fault| fault.takeover).min()?;
    (best > PROMISED_MS).then(|| format!("every takeover took at least {best} ms"))
}

/// One thing goes wrong and is mended.
fn round_of(trio: &mut Trio<'_>, log: &Path, round: usize) -> (FaultWindow, Option<NodeFault>) {
    let victim = round % NAMES.len();
    let way = NetworkPath { from: victim, to: (victim + 1) % NAMES.len() };
    match round % FAULTS {
        0 => (cut(trio, log, "one way cut", &[way]), None),
        1 => {
            let fault = trio.kill(victim, &DISPATCHED);
            let mended = wall();
            trio.restart(victim);
            (FaultWindow { what: "killed".into(), from: fault.at, mended, calm: mended }, Some(fault))
        }
        2 => (cut(trio, log, "both ways cut", &[way, way.back()]), None),
        3 => {
            let fault = trio.freeze(victim, &DISPATCHED);
            let mended = wall();
            trio.thaw(&fault, victim);
            (FaultWindow { what: "frozen".into(), from: fault.at, mended, calm: mended }, Some(fault))
        }
        _ => (cut(trio, log, "everything cut", &NetworkPath::all()), None),
    }
}

/// While it lasts the others go on, or, where there are no others, everybody alone.
fn cut(trio: &Trio<'_>, log: &Path, what: &str, ways: &[NetworkPath]) -> FaultWindow {
    let (from, begun) = (wall(), millis());
    trio.network().cut(ways);
    trio.wait_until_felt(ways);
    let felt = millis() - begun;
    settle(if ways.len() == NetworkPath::all().len() { ALL_CUT_MS } else { CUT_MS } - felt);
    wait_until_prompt(log, &DISPATCHED);
    trio.network().mend(ways);
    let mended = wall();
    let offline = trio.activate();
    let what = format!("{what} {ways:?}, felt after {felt} ms, {offline} nodes offline");
    FaultWindow { what, from, mended, calm: mended }
}
