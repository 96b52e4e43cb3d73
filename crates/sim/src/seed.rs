//! One seed, from beginning to end: a world is made, faults rage, everything heals, and must come to rest.

use std::fmt;

use evenkeel_core::input::{Command, Setting};

use crate::faults::{Fault, Tally};
use crate::invariants::{Broken, Invariant, healed};
use crate::storm::Storm;
use crate::swarm::{Span, Swarm};
use crate::tamper::{Honest, Tamper};
use crate::world::{Options, World};

/// Every so many seeds each step is compared with one that decides about everything, which takes as long as all the rest.
const THOROUGH: u64 = 16;

/// What a seed came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Simulated time, in milliseconds.
    pub simulated: i64,
    /// Steps of all nodes.
    pub steps: u64,
    /// Runs that physically started.
    pub starts: u64,
    /// A number over the whole trace.
    pub hash: u64,
    /// How often each fault happened.
    pub tally: Tally,
    /// How often each invariant was put to the test.
    pub tested: std::collections::BTreeMap<Invariant, u64>,
}

/// A seed in which an invariant broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which seed.
    pub seed: u64,
    /// How long it was to be played.
    pub span: Span,
    /// What broke first.
    pub broken: Broken,
}

/// The one line that repeats it.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brief = if self.span == Span::Brief { "--brief " } else { "" };
        write!(f, "cargo xtask sim {brief}{:#x} # {}", self.seed, self.broken)
    }
}

impl std::error::Error for Failure {}

/// How a seed is run.
#[derive(Clone, Copy)]
pub struct Manner {
    /// How long.
    pub span: Span,
    /// Whether the text of the trace is kept.
    pub keeps_text: bool,
    /// The fault that is planted, if any.
    pub tamper: &'static dyn Tamper,
    /// Whether an invariant is broken on purpose.
    pub canary: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self { span: Span::default(), keeps_text: false, tamper: &Honest, canary: false }
    }
}

/// Runs one seed.
///
/// # Errors
/// An invariant broke.
pub fn run_seed(seed: u64, span: Span) -> Result<Report, Failure> {
    let world = play(seed, Manner { span, ..Manner::default() });
    judge(seed, span, &world)
}

/// What the watch of a played world says.
///
/// # Errors
/// An invariant broke.
pub fn judge(seed: u64, span: Span, world: &World) -> Result<Report, Failure> {
    if let Some(broken) = world.broken() {
        return Err(Failure { seed, span, broken: broken.clone() });
    }
    Ok(Report {
        simulated: world.now(),
        steps: world.steps(),
        starts: world.watch().starts(),
        hash: world.trace().hash(),
        tally: world.tally().clone(),
        tested: world.watch().tested(),
    })
}

/// Plays one seed to its end, or until an invariant breaks.
#[must_use]
pub fn play(seed: u64, manner: Manner) -> World {
    let swarm = Swarm::new(seed, manner.span);
    let mut world = World::new(Options {
        seed,
        keeps_text: manner.keeps_text,
        thorough: seed.is_multiple_of(THOROUGH),
        sweeps: swarm.sweeps,
        early: swarm.early,
        gathers: swarm.busy,
        tamper: manner.tamper,
        canary: manner.canary,
    });
    if swarm.versions || swarm.lapses {
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
                Setting::Beat(peers.beat),
                Setting::Strikes(peers.strikes),
                Setting::Handover(peers.handover),
            ];
            settings.into_iter().for_each(|setting| {
                world.ask(&first.name, Command::Configure(setting));
            });
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
            world.ask(&first.name, Command::Configure(Setting::Planner(peers.planner)));
        }
        world.run_for(1_000);
    }
    world.set_weather(swarm.weather.clone());
    if swarm.faults.contains(&Fault::Drift) {
        swarm.nodes.iter().for_each(|_| world.count(Fault::Drift));
    }
    let mut storm = Storm::new(seed, &swarm);
    storm.rage(&mut world, swarm.faults_last);
    if world.broken().is_none() {
        storm.end(&mut world);
        storm.heal(&mut world);
    }
    if world.broken().is_none() {
        healed::look(&mut world, &swarm);
    }
    world
}
