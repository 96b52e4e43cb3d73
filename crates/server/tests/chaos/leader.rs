//! A serving leader that dies and freezes with orders under way.
//!
//! Orders go to every node at once, each to set a job to a value of its own; those on standby must refuse them. The
//! registry's file itself writes down what is committed. Meanwhile dispatched jobs run each second.

mod chronicle;
mod verdict;
mod writers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use evenkeel_core::lease::usable;
use evenkeel_core::standing::{NET, STOP, takeover_wait};
use evenkeel_core::time::Millis;

use crate::fleet::{settle, wall};
use crate::peers::lateness::{self, Trouble, wait_until_prompt};
use crate::peers::trio::Trio;
use crate::process::{millis, until};
use crate::shards::witness::Ticks;
use crate::witness::{Roster, read};
use crate::{FAULTS, LEASE_MS, NAMES, alone, aloud, pulse, times};
use writers::{Addresses, KEPT, Told, Writers};

const TICKING: Roster = Roster { prefix: "ticking-", jobs: 4, placement: "dispatched", slow: ("brief", 2) };

/// How long each leader is left in peace once nobody is late any more.
const PEACE_MS: i64 = 2_000;

/// What a new leader waits for before it serves (W).
fn wait() -> Millis {
    let ttl = Millis(LEASE_MS);
    takeover_wait(ttl, usable(ttl, Millis::ZERO), Millis::ZERO, STOP, NET)
}

/// proves: S4-31, S4-33, I4
#[test]
fn what_a_leader_acknowledged_outlives_it() {
    let _machine = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let mut trio = Trio::start(folder.path(), None);
    // Before there is a leader, so that nothing of any is missed.
    chronicle::begin(folder.path());
    trio.ok(0, &["cluster", "settings", "--beat", "2", "--planner", "leader"]);
    let (mut leader, mut epoch) = until("somebody serves", || trio.serving());
    let log = folder.path().join("witness.log");
    let _ticks = Ticks::begin(&log);
    trio.apply(&TICKING.file(&log));
    let (begun, ahead) = (wall(), wall() - millis());
    settle(2_000);
    let prompt = wait_until_prompt(&log, &TICKING);
    let addresses: Addresses =
        Arc::new(Mutex::new((0..NAMES.len()).map(|node| trio.node(node).address).collect()));
    let writers = Writers::begin(&addresses);
    let (mut faults, mut troubles) = (Vec::new(), Vec::new());
    for round in 0..FAULTS * times(2) {
        until("orders are done", || writers.first_done(millis() - 1_000, leader));
        settle(PEACE_MS);
        let (at, kills, victim) = (millis(), round % FAULTS == 0, leader);
        let fault = if kills { trio.kill(victim, &TICKING) } else { trio.freeze(victim, &TICKING) };
        (leader, epoch) = until("another one serves", || trio.serving().filter(|(_, next)| *next > epoch));
        let done = until("the next leader does what it is told", || writers.first_done(at, leader));
        let mended = wall();
        if kills {
            trio.restart(victim);
            addresses.lock().expect("nobody panics")[victim] = trio.node(victim).address;
        } else {
            trio.thaw(&fault, victim);
        }
        println!("round {round}: {fault:?}, {} leads, first order after {} ms", NAMES[leader], done - at);
        let prompt = wait_until_prompt(&log, &TICKING);
        troubles.push(Trouble { what: fault.how.into(), from: fault.at, mended, prompt });
        faults.push(fault);
        trio.hear_history();
    }
    settle(1_000);
    let orders = writers.end();
    let ended = wall();
    let last = read_back(&trio, leader);
    let acts = chronicle::read(folder.path());
    let case = verdict::Case { orders: &orders, acts: &acts, last: &last };
    let mut complaints = case.judge();
    complaints.extend(alarms(&trio, leader));
    let lost = |trio: &mut Trio<'_>| {
        trio.hear_history();
        crate::verdict::Case::gather(&TICKING, read(&log), trio.verdicts.values(), begun, ended, &faults)
            .judge()
    };
    let patience = millis() + 60_000;
    let mut about_runs = lost(&mut trio);
    while !about_runs.is_empty() && millis() < patience {
        settle(1_000);
        about_runs = lost(&mut trio);
    }
    complaints.extend(about_runs);
    let (measured, late) = lateness::judge(&read(&log), &troubles, (prompt, ended - 1_000), pulse::slack);
    complaints.extend(late);
    let gaps = case.gaps();
    let worst = gaps.iter().map(|(from, to)| to - from).max().unwrap_or(0);
    let promised = LEASE_MS + wait().0 + 1_000;
    let count = |told| orders.iter().filter(|order| order.told == told).count();
    aloud(&format!(
        "chaos, serving leader: {} hand-overs, {} s, {} orders acknowledged, {} refused, {} unknown; worst gap {worst} ms \
         of {promised} promised; worst lateness {} ms ({} fires beyond 1 s), in trouble {} ms, nobody late {} ms after \
         its end; slowest takeover of runs {} ms",
        faults.len(),
        (ended - begun) / 1_000,
        count(Told::Done),
        count(Told::Standby),
        count(Told::Unknown),
        measured.in_peace,
        measured.late,
        measured.in_trouble,
        measured.recovery,
        faults.iter().map(|fault| fault.takeover).max().unwrap_or(0),
    ));
    assert_eq!(gaps.len(), faults.len(), "each leader did something");
    for (from, to) in gaps {
        let gap = to - from;
        // The clock of the orders is not the time of day; both go alike.
        let slack = pulse::slack(from + ahead, to + ahead);
        assert!(
            gap <= promised + slack,
            "a gap of {gap} ms, {promised} are promised, {slack} for the machine"
        );
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// What the leader says of the jobs.
fn read_back(trio: &Trio<'_>, leader: usize) -> BTreeMap<String, (u64, u64)> {
    let read = |job: usize| {
        let row = trio.json(leader, &["job", "show", &writers::name(job)]);
        let value = row["job"]["command"][1].as_str().and_then(|value| value.parse().ok());
        (writers::name(job), (row["version"].as_u64().expect("a version"), value.expect("a value")))
    };
    (0..KEPT).map(read).collect()
}

/// Nobody saw two leaders at once.
fn alarms(trio: &Trio<'_>, leader: usize) -> Vec<String> {
    let events = trio.json(leader, &["event", "list", "--kind", "multi_leader"]);
    events.as_array().expect("a list").iter().map(|event| format!("two leaders: {event}")).collect()
}
