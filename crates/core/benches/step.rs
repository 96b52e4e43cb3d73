//! What a step costs: one touched job among a thousand to a million, a whole fire, and memory per job.
//!
//! `MIMALLOC_PURGE_DELAY=0 cargo bench -p evenkeel-core --bench step`: without the variable the bytes per job contain what
//! the listing needed, since the allocator returns memory a second late.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::time::Duration;

use evenkeel_core::effect::Effect;
use evenkeel_core::ids::{JobName, Member};
use evenkeel_core::input::{Input, LeaseEvent, RunEvent, RunOutcome};
use evenkeel_core::job::{Job, JobFile, Spec, Work};
use evenkeel_core::keys;
use evenkeel_core::labels::Labels;
use evenkeel_core::node::{Node, Quota, Settings, Spread};
use evenkeel_core::record::{Assignment, MemberInfo, SpecRecord, encode};
use evenkeel_core::registry::{Change, ChangeBatch, Entry, LeaseGrant, LeaseId, Revision, TxnOutcome, Value};
use evenkeel_core::time::{Millis, Mono, Now, Wall};
use mimalloc::MiMalloc;

/// The one that the binary has.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const START: i64 = 1_767_225_600_000; // 2026-01-01T00:00:00Z

fn main() {
    println!("{:>9}  {:>12} {:>12} {:>10} {:>9}", "jobs", "one touched", "one fire", "bytes/job", "list s");
    let mut touched = Vec::new();
    for jobs in [1_000, 10_000, 100_000, 1_000_000] {
        let before = resident();
        let (mut bench, listing) = StepBench::new(jobs);
        let bytes = resident().saturating_sub(before) / jobs;
        let news = bench.news();
        let fire = bench.fires();
        touched.push(news);
        let listed = listing.as_secs_f64();
        println!("{jobs:>9}  {:>9.2} µs {:>9.2} µs {bytes:>10} {listed:>9.2}", micros(news), micros(fire));
    }
    let ratio = micros(touched[3]) / micros(touched[0]);
    println!("a touched job among 1,000,000 costs {ratio:.2} times one among 1,000 (flat is 1)");
}

struct StepBench {
    node: Node,
    revision: u64,
    jobs: usize,
    ms: i64,
    started: u32,
}

impl StepBench {
    /// A node that holds this many jobs, one due at each second and the others at some minute of the year.
    fn new(jobs: usize) -> (Self, Duration) {
        let mut bench = Self { node: Node::new(settings()), revision: 1, jobs, ms: 0, started: 0 };
        let granted =
            LeaseGrant { lease: LeaseId(7), ttl: Millis::secs(1_000_000), clock: None, next_end: None };
        bench.step(Input::Lease(LeaseEvent::Opened { asked: Mono(0), granted }));
        let mut changes = vec![bench.change(keys::node(&me()), encode(&info()))];
        for i in 0..jobs {
            let place = Assignment { owner: Some(me()), epoch: 2, version: 1, ..Assignment::default() };
            changes.push(bench.change(keys::spec(&name(i)), encode(&spec(i, 1))));
            changes.push(bench.change(keys::assignment(&name(i)), encode(&place)));
        }
        let batch = ChangeBatch { changes, revision: Revision(1) };
        let took = clock(|| {
            bench.settle(Input::Listed(Some(batch)));
        });
        // The first look at every job, a thousand a step.
        for _ in 0..jobs.div_ceil(1_000) {
            bench.settle(Input::Tick);
        }
        (bench, took)
    }

    fn change(&self, key: keys::Key, value: Value) -> Change {
        let revision = Revision(self.revision);
        let owner = None;
        Change { key, entry: Some(Entry { value, revision, born: Revision(1), owner }), revision }
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.node.step(Now { mono: Mono(self.ms), wall: Wall(START + self.ms) }, input, &mut effects);
        effects
    }

    /// News of one job after another.
    fn news(&mut self) -> Duration {
        const STEPS: usize = 2_000;
        let inputs: Vec<Input> = (0..STEPS)
            .map(|i| {
                self.revision += 1;
                let job = 1 + i * 7_919 % (self.jobs - 1);
                let version = 2 + i as u64;
                let place =
                    Assignment { owner: Some(me()), epoch: 1 + version, version, ..Assignment::default() };
                let spec = self.change(keys::spec(&name(job)), encode(&spec(job, version)));
                let place = self.change(keys::assignment(&name(job)), encode(&place));
                Input::Changed(ChangeBatch { changes: vec![spec, place], revision: Revision(self.revision) })
            })
            .collect();
        let took = clock(|| {
            for input in inputs {
                black_box(self.step(input));
            }
        });
        took / STEPS as u32
    }

    /// Whole fires of the job that is due each second: claimed, started, ended, closed.
    fn fires(&mut self) -> Duration {
        const FIRES: u32 = 300;
        let took = clock(|| {
            for _ in 0..FIRES {
                self.ms += 1_000;
                self.settle(Input::Tick);
            }
        });
        assert!(self.started >= FIRES, "{} of {FIRES} fires", self.started);
        took / FIRES
    }

    /// Steps until nothing is left to carry out.
    fn settle(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in self.step(input) {
                inputs.extend(self.carry_out(effect));
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Commit { ticket, .. } => {
                self.revision += 1;
                Some(Input::Committed { ticket, outcome: TxnOutcome::Applied(Revision(self.revision)) })
            }
            Effect::Start(run) => {
                self.started += 1;
                Some(Input::Run {
                    id: run.id,
                    attempt: run.attempt,
                    event: RunEvent::Ended(RunOutcome::Succeeded),
                })
            }
            _ => None,
        }
    }
}

fn me() -> Member {
    "bench@7".parse().expect("a member")
}

fn name(i: usize) -> JobName {
    let mut text = String::new();
    write!(text, "reports.nightly-{i:07}").expect("a text");
    text.parse().expect("a job name")
}

fn spec(i: usize, version: u64) -> SpecRecord {
    let schedule = match i {
        0 => "@every 1s".to_owned(),
        _ => format!("{} {} {} {} *", i % 60, i / 60 % 24, 2 + i / 1_440 % 26, 2 + i % 11),
    };
    let argv = ["/usr/local/bin/report".to_owned(), format!("--customer={i}")];
    let job = JobFile::new(name(i), &schedule, Work::Command(argv.into()));
    SpecRecord::Live(Box::new(Spec::new(Job::parse(job).expect("a valid job"), version, Wall(START))))
}

fn info() -> MemberInfo {
    let text = String::new;
    MemberInfo {
        address: text(),
        home: text(),
        slots: 1_000,
        tolerance: 1,
        alarm: 100,
        version: text(),
        labels: Labels::default(),
        lacking: String::new(),
        knows: 1,
    }
}

fn settings() -> Settings {
    Settings {
        name: me().node,
        predecessor: None,
        address: String::new(),
        home: String::new(),
        version: String::new(),
        ttl: Millis::secs(1_000_000),
        tolerance: 1,
        alarm: 100,
        slots: 1_000,
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

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// This process's resident memory in bytes.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|p| p.parse::<usize>().ok()).unwrap_or(0);
    pages * 4096
}
