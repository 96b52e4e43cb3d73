//! Drives the first phase of a seed: injects faults of hosts and links and issues operator commands, each undone later.

use std::collections::BTreeMap;

use evenkeel_core::ids::{JobName, LockName, NodeName, RequestId};
use evenkeel_core::input::{Command, NodeSwitch, RunOptions};
use evenkeel_core::job::{JobFile, Placement};
use evenkeel_core::local::Given;
use evenkeel_core::shards::ShardSet;

use crate::faults::SimFault;
use crate::random::SimRandom;
use crate::workload::{CALMING, OperatorAction, SHARDS, Workload, allows_both};
use crate::world::{RegistryLink, RegistrySnapshot, SimWorld};

mod edits;
mod peers;
mod rewinds;
mod versions;
mod waiting;

use peers::PeerFaultDriver;

/// How often a node at rest is checked for an upgrade before it goes on without one.
const TRIES: u32 = 8;

/// A pending recovery of a fault or command.
#[derive(Clone, Debug)]
enum FaultRecovery {
    Start(NodeName),
    Resume(NodeName),
    /// The guard kills the process that hangs.
    EndHung(NodeName),
    Link(NodeName, bool),
    Links(bool),
    Clock(NodeName),
    Able(NodeName),
    History,
    Ask(Command),
    AskOf(NodeName, Command),
    /// The node rests: it is upgraded as soon as possible, or goes on after this many tries.
    Upgrade(NodeName, u32),
    /// The node notices that the registry was rewound.
    Notice(NodeName),
}

/// The faults and commands in progress.
pub(crate) struct FaultDriver<'a> {
    workload: &'a Workload,
    chance: SimRandom,
    work: SimRandom,
    dates: SimRandom,
    /// The random choice of nodes that jobs select.
    node_choices: SimRandom,
    /// The random choice of nodes to upgrade.
    upgrades: SimRandom,
    /// The random choice of nodes that get another version.
    versions: SimRandom,
    /// The random times of registry rewinds.
    rewinds: SimRandom,
    /// A snapshot of the registry to which it may be rewound.
    past: Option<RegistrySnapshot>,
    ttl: i64,
    undo: BTreeMap<(i64, u64), FaultRecovery>,
    number: u64,
    jobs: BTreeMap<JobName, JobFile>,
    peers: Option<PeerFaultDriver<'a>>,
}

impl<'a> FaultDriver<'a> {
    pub(crate) fn new(seed: u64, swarm: &'a Workload) -> Self {
        let ttl = swarm.nodes.first().map_or(3_000, |(s, _)| s.ttl.0);
        Self {
            workload: swarm,
            chance: SimRandom::new(seed, "faults"),
            work: SimRandom::new(seed, "workload"),
            dates: SimRandom::new(seed, "calendars"),
            node_choices: SimRandom::new(seed, "labels"),
            upgrades: SimRandom::new(seed, "upgrades"),
            versions: SimRandom::new(seed, "versions"),
            rewinds: SimRandom::new(seed, "lapses"),
            past: None,
            ttl,
            undo: BTreeMap::new(),
            number: 0,
            jobs: swarm.jobs.iter().map(|j| (j.name.name().clone(), j.clone())).collect(),
            peers: swarm.peers.as_ref().map(|peers| PeerFaultDriver::new(seed, peers, ttl)),
        }
    }

    /// Injects faults and issues commands until then.
    pub(crate) fn inject_until(&mut self, world: &mut SimWorld, until: i64) {
        while world.now() < until && world.broken().is_none() {
            let next = world.now() + self.chance.between(1, self.workload.pace);
            self.recover_until(world, next.min(until));
            self.edit(world);
            self.upgrade(world);
            self.change_version(world);
            self.maybe_rewind(world);
            if self.chance.chance(500) {
                self.inject_fault(world);
            } else {
                self.issue_command(world);
            }
        }
    }

    /// Lets time pass, and undoes faults and commands that are over.
    fn recover_until(&mut self, world: &mut SimWorld, until: i64) {
        loop {
            let own = self.undo.first_key_value().map(|((at, _), _)| *at);
            let peers = self.peers.as_ref().map(PeerFaultDriver::next);
            let Some(at) = own.into_iter().chain(peers).min().filter(|at| *at <= until) else { break };
            world.run_until(at);
            if world.broken().is_some() {
                return;
            }
            match self.undo.first_entry().filter(|entry| entry.key().0 <= at) {
                Some(entry) => {
                    let undo = entry.remove();
                    self.undo(world, undo);
                }
                None => self.peers.iter_mut().for_each(|peers| peers.inject_due(world)),
            }
        }
        world.run_until(until);
    }

    /// Undoes everything at once: the healing begins. Drained nodes stay drained as long as the others suffice.
    pub(crate) fn end(&mut self, world: &mut SimWorld) {
        let names: Vec<NodeName> = world.names().cloned().collect();
        let asks = std::mem::take(&mut self.undo).into_values();
        for undo in asks.filter(|u| {
            matches!(
                u,
                FaultRecovery::Ask(
                    Command::Enable(_) | Command::Resume(_) | Command::Unlock(_) | Command::Switch(..)
                ) | FaultRecovery::AskOf(..)
            )
        }) {
            self.undo(world, undo);
        }
        self.peers.iter_mut().for_each(|peers| peers.end(world));
        world.set_history_away(false);
        world.set_fault_rates(crate::faults::FaultRates::calm(4));
        world.set_faulty_guards(false);
        for name in &names {
            self.notice(world, name);
            world.correct_clock(name);
            world.mend_link(name);
            world.set_able(name, true);
            world.resume(name);
            world.rest(name, false);
        }
        self.settle_versions(world);
        // The runs of a killed process are ended before it may start again.
        self.run_for(world, CALMING * self.ttl);
        let drained: Vec<NodeName> = names.iter().filter(|n| world.is_drained(n)).cloned().collect();
        let spare = names.len().saturating_sub(1).min(self.workload.tolerance());
        for node in drained.into_iter().skip(spare) {
            if let Some(first) = names.first() {
                world.ask(first, Command::Undrain(node));
            }
        }
    }

    /// Lets time pass without faults, so that everything comes to rest.
    pub(crate) fn heal(&self, world: &mut SimWorld) {
        self.run_for(world, self.workload.healing_lasts / 2);
        self.finalize(world);
        self.run_for(world, self.workload.healing_lasts - self.workload.healing_lasts / 2);
    }

    /// Lets time pass; nodes that left, or were killed, are started again.
    fn run_for(&self, world: &mut SimWorld, ms: i64) {
        let until = world.now() + ms;
        while world.now() < until && world.broken().is_none() {
            world.run_for(500);
            let names: Vec<NodeName> = world.names().cloned().collect();
            for name in names.iter() {
                if !world.is_ending(name) {
                    world.start(name);
                }
            }
        }
    }

    fn later(&mut self, world: &SimWorld, after: i64, undo: FaultRecovery) {
        self.number += 1;
        self.undo.insert((world.now() + after, self.number), undo);
    }

    fn some_node(&mut self, world: &SimWorld) -> Option<NodeName> {
        let names: Vec<NodeName> = world.names().filter(|n| world.is_up(n)).cloned().collect();
        self.chance.pick(&names).cloned()
    }

    /// Injects a fault of a host or a link.
    fn inject_fault(&mut self, world: &mut SimWorld) {
        let kinds: Vec<SimFault> = self
            .workload
            .faults
            .iter()
            .copied()
            .filter(|f| (SimFault::HistoryAway..=SimFault::Unable).contains(f))
            .collect();
        let Some(fault) = self.chance.pick(&kinds).copied() else { return };
        let Some(node) = self.some_node(world) else { return };
        let lasts = self.chance.between(50, 3 * self.ttl);
        let breaks = self.chance.chance(500);
        let undo = match fault {
            SimFault::HistoryAway => {
                world.set_history_away(true);
                FaultRecovery::History
            }
            SimFault::Cut | SimFault::HalfCut => {
                world.set_link(
                    &node,
                    if fault == SimFault::Cut { RegistryLink::Down } else { RegistryLink::Half },
                    breaks,
                );
                FaultRecovery::Link(node, breaks)
            }
            SimFault::RegistryAway => {
                let names: Vec<NodeName> = world.names().cloned().collect();
                names.iter().for_each(|name| world.set_link(name, RegistryLink::Down, breaks));
                FaultRecovery::Links(breaks)
            }
            SimFault::Crash => {
                world.crash(&node);
                FaultRecovery::Start(node)
            }
            SimFault::Reboot => {
                world.reboot(&node);
                FaultRecovery::Start(node)
            }
            SimFault::Pause => {
                world.pause(&node);
                FaultRecovery::Resume(node)
            }
            SimFault::Hang => {
                world.pause(&node);
                FaultRecovery::EndHung(node)
            }
            SimFault::ClockForward | SimFault::ClockBack => {
                let by = self.chance.between(100, 20_000);
                world.step_clock(&node, if fault == SimFault::ClockForward { by } else { -by });
                FaultRecovery::Clock(node)
            }
            SimFault::Unable => {
                world.set_able(&node, false);
                FaultRecovery::Able(node)
            }
            _ => return,
        };
        world.count(fault);
        self.later(world, lasts, undo);
    }

    fn undo(&mut self, world: &mut SimWorld, undo: FaultRecovery) {
        match undo {
            // A data folder is locked until the last run of the previous process has ended.
            FaultRecovery::Start(node) if world.is_ending(&node) => {
                self.later(world, 100, FaultRecovery::Start(node))
            }
            FaultRecovery::Start(node) => world.start(&node),
            FaultRecovery::Resume(node) => world.resume(&node),
            FaultRecovery::EndHung(node) => {
                // Another fault may have ended it meanwhile.
                if world.is_paused(&node) {
                    world.crash(&node);
                }
                self.undo(world, FaultRecovery::Start(node));
            }
            FaultRecovery::Link(node, breaks) => world.set_link(&node, RegistryLink::Up, breaks),
            FaultRecovery::Links(breaks) => {
                let names: Vec<NodeName> = world.names().cloned().collect();
                names.iter().for_each(|name| world.set_link(name, RegistryLink::Up, breaks));
            }
            FaultRecovery::Clock(node) => world.correct_clock(&node),
            FaultRecovery::Able(node) => world.set_able(&node, true),
            FaultRecovery::History => world.set_history_away(false),
            FaultRecovery::AskOf(node, command) => {
                world.ask(&node, command);
            }
            FaultRecovery::Upgrade(node, tries) => self.try_upgrade(world, node, tries),
            FaultRecovery::Notice(node) => self.notice(world, &node),
            FaultRecovery::Ask(command) => {
                if let Some(node) = self.some_node(world) {
                    world.ask(&node, command);
                }
            }
        }
    }

    /// Issues a random operator command.
    fn issue_command(&mut self, world: &mut SimWorld) {
        let kinds: Vec<OperatorAction> = self.workload.actions.iter().copied().collect();
        let Some(item) = self.work.pick(&kinds).copied() else { return };
        let jobs: Vec<JobName> =
            self.jobs.keys().filter(|j| !self.workload.calm_jobs.contains(*j)).cloned().collect();
        let (Some(node), Some(name)) = (self.some_node(world), self.work.pick(&jobs).cloned()) else {
            return;
        };
        let lasts = self.work.between(500, 15_000);
        let (command, undo) = match item {
            OperatorAction::Apply => (Command::Apply(vec![self.declaration(&name)]), None),
            OperatorAction::Pause => {
                (Command::Pause(name.clone()), Some(FaultRecovery::Ask(Command::Resume(name))))
            }
            OperatorAction::Disable => {
                (Command::Disable(name.clone()), Some(FaultRecovery::Ask(Command::Enable(name))))
            }
            OperatorAction::Delete => {
                let again = self.declaration(&name);
                (Command::Delete(name), Some(FaultRecovery::Ask(Command::Apply(vec![again]))))
            }
            OperatorAction::RunNow => return self.run_now(world, &node),
            OperatorAction::Rescale
            | OperatorAction::Switch
            | OperatorAction::Shutdown
            | OperatorAction::Shards
            | OperatorAction::RunOn => {
                return self.issue_shard_command(world, item, node);
            }
            OperatorAction::Claim => (Command::Claim, None),
            OperatorAction::Drain => {
                (Command::Drain(node.clone()), Some(FaultRecovery::Ask(Command::Undrain(node.clone()))))
            }
            OperatorAction::Kill => {
                if self.work.chance(500) {
                    let Some((node, run)) = self.some_open(world) else { return };
                    world.ask(&node, Command::Kill(run));
                    return;
                }
                let given = world
                    .node(&node)
                    .into_iter()
                    .flat_map(|n| n.local().runs().iter().map(|(_, given)| given));
                let calm = |g: &&Given| self.workload.calm_jobs.contains(&g.run.job);
                let run = given.filter(|g| g.ended.is_none() && !calm(g)).map(|g| g.run.clone()).next();
                let Some(run) = run else { return };
                (Command::Kill(run), None)
            }
            OperatorAction::Lock => {
                let lock: LockName = "lock".parse().expect("a word is a name");
                (Command::Lock(lock.clone()), Some(FaultRecovery::AskOf(node.clone(), Command::Unlock(lock))))
            }
            OperatorAction::Leave => (Command::Leave, Some(FaultRecovery::Start(node.clone()))),
        };
        // Often the command is sent to another node than the one it is about.
        let asked =
            if matches!(command, Command::Drain(_)) { self.some_node(world).unwrap_or(node) } else { node };
        world.ask(&asked, command);
        if let Some(undo) = undo {
            self.later(world, lasts, undo);
        }
    }

    /// Issues an operator command about a sharded job.
    fn issue_shard_command(&mut self, world: &mut SimWorld, item: OperatorAction, node: NodeName) {
        let touchable = |j: &&JobName| j.as_str().starts_with('s') && !self.workload.calm_jobs.contains(*j);
        let names: Vec<JobName> = self.jobs.keys().filter(touchable).cloned().collect();
        let Some(name) = self.work.pick(&names).cloned() else { return };
        let lasts = self.work.between(500, 15_000);
        let asked = self.some_node(world).unwrap_or_else(|| node.clone());
        let (command, undo) = match item {
            OperatorAction::Rescale => {
                let Some(job) = self.jobs.get_mut(&name) else { return };
                if self.workload.broadcast && allows_both(job) {
                    let everywhere = self.work.chance(500);
                    job.placement = if everywhere { Placement::Broadcast } else { Placement::Sharded };
                }
                job.shards = u32::try_from(self.work.between(1, SHARDS)).unwrap_or(1);
                if job.is_broadcast() {
                    job.shards = 1;
                }
                (Command::Apply(vec![job.clone()]), None)
            }
            OperatorAction::Switch => {
                let kinds = [NodeSwitch::Paused(true), NodeSwitch::Disabled(true), NodeSwitch::Shutdown];
                let switch = *self.work.pick(&kinds).unwrap_or(&NodeSwitch::Shutdown);
                let back = match switch {
                    NodeSwitch::Paused(_) => Some(NodeSwitch::Paused(false)),
                    NodeSwitch::Disabled(_) => Some(NodeSwitch::Disabled(false)),
                    NodeSwitch::Shutdown => None,
                };
                let undo =
                    back.map(|back| FaultRecovery::Ask(Command::Switch(name.clone(), node.clone(), back)));
                (Command::Switch(name, node, switch), undo)
            }
            OperatorAction::Shards => {
                let shard = u32::try_from(self.work.between(0, SHARDS - 1)).unwrap_or(0);
                let shards = ShardSet::range(0, shard + 1);
                (
                    Command::Shards(name.clone(), shards.clone(), false),
                    Some(FaultRecovery::Ask(Command::Shards(name, shards, true))),
                )
            }
            OperatorAction::RunOn => {
                self.number += 1;
                let id: RequestId =
                    format!("o{}", self.number).parse().expect("a letter and a number are a name");
                let options = RunOptions { node: Some(node), ..RunOptions::default() };
                let command = Command::RunWith(name, id, options.into());
                let twice = self.work.chance(500).then(|| FaultRecovery::Ask(command.clone()));
                (command, twice)
            }
            _ => (Command::Shutdown(name), None),
        };
        world.ask(&asked, command);
        if let Some(undo) = undo {
            self.later(world, lasts, undo);
        }
    }

    /// Sometimes upgrades a node to another program.
    fn upgrade(&mut self, world: &mut SimWorld) {
        let names: Vec<NodeName> = world.names().filter(|n| world.is_up(n)).cloned().collect();
        if self.workload.upgrades
            && self.upgrades.chance(200)
            && let Some(node) = self.upgrades.pick(&names).cloned()
        {
            world.rest(&node, true);
            self.try_upgrade(world, node, TRIES);
        }
    }

    fn try_upgrade(&mut self, world: &mut SimWorld, node: NodeName, tries: u32) {
        match tries {
            _ if world.upgrade(&node) => world.count(SimFault::Upgrade),
            0 => world.rest(&node, false),
            _ => {
                let after = self.upgrades.between(1, 100);
                self.later(world, after, FaultRecovery::Upgrade(node, tries - 1));
            }
        }
    }
}
