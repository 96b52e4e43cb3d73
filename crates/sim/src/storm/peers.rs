//! The driver of what befalls nodes among each other, and of what operators and embedders want of them.

use std::collections::BTreeMap;

use evenkeel_core::input::{Command, Setting};
use evenkeel_core::keys;
use evenkeel_core::load::{Part, Sample};
use evenkeel_core::record::{BeatRecord, PlannerKind, ServingRecord, decode};
use evenkeel_core::words::{NodeName, Operation};

use crate::faults::Fault;
use crate::random::Random;
use crate::swarm::{BEAT_MAX, Peers};
use crate::world::{Link, World};

/// The most that a clock is off, in milliseconds.
const SKEW: i64 = 90_000;

/// What will be undone.
#[derive(Clone, Debug)]
enum Undo {
    Pairs(Vec<(NodeName, NodeName)>),
    Link(NodeName),
    Resume(NodeName),
    Clock(NodeName),
}

/// What is under way.
pub(super) struct PeerStorm<'a> {
    peers: &'a Peers,
    chance: Random,
    ttl: i64,
    next: i64,
    undo: BTreeMap<(i64, u64), Undo>,
    number: u64,
    /// How busy each host is, in hundredths of a percent: its processors and its memory.
    loads: BTreeMap<NodeName, (i64, i64)>,
}

impl<'a> PeerStorm<'a> {
    pub(super) fn new(seed: u64, peers: &'a Peers, ttl: i64) -> Self {
        let (chance, undo, loads) = (Random::new(seed, "peer storm"), BTreeMap::new(), BTreeMap::new());
        Self { peers, chance, ttl, next: 1, undo, number: 0, loads }
    }

    /// When something happens next.
    pub(super) fn next(&self) -> i64 {
        self.undo.first_key_value().map_or(self.next, |((at, _), _)| self.next.min(*at))
    }

    /// Does what is next.
    pub(super) fn act(&mut self, world: &mut World) {
        while let Some(entry) = self.undo.first_entry()
            && entry.key().0 <= world.now()
        {
            let undo = entry.remove();
            undo.undo(world);
        }
        if self.next > world.now() {
            return;
        }
        self.next = world.now() + self.chance.between(1, self.peers.pace);
        self.measure(world);
        match self.chance.below(3) {
            0 => self.wish(world),
            _ => self.strike(world),
        }
    }

    /// Undoes everything.
    pub(super) fn end(&mut self, world: &mut World) {
        for undo in std::mem::take(&mut self.undo).into_values() {
            undo.undo(world);
        }
        world.mend_all();
    }

    fn some_node(&mut self, world: &World) -> Option<NodeName> {
        let names: Vec<NodeName> = world.names().filter(|n| world.is_up(n)).cloned().collect();
        self.chance.pick(&names).cloned()
    }

    /// A host is busier or idler than before, or cannot tell.
    fn measure(&mut self, world: &mut World) {
        let Some(node) = self.some_node(world) else { return };
        let (cpu, memory) = self.loads.get(&node).copied().unwrap_or((2_000, 3_000));
        let cpu = (cpu + self.chance.between(-3_000, 3_000)).clamp(0, 10_000);
        let memory = (memory + self.chance.between(-500, 500)).clamp(0, 10_000);
        self.loads.insert(node.clone(), (cpu, memory));
        let part = |of: i64| u32::try_from(of).ok().map(Part::from);
        let (blind, deaf) = (self.chance.chance(100), self.chance.chance(100));
        let sample = Sample { cpu: part(cpu).filter(|_| !blind), memory: part(memory).filter(|_| !deaf) };
        world.sample(&node, sample);
    }

    fn later(&mut self, world: &World, after: i64, undo: Undo) {
        self.number += 1;
        self.undo.insert((world.now() + after, self.number), undo);
    }

    fn strike(&mut self, world: &mut World) {
        let kinds: Vec<Fault> = self.peers.faults.iter().copied().filter(|f| *f >= Fault::PeerCut).collect();
        let Some(fault) = self.chance.pick(&kinds).copied() else { return };
        let Some(node) = self.some_node(world) else { return };
        let lasts = self.chance.between(500, 3 * self.ttl + 2_000 * i64::from(self.peers.beat.min(10)));
        let others: Vec<NodeName> = world.names().filter(|other| **other != node).cloned().collect();
        let undo = match fault {
            Fault::PeerCut => {
                let Some(other) = self.chance.pick(&others).cloned() else { return };
                let mut pairs = vec![(node.clone(), other.clone())];
                if self.chance.chance(500) {
                    pairs.push((other, node));
                }
                Undo::Pairs(pairs)
            }
            Fault::PeerAlone => Undo::Pairs(others.into_iter().map(|other| (other, node.clone())).collect()),
            Fault::OnlyPeers => {
                world.set_link(&node, Link::Down, false);
                Undo::Link(node)
            }
            Fault::LeaderPause => {
                let Some(leader) = planner(world).filter(|leader| world.is_up(leader)) else { return };
                world.pause(&leader);
                Undo::Resume(leader)
            }
            Fault::Skew => {
                let by = self.chance.between(-SKEW, SKEW);
                world.step_clock(&node, by);
                Undo::Clock(node)
            }
            _ => return,
        };
        if let Undo::Pairs(pairs) = &undo {
            pairs.iter().for_each(|(from, to)| world.cut(from, to));
        }
        let lasts =
            if fault == Fault::LeaderPause { self.chance.between(self.ttl, 3 * self.ttl) } else { lasts };
        world.count(fault);
        self.later(world, lasts, undo);
    }

    fn wish(&mut self, world: &mut World) {
        let Some(node) = self.some_node(world) else { return };
        match self.chance.below(6) {
            0..3 => {
                let operation: Operation = "report".parse().expect("a word is a name");
                let names: Vec<NodeName> = world.names().filter(|n| world.is_up(n)).cloned().collect();
                for name in names {
                    if self.chance.chance(600) {
                        world.ask(&name, Command::Beat(operation.clone()));
                    }
                }
            }
            3 | 4 => {
                let Some(other) = self.some_node(world) else { return };
                world.ask(&node, Command::Activate(other));
            }
            _ if self.peers.switches => {
                let setting = match self.chance.below(3) {
                    0 => Setting::Planner(PlannerKind::Beat),
                    1 => Setting::Planner(PlannerKind::Leader),
                    _ => Setting::Beat(u32::try_from(self.chance.between(3, BEAT_MAX)).unwrap_or(5)),
                };
                world.ask(&node, Command::Configure(setting));
            }
            _ => {}
        }
    }
}

/// Whoever serves, or plans in this beat, as the registry has it.
fn planner(world: &World) -> Option<NodeName> {
    let serving = world.entry(&keys::serving()).and_then(|value| decode::<ServingRecord>(&value));
    if let Some(leader) = serving.and_then(|record| record.leader) {
        return Some(leader.node);
    }
    let operation: Operation = evenkeel_core::standing::DISPATCH.parse().ok()?;
    let beat = world.entry(&keys::beat(&operation)).and_then(|value| decode::<BeatRecord>(&value));
    Some(beat?.holder.node)
}

impl Undo {
    fn undo(self, world: &mut World) {
        match self {
            Self::Pairs(pairs) => pairs.iter().for_each(|(from, to)| world.mend(from, to)),
            Self::Link(node) => world.mend_link(&node),
            Self::Resume(node) => world.resume(&node),
            Self::Clock(node) => world.correct_clock(&node),
        }
    }
}
