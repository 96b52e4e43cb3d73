//! Rewinds the registry to an earlier state; nodes notice one after the other.

use evenkeel_core::ids::NodeName;
use evenkeel_core::store::NumbersAfterRollback;

use super::{FaultDriver, FaultRecovery};
use crate::faults::SimFault;
use crate::world::{RegistrySnapshot, SimWorld};

impl FaultDriver<'_> {
    /// Sometimes takes a snapshot of the registry, and sometimes rewinds the registry to it.
    pub(super) fn maybe_rewind(&mut self, world: &mut SimWorld) {
        if !self.workload.rewinds || !self.rewinds.chance(200) {
            return;
        }
        let Some(past) = self.past.take() else {
            self.past = Some(world.keep());
            return;
        };
        let names: Vec<NodeName> = world.names().cloned().collect();
        if self.rewinds.chance(300) {
            return self.restore(world, past, names);
        }
        world.count(SimFault::BackInTime);
        let numbers = match self.rewinds.chance(500) {
            true => NumbersAfterRollback::GoOn,
            false => NumbersAfterRollback::Repeat,
        };
        world.rewind(past, numbers);
        for name in names {
            let after = if self.rewinds.chance(500) { 0 } else { self.rewinds.between(1, self.ttl) };
            self.later(world, after, FaultRecovery::Notice(name));
        }
    }

    /// Ends all nodes, and restores a snapshot in a way that the registry cannot detect.
    fn restore(&mut self, world: &mut SimWorld, past: RegistrySnapshot, names: Vec<NodeName>) {
        names.iter().for_each(|name| world.crash(name));
        if world.rewind_undetected(past) {
            world.count(SimFault::PutBack);
        }
        for name in names {
            let after = self.rewinds.between(50, 3 * self.ttl);
            self.later(world, after, FaultRecovery::Start(name));
        }
    }

    /// The node stops with the reason, and is started again.
    pub(super) fn notice(&mut self, world: &mut SimWorld, node: &NodeName) {
        if world.is_behind(node) {
            world.crash(node);
            let after = self.rewinds.between(50, self.ttl);
            self.later(world, after, FaultRecovery::Start(node.clone()));
        }
    }
}
