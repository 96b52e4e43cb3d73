//! Another program in a node's file, and whoever wants the newest layout.

use evenkeel_core::input::Command;
use evenkeel_core::words::NodeName;

use super::{Storm, TRIES, Undo};
use crate::faults::Fault;
use crate::swarm::{NEW, OLD};
use crate::world::World;

impl Storm<'_> {
    /// Sometimes another program is put into a node's file, newer or older, and the node is started again or goes on in it; and
    /// sometimes somebody wants the layout raised.
    pub(super) fn change_version(&mut self, world: &mut World) {
        if !self.swarm.versions || !self.versions.chance(500) {
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
        world.count(Fault::Version);
        match self.versions.below(3) {
            0 => {
                world.crash(&node);
                let after = self.versions.between(50, self.ttl);
                self.later(world, after, Undo::Start(node));
            }
            1 => {
                world.ask(&node, Command::Leave);
                let after = self.versions.between(1_000, 5_000);
                self.later(world, after, Undo::Start(node));
            }
            _ => {
                world.rest(&node, true);
                self.try_upgrade(world, node, TRIES);
            }
        }
    }

    /// All nodes get the newer program, so that each of them can join.
    pub(super) fn settle_versions(&self, world: &mut World) {
        if !self.swarm.versions {
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

    /// Once everything is calm the layout can be raised, whatever was left of earlier tries.
    pub(super) fn finalize(&self, world: &mut World) {
        let first = world.names().next().cloned().filter(|_| self.swarm.versions);
        if let Some(first) = first {
            world.ask(&first, Command::FinalizeUpgrade);
        }
    }
}
