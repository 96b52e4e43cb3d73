//! The workload of a seed: its nodes, jobs and faults. Each seed leaves out some kinds of faults and some
//! kinds of actions, so that the others meet more often.

use std::collections::BTreeSet;

use evenkeel_core::calendar::Calendar;
use evenkeel_core::ids::{JobName, NodeName};
use evenkeel_core::job::{CatchUp, Delivery, JobFile, Placement, Work};
use evenkeel_core::labels::Labels;
use evenkeel_core::namespace::NamespaceSettings;
use evenkeel_core::node::{Quota, Settings, Spread};
use evenkeel_core::record::Layouts;
use evenkeel_core::registry::DurabilityClass;
use evenkeel_core::sharding_strategy::{NodeOrder, ShardingStrategy};
use evenkeel_core::time::Millis;

use crate::faults::{FaultRates, SimFault, kinds};
use crate::random::SimRandom;
use crate::world::clock::SimClock;

kinds! {
    /// The actions of operators.
    OperatorAction:
    /// Declare a job again, changed or not.
    Apply = "apply",
    /// Pause a job, resume it later.
    Pause = "pause",
    /// Disable a job, enable it later.
    Disable = "disable",
    /// Delete a job, create it again later.
    Delete = "delete",
    /// Run a job now, often twice under one id.
    RunNow = "run now",
    /// Request claims.
    Claim = "claim",
    /// Drain a node, undrain it later.
    Drain = "drain",
    /// End a run.
    Kill = "kill",
    /// Take a lock, give it back later.
    Lock = "lock",
    /// Let a node hand over and end, start it again later.
    Leave = "leave",
    /// Change the number of shards of a sharded job.
    Rescale = "rescale",
    /// Pause or disable a node for a sharded job, and undo that later.
    Switch = "switch",
    /// Shut the present members down for a sharded job, often for as long as they live.
    Shutdown = "shutdown",
    /// Switch shards off, and on later.
    Shards = "shards",
    /// Run one node's shards of a sharded job now, often twice under one id.
    RunOn = "run on",
}

/// The duration of a world. Its first minute is the same either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SimDuration {
    /// About a minute of faults: enough for most faults, and for planted ones.
    #[default]
    Brief,
    /// At least ten minutes, with faults until there is just enough time left to heal: long enough for what needs many
    /// incarnations, beats and declarations to occur.
    Long,
}

/// The workload of a seed, before the world starts.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The nodes and their hosts' clocks.
    pub nodes: Vec<(Settings, SimClock)>,
    /// The jobs declared at the beginning.
    pub jobs: Vec<JobFile>,
    /// The calendars declared before them, which operators change.
    pub calendars: Vec<Calendar>,
    /// The namespaces declared before both.
    pub namespaces: Vec<NamespaceSettings>,
    /// The jobs that operators do not change.
    pub calm_jobs: BTreeSet<JobName>,
    /// The kinds of fault that happen.
    pub faults: BTreeSet<SimFault>,
    /// The kinds of operator actions that occur.
    pub actions: BTreeSet<OperatorAction>,
    /// The rates of faults of messages during the faults.
    pub weather: FaultRates,
    /// The duration of the faults, in milliseconds.
    pub faults_last: i64,
    /// The maximum time until everything is at rest afterwards, in milliseconds.
    pub healing_lasts: i64,
    /// The maximum time between two faults or actions, in milliseconds.
    pub pace: i64,
    /// Whether the registry ends leases by itself.
    pub sweeps: bool,
    /// How much before its term the registry ends a lease, in milliseconds.
    pub early: i64,
    /// Whether nodes have slots for everything.
    pub roomy: bool,
    /// The workload between nodes; `None` if no job is dispatched.
    pub peers: Option<PeerWorkload>,
    /// Whether jobs have node selectors.
    pub labelled: bool,
    /// Whether there are broadcast jobs.
    pub broadcast: bool,
    /// Whether nodes are upgraded.
    pub upgrades: bool,
    /// Whether nodes have two versions, and change between them.
    pub versions: bool,
    /// Whether the registry is rewound.
    pub rewinds: bool,
    /// Whether nodes are so busy that they handle inputs that come together in one step.
    pub busy: bool,
    /// Whether guards fail or are slow after the death of their nodes' processes.
    pub faulty_guards: bool,
}

mod after_completion;
mod broadcast;
mod calendars;
mod labels;
mod namespaces;
mod overlap;
mod peers;
mod pools;
mod retries;
mod rewinds;
mod versions;

pub(crate) use broadcast::allows_both;
pub(crate) use calendars::calendar;
pub(crate) use labels::named_nodes;
pub(crate) use peers::BEAT_MAX;
pub use peers::PeerWorkload;
pub(crate) use versions::{NEW, OLD};

const LEAD_MAX: Millis = Millis(1_000);
const LEAD_MIN: Millis = Millis(50);
/// The duration of the longest runs, in leases.
pub(crate) const LONG_RUN: i64 = 3;
/// The longest spread of caught-up fires, in seconds.
const SPREAD_MAX: i64 = 4;
/// The longest misfire grace that jobs declare, in seconds.
const GRACE_MAX: i64 = 12;
/// The minimum duration of a long world, and how much longer some are, in milliseconds.
const LONG: (i64, i64) = (600_000, 20_000);
/// The time until no effect of the faults on processes is left, in leases.
pub(crate) const CALMING: i64 = 4;
/// The maximum number of shards of a job.
pub(crate) const SHARDS: i64 = 12;
/// The longest reshard timeout of jobs, in seconds.
pub(crate) const RESHARD_TIMEOUT: i64 = 4;

impl Workload {
    /// The workload of this seed.
    #[must_use]
    pub fn new(seed: u64, span: SimDuration) -> Self {
        let random = &mut SimRandom::new(seed, "options");
        let ttl = *random.pick(&[2_000, 3_000, 4_000]).unwrap_or(&3_000);
        let rescan = random.between(5_000, 10_000);
        let early = if random.chance(250) { ttl / 12 } else { 0 };
        let roomy = random.chance(800);
        let faults = subset(&SimFault::of_hosts(), random);
        let nodes = nodes(random, ttl, rescan, early, roomy, faults.contains(&SimFault::Drift));
        let jobs = jobs(random, ttl);
        let calm_jobs = jobs.iter().map(|j| j.name.name().clone()).filter(|_| random.chance(500)).collect();
        let mut workload = Self {
            nodes,
            calm_jobs,
            actions: subset(OperatorAction::ALL, random),
            weather: fault_rates(random, &faults),
            faults,
            faults_last: random.between(50_000, 80_000),
            healing_lasts: 6 * ttl
                + rescan
                + 2 * (LONG_RUN * ttl * 5 / 4)
                + (GRACE_MAX + RESHARD_TIMEOUT + 12) * 1000,
            pace: random.between(1_000, 8_000),
            sweeps: random.chance(500),
            early,
            roomy,
            jobs,
            calendars: Vec::new(),
            namespaces: Vec::new(),
            peers: None,
            labelled: false,
            broadcast: false,
            upgrades: seed % 4 == 1,
            versions: false,
            rewinds: false,
            busy: SimRandom::new(seed, "busy nodes").chance(500),
            faulty_guards: SimRandom::new(seed, "faulty guards").chance(500),
        };
        workload.add_peers(seed, ttl);
        workload.add_calendars(seed);
        workload.add_retries(seed);
        workload.add_overlap(seed, ttl);
        workload.add_after(seed);
        workload.add_labels(seed);
        workload.add_broadcast(seed);
        workload.add_pools(seed);
        workload.add_namespaces(seed);
        workload.add_limits(seed);
        workload.add_versions(seed);
        workload.add_rewinds(seed);
        if span == SimDuration::Long {
            let lasts = LONG.0 + SimRandom::new(seed, "length").between(0, LONG.1);
            workload.faults_last = lasts - CALMING * ttl - workload.healing_lasts;
        }
        workload
    }

    /// Sometimes limits the operations of a transaction: hardly more than a reshard among all nodes needs.
    fn add_limits(&mut self, seed: u64) {
        let most = (7 + 2 * self.nodes.len()).max(FEW_OPERATIONS);
        for (settings, _) in self.nodes.iter_mut().filter(|_| seed % 4 == 3) {
            settings.operations_max = most;
        }
    }

    /// The number of nodes that may be missing without a job losing its owner.
    #[must_use]
    pub fn tolerance(&self) -> usize {
        self.nodes.first().map_or(1, |(s, _)| s.tolerance as usize)
    }
}

/// The lowest limit of operations in one transaction.
const FEW_OPERATIONS: usize = 10;

/// Each element with a chance of a half, or none at all for a few seeds.
fn subset<T: Copy + Ord>(all: &[T], random: &mut SimRandom) -> BTreeSet<T> {
    let rate = *random.pick(&[0, 300, 500, 500, 800]).unwrap_or(&500);
    all.iter().copied().filter(|_| random.chance(rate)).collect()
}

fn name(kind: &str, n: usize) -> String {
    format!("{kind}{n}")
}

fn nodes(
    random: &mut SimRandom,
    ttl: i64,
    rescan: i64,
    early: i64,
    roomy: bool,
    drifts: bool,
) -> Vec<(Settings, SimClock)> {
    let count = *random.pick(&[1, 2, 2, 3, 3, 3, 4, 5, 7]).unwrap_or(&3);
    let tolerance = u32::try_from(random.between(1, 3)).unwrap_or(1);
    let alarm = u32::try_from(random.between(1, 8)).unwrap_or(4);
    let spread = if random.chance(500) { Spread::Even } else { Spread::FirstCome };
    let slots = if roomy { 100 } else { u32::try_from(random.between(1, 4)).unwrap_or(2) };
    let mut made = Vec::new();
    for n in 0..count {
        let mut clock = SimClock::new(-random.between(0, 100_000_000));
        if drifts {
            clock.drift(random.between(-4_000, 4_000));
        }
        let name: NodeName = name("n", n).parse().expect("a letter and a digit are a name");
        let settings = Settings {
            name,
            predecessor: None,
            address: String::new(),
            home: String::new(),
            version: String::new(),
            ttl: Millis(ttl),
            tolerance,
            alarm,
            slots,
            labels: Labels::default(),
            lacking: String::new(),
            spread,
            quota: Quota::Now,
            lead_max: LEAD_MAX,
            lead_min: LEAD_MIN,
            max_clock_skew: Millis(500),
            rescan: Millis(rescan),
            early: Millis(early),
            notice: Millis::ZERO,
            operations_max: 4_096,
            class: DurabilityClass::A,
            generation: 1,
            knows: Layouts::OWN,
        };
        made.push((settings, clock));
    }
    made
}

fn jobs(random: &mut SimRandom, ttl: i64) -> Vec<JobFile> {
    let count = usize::try_from(random.between(2, 20)).unwrap_or(8);
    let first = random.below(8);
    let last = first + random.below(4);
    let sharded = (first..=last).map(|n| name("s", n % 8));
    (0..count)
        .map(|n| name("j", n))
        .chain(sharded)
        .map(|name| job(&name.parse().expect("a letter and a number are a name"), ttl, random))
        .collect()
}

/// Whether a job is sharded: its name says so.
fn is_sharded(name: &JobName) -> bool {
    name.as_str().starts_with('s')
}

/// Whether a job is dispatched: its name says so.
fn is_dispatched(name: &JobName) -> bool {
    name.as_str().starts_with('d')
}

/// A job as operators declare it.
pub(crate) fn job(name: &JobName, ttl: i64, random: &mut SimRandom) -> JobFile {
    let schedules = [
        "@every 1s",
        "@every 2s",
        "@every 3s",
        "@every 5s",
        "@every 10s",
        "*/4 * * * * *",
        "7/15 * * * * ?",
        "",
    ];
    let schedule = random.pick(&schedules).copied().unwrap_or_default();
    let takes = match random.below(10) {
        0 => random.between(2 * ttl, LONG_RUN * ttl),
        1..3 => random.between(500, 2_000),
        _ => random.between(1, 200),
    };
    let mut job =
        JobFile::new(name.clone(), schedule, Work::Command(vec!["run".to_owned(), takes.to_string()]));
    // The name decides: the delivery guarantee never changes in a job's life, so that the checker can test every run.
    let last = name.as_str().bytes().last().unwrap_or(0);
    job.delivery = if last.is_multiple_of(2) { Delivery::AtMostOnce } else { Delivery::AtLeastOnce };
    job.catch_up = *random
        .pick(&[CatchUp::Latest, CatchUp::Latest, CatchUp::Skip, CatchUp::All(3)])
        .unwrap_or(&CatchUp::Latest);
    job.misfire_grace = u64::try_from(random.between(2, GRACE_MAX)).ok();
    if job.catch_up != CatchUp::Skip && random.chance(300) {
        job.catch_up_window = format!("{}s", random.between(2, 3 * GRACE_MAX));
        job.catch_up_spread = format!("{}s", random.between(2, SPREAD_MAX));
    }
    job.timeout = random.chance(200).then_some(2);
    if is_sharded(name) {
        shard(&mut job, last, random);
    } else if is_dispatched(name) {
        job.placement = Placement::Dispatched;
    }
    job
}

/// Makes a job a sharded one.
fn shard(job: &mut JobFile, last: u8, random: &mut SimRandom) {
    job.placement = Placement::Sharded;
    job.shards = u32::try_from(random.between(1, SHARDS)).unwrap_or(1);
    job.strategy = *random
        .pick(&[ShardingStrategy::Average, ShardingStrategy::OddEven, ShardingStrategy::Rotate])
        .unwrap_or(&ShardingStrategy::Average);
    job.order = if random.chance(500) { NodeOrder::Ascending } else { NodeOrder::Descending };
    job.sticky_shards = random.chance(100);
    // Like the delivery guarantee, whether runs are monitored never changes in a job's life.
    job.monitor_execution = last % 8 != 4;
    job.reshard_timeout = u64::try_from(random.between(1, RESHARD_TIMEOUT)).unwrap_or(1);
}

fn fault_rates(random: &mut SimRandom, faults: &BTreeSet<SimFault>) -> FaultRates {
    let delay = random.between(1, 40);
    let often = [
        (SimFault::RequestLost, 60),
        (SimFault::ReplyLost, 60),
        (SimFault::Slow, 40),
        (SimFault::NewsLost, 150),
        (SimFault::NewsDoubled, 100),
        (SimFault::NewsLate, 100),
        (SimFault::NewsOvertaken, 100),
        (SimFault::FeedEnds, 50),
        (SimFault::StartLate, 50),
        (SimFault::StartFails, 30),
    ];
    let mut weather = FaultRates::calm(delay);
    for (fault, most) in often {
        let rate = u32::try_from(random.between(5, most)).unwrap_or(5);
        if faults.contains(&fault) {
            weather = weather.with(fault, rate);
        }
    }
    weather
}
