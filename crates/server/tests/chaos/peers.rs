//! Nodes that plan for each other, on three hosts whose wires are cut.
//!
//! Each host is a network namespace; the registry's file is all they share. Dispatched jobs run each second while packets
//! vanish one way and both ways, between two hosts and between all, and while nodes are killed and frozen. Only a node that
//! was killed or frozen may lose what it had accepted; a cut excuses nothing, since the registry is never cut off.

pub(crate) mod lateness;
pub(crate) mod network;
pub(crate) mod trio;

use std::path::Path;

use crate::fleet::{settle, wall};
use crate::process::millis;
use crate::shards::witness::Ticks;
use crate::verdict::{Case, Fault};
use crate::witness::{Roster, read};
use crate::{NAMES, PROMISED_MS, alone, aloud, pulse, times};
use lateness::{Trouble, wait_until_prompt};
use network::{Network, Way};
use trio::Trio;

const DISPATCHED: Roster =
    Roster { prefix: "dispatched-", jobs: 30, placement: "dispatched", slow: ("brief", 3) };
/// A kill, a pause and three ways of cutting.
const FAULTS: usize = 5;
/// How long some wires stay cut: more than two beats.
const CUT_MS: i64 = 7_000;
/// How long all of them do: longer than anybody plans ahead, so that what had been offered before is used up.
const ALL_CUT_MS: i64 = 10_000;
/// How long everybody is left in peace, once nobody is late any more.
const PEACE_MS: i64 = 2_500;

/// proves: S0-44, I42
#[test]
fn dispatched_jobs_outlive_cuts_kills_and_pauses() {
    let _machine = alone();
    let network = match Network::lay() {
        Ok(network) => network,
        Err(why) => return aloud(&format!("chaos: SKIPPED the trial of three network namespaces: {why}")),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut trio = Trio::start(folder.path(), Some(network));
    trio.ok(0, &["cluster", "settings", "--beat", "3"]);
    let log = folder.path().join("witness.log");
    let _ticks = Ticks::begin(&log);
    trio.apply(&DISPATCHED.file(&log));
    let begun = wall();
    settle(2_000);
    let prompt = wait_until_prompt(&log, &DISPATCHED);
    let (mut faults, mut troubles) = (Vec::new(), Vec::new());
    for round in 0..FAULTS * times(1) {
        let (mut trouble, fault) = round_of(&mut trio, &log, round);
        trouble.prompt = wait_until_prompt(&log, &DISPATCHED);
        let (lasted, recovery) = (trouble.mended - trouble.from, trouble.prompt - trouble.mended);
        println!("round {round}: {}, {lasted} ms, nobody late {recovery} ms later; {fault:?}", trouble.what);
        let slow = fault.as_ref().is_some_and(|fault| !fault.in_time(fault.takeover, PROMISED_MS));
        assert!(!slow, "taken over too late: {fault:?}");
        faults.extend(fault);
        troubles.push(trouble);
        settle(PEACE_MS);
        trio.hear_history();
    }
    let ended = wall();
    let mut check = || {
        trio.hear_history();
        let case = Case::gather(&DISPATCHED, read(&log), trio.verdicts.values(), begun, ended, &faults);
        case.judge()
    };
    let mut complaints = check();
    let patience = millis() + 60_000;
    while !complaints.is_empty() && millis() < patience {
        settle(1_000);
        complaints = check();
    }
    let (measured, late) = lateness::judge(&read(&log), &troubles, (prompt, ended - 1_000), pulse::slack);
    complaints.extend(late);
    let slowest = faults.iter().map(|fault| fault.takeover).max().unwrap_or(0);
    aloud(&format!(
        "chaos, three namespaces: {} rounds, {} s, {} verdicts; worst lateness {} ms ({} fires beyond 1 s), in trouble {} ms, nobody \
         late {} ms after its end; slowest takeover {slowest} ms",
        troubles.len(),
        (ended - begun) / 1_000,
        trio.verdicts.len(),
        measured.in_peace,
        measured.late,
        measured.in_trouble,
        measured.recovery,
    ));
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// One thing goes wrong and is mended.
fn round_of(trio: &mut Trio<'_>, log: &Path, round: usize) -> (Trouble, Option<Fault>) {
    let victim = round % NAMES.len();
    let way = Way { from: victim, to: (victim + 1) % NAMES.len() };
    match round % FAULTS {
        0 => (cut(trio, log, "one way cut", &[way]), None),
        1 => {
            let fault = trio.kill(victim, &DISPATCHED);
            let mended = wall();
            trio.restart(victim);
            (Trouble { what: "killed".into(), from: fault.at, mended, prompt: mended }, Some(fault))
        }
        2 => (cut(trio, log, "both ways cut", &[way, way.back()]), None),
        3 => {
            let fault = trio.freeze(victim, &DISPATCHED);
            let mended = wall();
            trio.thaw(&fault, victim);
            (Trouble { what: "frozen".into(), from: fault.at, mended, prompt: mended }, Some(fault))
        }
        _ => (cut(trio, log, "everything cut", &Way::all()), None),
    }
}

/// While it lasts the others go on, or, where there are no others, everybody alone.
fn cut(trio: &Trio<'_>, log: &Path, what: &str, ways: &[Way]) -> Trouble {
    let (from, begun) = (wall(), millis());
    trio.network().cut(ways);
    trio.wait_until_felt(ways);
    let felt = millis() - begun;
    settle(if ways.len() == Way::all().len() { ALL_CUT_MS } else { CUT_MS } - felt);
    let prompt = wait_until_prompt(log, &DISPATCHED);
    trio.network().mend(ways);
    let mended = wall();
    let offline = trio.activate();
    let what = format!("{what} {ways:?}, felt after {felt} ms, {offline} nodes offline");
    Trouble { what, from, mended, prompt }
}
