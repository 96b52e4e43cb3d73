//! Injects faults between nodes, and issues commands of operators and embedders about them.

use std::collections::BTreeMap;

use evenkeel_core::ids::{NodeName, Operation};
use evenkeel_core::input::{ClusterSetting, Command};
use evenkeel_core::keys;
use evenkeel_core::load::{HostLoad, Utilization};
use evenkeel_core::record::{BeatRecord, PlannerKind, ServingRecord, decode};

use crate::faults::SimFault;
use crate::random::SimRandom;
use crate::workload::{BEAT_MAX, PeerWorkload};
use crate::world::{RegistryLink, SimWorld};

/// The maximum skew of a clock, in milliseconds.
const SKEW: i64 = 90_000;

/// A pending recovery of a fault between nodes.
#[derive(Clone, Debug)]
enum PeerFaultRecovery {
    Pairs(Vec<(NodeName, NodeName)>),
    Link(NodeName),
    Resume(NodeName),
    Clock(NodeName),
}

/// The faults in progress.
pub(super) struct PeerFaultDriver<'a> {
    peers: &'a PeerWorkload,
    chance: SimRandom,
    ttl: i64,
    next: i64,
    undo: BTreeMap<(i64, u64), PeerFaultRecovery>,
    number: u64,
    /// The load of each host, in hundredths of a percent: its processors and its memory.
    loads: BTreeMap<NodeName, (i64, i64)>,
}

impl<'a> PeerFaultDriver<'a> {
    pub(super) fn new(seed: u64, peers: &'a PeerWorkload, ttl: i64) -> Self {
        let (chance, undo, loads) = (SimRandom::new(seed, "peer storm"), BTreeMap::new(), BTreeMap::new());
        Self { peers, chance, ttl, next: 1, undo, number: 0, loads }
    }

    /// The time of the next fault or recovery.
    pub(super) fn next(&self) -> i64 {
        self.undo.first_key_value().map_or(self.next, |((at, _), _)| self.next.min(*at))
    }

    /// Injects or undoes what is due.
    pub(super) fn inject_due(&mut self, world: &mut SimWorld) {
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
            0 => self.issue_command(world),
            _ => self.inject_fault(world),
        }
    }

    /// Undoes everything.
    pub(super) fn end(&mut self, world: &mut SimWorld) {
        for undo in std::mem::take(&mut self.undo).into_values() {
            undo.undo(world);
        }
        world.mend_all();
    }

    fn some_node(&mut self, world: &SimWorld) -> Option<NodeName> {
        let names: Vec<NodeName> = world.names().filter(|n| world.is_up(n)).cloned().collect();
        self.chance.pick(&names).cloned()
    }

    /// Changes the load of a host, or makes it unknown.
    fn measure(&mut self, world: &mut SimWorld) {
        let Some(node) = self.some_node(world) else { return };
        let (cpu, memory) = self.loads.get(&node).copied().unwrap_or((2_000, 3_000));
        let cpu = (cpu + self.chance.between(-3_000, 3_000)).clamp(0, 10_000);
        let memory = (memory + self.chance.between(-500, 500)).clamp(0, 10_000);
        self.loads.insert(node.clone(), (cpu, memory));
        let part = |of: i64| u32::try_from(of).ok().map(Utilization::from);
        let (blind, deaf) = (self.chance.chance(100), self.chance.chance(100));
        let sample = HostLoad { cpu: part(cpu).filter(|_| !blind), memory: part(memory).filter(|_| !deaf) };
        world.sample(&node, sample);
    }

    fn later(&mut self, world: &SimWorld, after: i64, undo: PeerFaultRecovery) {
        self.number += 1;
        self.undo.insert((world.now() + after, self.number), undo);
    }

    fn inject_fault(&mut self, world: &mut SimWorld) {
        let kinds: Vec<SimFault> =
            self.peers.faults.iter().copied().filter(|f| *f >= SimFault::PeerCut).collect();
        let Some(fault) = self.chance.pick(&kinds).copied() else { return };
        let Some(node) = self.some_node(world) else { return };
        let lasts = self.chance.between(500, 3 * self.ttl + 2_000 * i64::from(self.peers.beat.min(10)));
        let others: Vec<NodeName> = world.names().filter(|other| **other != node).cloned().collect();
        let undo = match fault {
            SimFault::PeerCut => {
                let Some(other) = self.chance.pick(&others).cloned() else { return };
                let mut pairs = vec![(node.clone(), other.clone())];
                if self.chance.chance(500) {
                    pairs.push((other, node));
                }
                PeerFaultRecovery::Pairs(pairs)
            }
            SimFault::PeerAlone => {
                PeerFaultRecovery::Pairs(others.into_iter().map(|other| (other, node.clone())).collect())
            }
            SimFault::OnlyPeers => {
                world.set_link(&node, RegistryLink::Down, false);
                PeerFaultRecovery::Link(node)
            }
            SimFault::LeaderPause => {
                let Some(leader) = planner(world).filter(|leader| world.is_up(leader)) else { return };
                world.pause(&leader);
                PeerFaultRecovery::Resume(leader)
            }
            SimFault::Skew => {
                let by = self.chance.between(-SKEW, SKEW);
                world.step_clock(&node, by);
                PeerFaultRecovery::Clock(node)
            }
            _ => return,
        };
        if let PeerFaultRecovery::Pairs(pairs) = &undo {
            pairs.iter().for_each(|(from, to)| world.cut(from, to));
        }
        let lasts =
            if fault == SimFault::LeaderPause { self.chance.between(self.ttl, 3 * self.ttl) } else { lasts };
        world.count(fault);
        self.later(world, lasts, undo);
    }

    fn issue_command(&mut self, world: &mut SimWorld) {
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
                    0 => ClusterSetting::Planner(PlannerKind::Beat),
                    1 => ClusterSetting::Planner(PlannerKind::Leader),
                    _ => ClusterSetting::Beat(u32::try_from(self.chance.between(3, BEAT_MAX)).unwrap_or(5)),
                };
                world.ask(&node, Command::Configure(setting));
            }
            _ => {}
        }
    }
}

/// The serving leader, or the planner of this beat, as the registry has it.
fn planner(world: &SimWorld) -> Option<NodeName> {
    let serving = world.entry(&keys::serving()).and_then(|value| decode::<ServingRecord>(&value));
    if let Some(leader) = serving.and_then(|record| record.leader) {
        return Some(leader.node);
    }
    let operation: Operation = evenkeel_core::view::DISPATCH.parse().ok()?;
    let beat = world.entry(&keys::beat(&operation)).and_then(|value| decode::<BeatRecord>(&value));
    Some(beat?.holder.node)
}

impl PeerFaultRecovery {
    fn undo(self, world: &mut SimWorld) {
        match self {
            Self::Pairs(pairs) => pairs.iter().for_each(|(from, to)| world.mend(from, to)),
            Self::Link(node) => world.mend_link(&node),
            Self::Resume(node) => world.resume(&node),
            Self::Clock(node) => world.correct_clock(&node),
        }
    }
}
