//! One seed, from beginning to end: a world is made, faults occur, everything heals, and must come to rest.

use std::fmt;

use evenkeel_core::input::{ClusterSetting, Command};

use crate::fault_driver::FaultDriver;
use crate::faults::{FaultCounts, SimFault};
use crate::invariants::{Invariant, InvariantViolation, quiet_cluster};
use crate::mutation::{Mutation, NoMutation};
use crate::workload::{SimDuration, Workload};
use crate::world::{SimWorld, WorldOptions};

/// In one of this many seeds each step is compared with a decision about everything, which doubles the time.
const THOROUGH: u64 = 16;

/// The result of a seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedReport {
    /// Simulated time, in milliseconds.
    pub simulated: i64,
    /// Steps of all nodes.
    pub steps: u64,
    /// Runs that physically started.
    pub starts: u64,
    /// The hash of the whole trace.
    pub hash: u64,
    /// The number of occurrences of each fault.
    pub tally: FaultCounts,
    /// How often each invariant was tested.
    pub tested: std::collections::BTreeMap<Invariant, u64>,
}

/// A seed in which an invariant was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedFailure {
    /// The seed.
    pub seed: u64,
    /// The duration of the world.
    pub span: SimDuration,
    /// The first violation.
    pub broken: InvariantViolation,
}

/// The one line that repeats it.
impl fmt::Display for SeedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brief = if self.span == SimDuration::Brief { "--brief " } else { "" };
        write!(f, "cargo xtask sim {brief}{:#x} # {}", self.seed, self.broken)
    }
}

impl std::error::Error for SeedFailure {}

/// The options of a seed.
#[derive(Clone, Copy)]
pub struct SeedOptions {
    /// The duration of the world.
    pub span: SimDuration,
    /// Whether the text of the trace is kept.
    pub keeps_text: bool,
    /// The fault that is planted, if any.
    pub mutation: &'static dyn Mutation,
    /// Whether an invariant is violated on purpose.
    pub sentinel: bool,
}

impl Default for SeedOptions {
    fn default() -> Self {
        Self { span: SimDuration::default(), keeps_text: false, mutation: &NoMutation, sentinel: false }
    }
}

/// Runs one seed.
///
/// # Errors
/// An invariant was violated.
pub fn run_seed(seed: u64, span: SimDuration) -> Result<SeedReport, SeedFailure> {
    let world = play(seed, SeedOptions { span, ..SeedOptions::default() });
    judge(seed, span, &world)
}

/// The checker's result for a played world.
///
/// # Errors
/// An invariant was violated.
pub fn judge(seed: u64, span: SimDuration, world: &SimWorld) -> Result<SeedReport, SeedFailure> {
    if let Some(broken) = world.broken() {
        return Err(SeedFailure { seed, span, broken: broken.clone() });
    }
    Ok(SeedReport {
        simulated: world.now(),
        steps: world.steps(),
        starts: world.checker().starts(),
        hash: world.trace().hash(),
        tally: world.tally().clone(),
        tested: world.checker().tested(),
    })
}

/// Plays one seed to its end, or until an invariant is violated.
#[must_use]
pub fn play(seed: u64, manner: SeedOptions) -> SimWorld {
    let swarm = Workload::new(seed, manner.span);
    let mut world = SimWorld::new(WorldOptions {
        seed,
        keeps_text: manner.keeps_text,
        thorough: seed.is_multiple_of(THOROUGH),
        sweeps: swarm.sweeps,
        early: swarm.early,
        gathers: swarm.busy,
        mutation: manner.mutation,
        sentinel: manner.sentinel,
    });
    if swarm.versions || swarm.rewinds {
        world.found();
    }
    for (settings, clock) in &swarm.nodes {
        world.add(settings.clone(), *clock);
    }
    // All is quiet at first, so that there is something to disturb.
    if let Some((first, _)) = swarm.nodes.first() {
        world.run_for(200);
        if let Some(peers) = &swarm.peers {
            let settings = [
                ClusterSetting::Beat(peers.beat),
                ClusterSetting::Strikes(peers.strikes),
                ClusterSetting::Handover(peers.handover),
            ];
            settings.into_iter().for_each(|setting| {
                world.ask(&first.name, Command::Configure(setting));
            });
        }
        for namespace in &swarm.namespaces {
            world.ask(&first.name, Command::Namespace(Box::new(namespace.clone())));
        }
        if !swarm.namespaces.is_empty() {
            world.run_for(1_000);
        }
        for calendar in &swarm.calendars {
            world.ask(&first.name, Command::Calendar(Box::new(calendar.clone())));
        }
        if !swarm.calendars.is_empty() {
            world.run_for(1_000);
        }
        world.ask(&first.name, Command::Apply(swarm.jobs.clone()));
        if let Some(peers) = &swarm.peers {
            world.run_for(1_000);
            world.ask(&first.name, Command::Configure(ClusterSetting::Planner(peers.planner)));
        }
        world.run_for(1_000);
    }
    world.set_fault_rates(swarm.weather.clone());
    world.set_faulty_guards(swarm.faulty_guards);
    if swarm.faults.contains(&SimFault::Drift) {
        swarm.nodes.iter().for_each(|_| world.count(SimFault::Drift));
    }
    let mut storm = FaultDriver::new(seed, &swarm);
    storm.inject_until(&mut world, swarm.faults_last);
    if world.broken().is_none() {
        storm.end(&mut world);
        storm.heal(&mut world);
    }
    if world.broken().is_none() {
        quiet_cluster::check_quiet_cluster(&mut world, &swarm);
    }
    world
}
