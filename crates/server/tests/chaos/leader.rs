//! A serving leader that dies and freezes with orders under way.
//!
//! Orders go to every node at once, each to set a job to a value of its own; those on standby must refuse them. The
//! registry's file itself writes down what is committed. Meanwhile dispatched jobs run each second.

mod chronicle;
mod verdict;
mod writers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use evenkeel_core::eligibility::{NET, STOP, takeover_wait};
use evenkeel_core::lease::usable;
use evenkeel_core::time::Millis;

use crate::evidence::{Evidence, NodeFault};
use crate::fleet::wall;
use crate::peers::lateness::{self, FaultWindow, LatenessReport, wait_until_calm};
use crate::peers::trio::Trio;
use crate::process::{millis, until};
use crate::shards::witness::WitnessTicks;
use crate::witness::{JobRoster, read, starts, wait_until_resumed};
use crate::{FAULTS, LEASE_MS, NAMES, alone, aloud, times, wait_until_clean};
use writers::{KEPT, NodeAddresses, OrderOutcome, OrderWriters, WriteOrder};

const TICKING: JobRoster =
    JobRoster { prefix: "ticking-", jobs: 4, placement: "dispatched", slow: ("brief", 2) };

/// What a new leader waits for before it serves (W).
fn wait() -> Millis {
    let ttl = Millis(LEASE_MS);
    takeover_wait(ttl, usable(ttl, Millis::ZERO), Millis::ZERO, STOP, NET)
}

/// proves: S4-31, S4-33, I4
#[test]
#[ignore = "soak: four leaders, and how long each handover takes"]
fn what_a_leader_acknowledged_outlives_it() {
    let _machine = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let mut trio = Trio::start(folder.path(), None);
    // Before there is a leader, so that nothing of any is missed.
    chronicle::begin(folder.path());
    trio.ok(0, &["cluster", "settings", "--beat", "2s", "--planner", "leader"]);
    until("somebody serves", || trio.serving());
    let log = folder.path().join("witness.log");
    let _ticks = WitnessTicks::begin(&log);
    trio.apply(&TICKING.file(&log));
    let begun = wall();
    wait_until_resumed(&log, &TICKING, begun);
    let calm = wait_until_calm(&log, &TICKING);
    let addresses: NodeAddresses =
        Arc::new(Mutex::new((0..NAMES.len()).map(|node| trio.node(node).address).collect()));
    let writers = OrderWriters::begin(&addresses);
    let (mut faults, mut troubles) = (Vec::new(), Vec::new());
    for round in 0..FAULTS * times(2) {
        let (fault, mended) = hand_over(&mut trio, &writers, &addresses, round);
        let calm = wait_until_calm(&log, &TICKING);
        troubles.push(FaultWindow { what: format!("{:?}", fault.how), from: fault.at, mended, calm });
        faults.push(fault);
        trio.collect_history();
    }
    let orders = writers.end();
    let ended = wall();
    let (leader, _) = until("somebody serves", || trio.serving());
    let last = read_back(&trio, leader);
    let acts = chronicle::read(folder.path());
    let case = verdict::LeaderCase { orders: &orders, acts: &acts, last: &last };
    let mut complaints = case.judge();
    complaints.extend(alarms(&trio, leader));
    complaints.extend(wait_until_clean(|| {
        trio.collect_history();
        let lines = read(&log);
        let evidence = Evidence::gather(&faults, &trio.lost_leases(), starts(&lines));
        let span = (begun, ended);
        crate::verdict::ClaimedCase::gather(&TICKING, lines, trio.verdicts.values(), span, &evidence).judge()
    }));
    let measured = lateness::measure(&read(&log), &troubles, (calm, ended - 1_000));
    complaints.extend(measured.complaint());
    let gaps: Vec<i64> = case.gaps().iter().map(|(from, to)| to - from).collect();
    report(&orders, &gaps, &faults, (ended - begun, measured));
    assert!(gaps.len() >= faults.len(), "each leader did something");
    // A machine that stands still may lengthen some of the gaps, and not all of them.
    let best = gaps.iter().min().expect("a gap");
    assert!(*best <= promised(), "every gap lasted at least {best} ms, {} are promised", promised());
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// How long nobody may take orders at most when a leader dies.
fn promised() -> i64 {
    LEASE_MS + wait().0 + 1_000
}

/// The leader dies or freezes, another one serves, and the old one comes back; since when nothing is wrong any more.
fn hand_over(
    trio: &mut Trio<'_>,
    writers: &OrderWriters,
    addresses: &NodeAddresses,
    round: usize,
) -> (NodeFault, i64) {
    let (victim, epoch) = until("somebody serves and takes orders", || {
        let (leader, epoch) = trio.serving()?;
        writers.first_done(millis() - 1_000, leader).map(|_| (leader, epoch))
    });
    let (at, kills) = (millis(), round.is_multiple_of(FAULTS));
    let fault = if kills { trio.kill(victim, &TICKING) } else { trio.freeze(victim, &TICKING) };
    let (leader, done) = until("another one serves and does what it is told", || {
        let (leader, _) = trio.serving().filter(|(_, next)| *next > epoch)?;
        Some((leader, writers.first_done(at, leader).filter(|_| leader != victim)?))
    });
    let mended = wall();
    if kills {
        trio.restart(victim);
        addresses.lock().expect("nobody panics")[victim] = trio.node(victim).address;
    } else {
        trio.thaw(&fault, victim);
    }
    println!("round {round}: {fault:?}, {} leads, first order after {} ms", NAMES[leader], done - at);
    (fault, mended)
}

fn report(
    orders: &[WriteOrder],
    gaps: &[i64],
    faults: &[NodeFault],
    (lasted, measured): (i64, LatenessReport),
) {
    let count = |told| orders.iter().filter(|order| order.told == told).count();
    aloud(&format!(
        "chaos, serving leader: {} hand-overs, {} s, {} orders acknowledged, {} refused, {} unknown; gaps {gaps:?} ms, {} \
         promised; worst lateness {} ms ({} fires beyond 1 s), in trouble {} ms, no fire late {} to {} ms after its end; \
         slowest takeover of runs {} ms",
        faults.len(),
        lasted / 1_000,
        count(OrderOutcome::Done),
        count(OrderOutcome::Standby),
        count(OrderOutcome::Unknown),
        promised(),
        measured.in_peace,
        measured.late,
        measured.in_trouble,
        measured.best_recovery,
        measured.recovery,
        faults.iter().map(|fault| fault.takeover).max().unwrap_or(0),
    ));
}

/// What the leader says of the jobs.
fn read_back(trio: &Trio<'_>, leader: usize) -> BTreeMap<String, (u64, u64)> {
    let read = |job: usize| {
        let row = trio.json(leader, &["job", "show", &writers::name(job), "--details"]);
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
