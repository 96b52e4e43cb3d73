//! The feed of the registry's changes, with its faults.

use evenkeel_core::ids::NodeName;
use evenkeel_core::input::Input;
use evenkeel_core::registry::Revision;

use super::{RegistryLink, SimWorld, WorldEvent};
use crate::faults::SimFault;

/// The longest delay of late news, in milliseconds.
const LATE: i64 = 4_000;

impl SimWorld {
    /// Starts the feed after a listing has reached its node.
    pub(super) fn take_up_feed(&mut self, name: &NodeName, listed: Revision) {
        if let Some(actor) = self.actors.get_mut(name)
            && actor.heard.is_none()
        {
            actor.heard = Some(listed);
        }
        self.publish_to(name);
    }

    /// Sends the new changes to every node.
    pub(super) fn publish(&mut self) {
        let names: Vec<NodeName> = self.actors.keys().cloned().collect();
        names.iter().for_each(|name| self.publish_to(name));
    }

    pub(super) fn publish_to(&mut self, name: &NodeName) {
        if self.is_behind(name) {
            return;
        }
        let Some(actor) = self.actors.get_mut(name) else { return };
        let Some(heard) = actor.heard else { return };
        if actor.node.is_none()
            || actor.deaf
            || actor.link != RegistryLink::Up
            || heard == self.store.revision()
        {
            return;
        }
        let (life, far, last) = (actor.life, actor.far, actor.last_news);
        let give = |input| WorldEvent::Give { node: name.clone(), life, input };
        let ends = self.strikes(SimFault::FeedEnds);
        let batch = self.store.changes_after(heard).filter(|_| !ends);
        let Some(actor) = self.actors.get_mut(name) else { return };
        let Some(batch) = batch else {
            actor.heard = None;
            return self.after(far, give(Input::Gap));
        };
        actor.heard = Some(batch.revision);
        if batch.changes.is_empty() || self.strikes(SimFault::NewsLost) {
            return;
        }
        let mut delay = far + self.way();
        if self.strikes(SimFault::NewsLate) {
            delay += self.network.between(100, LATE);
        }
        let overtaken = self.strikes(SimFault::NewsOvertaken);
        if overtaken {
            delay += self.network.between(50, LATE / 2);
        }
        if self.strikes(SimFault::NewsDoubled) {
            let again = delay + self.network.between(0, LATE);
            self.after(again, give(Input::Changed(batch.clone())));
        }
        let at = if overtaken { self.at + delay } else { last.max(self.at + delay) };
        if let Some(actor) = self.actors.get_mut(name).filter(|_| !overtaken) {
            actor.last_news = at;
        }
        self.at_moment(at, give(Input::Changed(batch)));
    }
}
