//! Changes the version of nodes' programs, and requests the newest layout.

use evenkeel_core::ids::NodeName;
use evenkeel_core::input::Command;

use super::{FaultDriver, FaultRecovery, TRIES};
use crate::faults::SimFault;
use crate::workload::{NEW, OLD};
use crate::world::SimWorld;

impl FaultDriver<'_> {
    /// Sometimes puts another program into a node's file, newer or older, and restarts or upgrades the node; and
    /// sometimes requests that the layout be raised.
    pub(super) fn change_version(&mut self, world: &mut SimWorld) {
        if !self.workload.versions || !self.versions.chance(500) {
            return;
        }
        let names: Vec<NodeName> = world.names().cloned().collect();
        let Some(node) = self.versions.pick(&names).cloned() else { return };
        if self.versions.chance(250) {
            world.ask(&node, Command::FinalizeUpgrade);
            return;
        }
        let knows = if self.versions.chance(350) { OLD } else { NEW };
        world.install(&node, knows);
        world.count(SimFault::Version);
        match self.versions.below(3) {
            0 => {
                world.crash(&node);
                let after = self.versions.between(50, self.ttl);
                self.later(world, after, FaultRecovery::Start(node));
            }
            1 => {
                world.ask(&node, Command::Leave);
                let after = self.versions.between(1_000, 5_000);
                self.later(world, after, FaultRecovery::Start(node));
            }
            _ => {
                world.rest(&node, true);
                self.try_upgrade(world, node, TRIES);
            }
        }
    }

    /// All nodes get the newer program, so that each of them can join.
    pub(super) fn settle_versions(&self, world: &mut SimWorld) {
        if !self.workload.versions {
            return;
        }
        let names: Vec<NodeName> = world.names().cloned().collect();
        for name in &names {
            world.install(name, NEW);
            if world.knows(name).is_some_and(|knows| knows != NEW) {
                world.crash(name);
            }
        }
    }

    /// Raises the layout once everything is at rest, whatever was left of earlier tries.
    pub(super) fn finalize(&self, world: &mut SimWorld) {
        let first = world.names().next().cloned().filter(|_| self.workload.versions);
        if let Some(first) = first {
            world.ask(&first, Command::FinalizeUpgrade);
        }
    }
}
