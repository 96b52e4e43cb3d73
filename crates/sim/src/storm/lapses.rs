//! The registry goes back in time, and nodes notice one after the other.

use evenkeel_core::words::NodeName;

use super::{Storm, Undo};
use crate::faults::Fault;
use crate::world::{Past, World};

impl Storm<'_> {
    /// Sometimes somebody keeps what the registry is, and sometimes it is that again.
    pub(super) fn lapse(&mut self, world: &mut World) {
        if !self.swarm.lapses || !self.lapses.chance(200) {
            return;
        }
        let Some(past) = self.past.take() else {
            self.past = Some(world.keep());
            return;
        };
        let names: Vec<NodeName> = world.names().cloned().collect();
        if self.lapses.chance(300) {
            return self.put_back(world, past, names);
        }
        world.count(Fault::BackInTime);
        let counts_on = self.lapses.chance(500);
        world.go_back(past, counts_on);
        for name in names {
            let after = if self.lapses.chance(500) { 0 } else { self.lapses.between(1, self.ttl) };
            self.later(world, after, Undo::Notice(name));
        }
    }

    /// Somebody ends all nodes, and puts back what he kept in a way that the registry cannot tell.
    fn put_back(&mut self, world: &mut World, past: Past, names: Vec<NodeName>) {
        names.iter().for_each(|name| world.crash(name));
        if world.go_back_untold(past) {
            world.count(Fault::PutBack);
        }
        for name in names {
            let after = self.lapses.between(50, 3 * self.ttl);
            self.later(world, after, Undo::Start(name));
        }
    }

    /// It stops with the reason, and somebody starts it again.
    pub(super) fn notice(&mut self, world: &mut World, node: &NodeName) {
        if world.is_behind(node) {
            world.crash(node);
            let after = self.lapses.between(50, self.ttl);
            self.later(world, after, Undo::Start(node.clone()));
        }
    }
}
