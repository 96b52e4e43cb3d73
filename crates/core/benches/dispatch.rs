//! What planning costs: a beat's worth of runs, a million of them, for a thousand nodes.
//!
//! `cargo bench -p evenkeel-core --bench dispatch`

use std::hint::black_box;
use std::time::Duration;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Effect;
use evenkeel_core::ids::{JobName, Member};
use evenkeel_core::input::{Input, LeaseEvent};
use evenkeel_core::job::{Job, JobFile, Placement, Spec, Work};
use evenkeel_core::keys;
use evenkeel_core::labels::Labels;
use evenkeel_core::load::Score;
use evenkeel_core::node::{Node, Quota, Settings, Spread};
use evenkeel_core::record::{Assignment, MemberInfo, Plan, SpecRecord, decode, encode};
use evenkeel_core::registry::{
    Change, ChangeBatch, Entry, LeaseGrant, LeaseId, Revision, TxnOutcome, Value, Write,
};
use evenkeel_core::slots::{NodeSlots, SlotTimeline};
use evenkeel_core::time::{Millis, Mono, Now, Wall};

/// The first moment of a beat.
const START: i64 = 1_767_225_600_000;
const NODES: usize = 1_000;
/// With a run at each second of a beat, and what is planned of the next one.
const JOBS: usize = 15_500;

fn main() {
    let (runs, planned) = plan();
    let rate = |span: Duration| f64::from(u32::try_from(runs).unwrap_or(u32::MAX)) / span.as_secs_f64() / 1e6;
    let chosen = choose(runs);
    let naive = scan(runs / 10) * 10;
    println!("{runs} runs of {JOBS} jobs over {NODES} nodes");
    println!(
        "planned, as transactions to send   {:>7.3} s   {:>6.2} million/s",
        planned.as_secs_f64(),
        rate(planned)
    );
    println!(
        "of that choosing the nodes         {:>7.3} s   {:>6.2} million/s",
        chosen.as_secs_f64(),
        rate(chosen)
    );
    println!(
        "choosing by looking at every node  {:>7.3} s   {:.0} times as long",
        naive.as_secs_f64(),
        naive.as_secs_f64() / chosen.as_secs_f64()
    );
}

/// Lets a node take a beat and plan it; returns how many runs, and how long its steps took.
fn plan() -> (usize, Duration) {
    let now = Now { mono: Mono(1_000), wall: Wall(START + 1_000) };
    let mut node = Node::new(settings());
    let granted = LeaseGrant { lease: LeaseId(7), ttl: Millis::secs(1_000_000), clock: None, next_end: None };
    let mut effects = Vec::new();
    node.step(now, Input::Lease(LeaseEvent::Opened { asked: Mono(0), granted }), &mut effects);
    let mut revision = 0;
    let mut changes = Vec::new();
    for n in 0..NODES {
        let member: Member = format!("n{n:04}@7").parse().expect("a member");
        changes.push(change(&mut revision, keys::node(&member), encode(&info())));
    }
    for n in 0..JOBS {
        let place = Assignment { epoch: 1, version: 1, planned: true, ..Assignment::default() };
        changes.push(change(&mut revision, keys::spec(&name(n)), encode(&spec(n))));
        changes.push(change(&mut revision, keys::assignment(&name(n)), encode(&place)));
    }
    effects.clear();
    node.step(now, Input::Listed(Some(ChangeBatch { changes, revision: Revision(revision) })), &mut effects);
    let (mut runs, mut spent) = (0, Duration::ZERO);
    let mut inputs = Vec::new();
    loop {
        for effect in effects.drain(..) {
            match effect {
                Effect::Read(keys) => {
                    let absent = |key| Change { key, entry: None, revision: Revision(revision + 1) };
                    inputs.push(Input::Read(Some(keys.into_iter().map(absent).collect())));
                }
                Effect::Commit { ticket, txn, kind } => {
                    if kind == CommitKind::Plan
                        && let Some(Write::Put { value, .. }) = txn.writes.first()
                    {
                        runs += decode::<Plan>(value).map_or(0, |plan| plan.runs.len());
                    } else {
                        revision += 1;
                        inputs.push(Input::Committed {
                            ticket,
                            outcome: TxnOutcome::Applied(Revision(revision)),
                        });
                    }
                }
                _ => {}
            }
        }
        let input = inputs.pop().unwrap_or(Input::Tick);
        let idle = input == Input::Tick;
        spent += clock(|| {
            node.step(now, input, &mut effects);
        });
        if idle && effects.is_empty() && runs >= JOBS * 60 {
            return (runs, spent);
        }
    }
}

/// The choice alone: as many runs a second as there are jobs, each of half a second.
fn choose(runs: usize) -> Duration {
    let score = |n: usize| Score(u32::try_from(n % 97).unwrap_or(0));
    let all: Vec<usize> = (0..NODES).collect();
    let mut slots = SlotTimeline::new((0..NODES).map(|n| NodeSlots::new(64, 0, score(n))));
    clock(|| {
        for run in 0..runs {
            let due = Wall(START + i64::try_from(run / JOBS).unwrap_or(0) * 1_000);
            slots.advance(due);
            if let Some((best, _)) = slots.best((), &all, |_| true) {
                black_box(slots.take_slot(best, due, Millis(500)));
            }
        }
    })
}

/// The same choice by a look at every node for each.
fn scan(runs: usize) -> Duration {
    let mut free: Vec<(i64, usize)> = (0..NODES).map(|n| (64, n)).collect();
    clock(|| {
        for _ in 0..runs {
            if let Some(best) = free.iter_mut().max_by_key(|(free, n)| (*free, std::cmp::Reverse(*n))) {
                best.0 -= 1;
                black_box(&best);
            }
        }
    })
}

fn change(revision: &mut u64, key: keys::Key, value: Value) -> Change {
    *revision += 1;
    let revision = Revision(*revision);
    Change { key, entry: Some(Entry { value, revision, born: revision, owner: None }), revision }
}

fn name(n: usize) -> JobName {
    format!("reports.each-second-{n:05}").parse().expect("a job name")
}

fn spec(n: usize) -> SpecRecord {
    let mut job = JobFile::new(name(n), "@every 1s", Work::Command(["/usr/bin/report".to_owned()].into()));
    job.placement = Placement::Dispatched;
    let since = Wall(START);
    SpecRecord::Live(Box::new(Spec::new(Job::parse(job).expect("a valid job"), 1, since)))
}

fn info() -> MemberInfo {
    let (address, home, version) = ("10.0.0.1:7700".to_owned(), String::new(), String::new());
    MemberInfo {
        address,
        home,
        slots: 64,
        tolerance: 1,
        alarm: 100,
        version,
        labels: Labels::default(),
        lacking: String::new(),
        knows: 1,
    }
}

fn settings() -> Settings {
    Settings {
        name: "n0000".parse().expect("a name"),
        predecessor: None,
        address: "10.0.0.1:7700".to_owned(),
        home: String::new(),
        version: String::new(),
        ttl: Millis::secs(1_000_000),
        tolerance: 1,
        alarm: 100,
        slots: 64,
        labels: Labels::default(),
        lacking: String::new(),
        spread: Spread::Even,
        quota: Quota::Now,
        lead_max: Millis::secs(1),
        lead_min: Millis::secs(1),
        max_clock_skew: Millis(500),
        rescan: Millis::secs(1_000_000),
        early: Millis(0),
        notice: Millis::ZERO,
        operations_max: 4_096,
        class: evenkeel_core::registry::DurabilityClass::A,
        generation: 1,
        knows: evenkeel_core::record::Layouts::OWN,
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn clock(work: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    work();
    start.elapsed()
}
