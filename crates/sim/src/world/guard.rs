//! The guard process after its node's process has died: once the runs have ended, it removes the node's member, so that
//! other nodes need not wait until the lease ends.
//!
//! It tries a few times and then gives up: the lease ends by its term. It keeps the data folder locked meanwhile.

use evenkeel_core::ids::NodeName;
use evenkeel_core::member_entry::MemberEntry;
use evenkeel_core::registry::{LeaseId, TxnOutcome};
use evenkeel_core::time::Mono;

use super::guard_task::GuardTask;
use super::request::TIMEOUT;
use super::{RegistryLink, SimWorld, WorldEvent};
use crate::faults::SimFault;

/// How often the guard tries to remove a member.
const TRIES: u32 = 3;
/// The longest pause before a slow guard's removal, in milliseconds.
const SLOW: i64 = 10_000;
/// How often each fault of a guard occurs, in a thousand.
const RATE: u32 = 150;

impl SimWorld {
    /// Lets the guard know of its node's member, as each node does after a step.
    pub(super) fn send_member_to_guard(&mut self, name: &NodeName) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        if let Some(entry) = actor.node.as_ref().and_then(evenkeel_core::node::Node::member_entry) {
            actor.member = Some(entry);
        }
    }

    /// The guard notices that its node's process has died.
    pub(super) fn guard_sees_death(&mut self, name: &NodeName) {
        if !self.options.mutation.guards() {
            return;
        }
        let dies = self.befalls_guard(SimFault::GuardDies);
        let waits = self.options.mutation.guard_awaits_runs();
        let Some(actor) = self.actors.get_mut(name) else { return };
        let entry = actor.member.take().filter(|_| !dies);
        actor.guard = entry.map(GuardTask::EndRuns).unwrap_or_default();
        if !waits {
            self.guard_removes_member(name);
        }
        self.guard_goes_on(name);
    }

    /// Lets the guard go on once all runs have ended.
    pub(super) fn guard_goes_on(&mut self, name: &NodeName) {
        if self.actors.get(name).is_some_and(|actor| actor.runs.is_empty()) {
            self.guard_removes_member(name);
        }
    }

    fn guard_removes_member(&mut self, name: &NodeName) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        if let GuardTask::EndRuns(entry) = &actor.guard {
            actor.guard = GuardTask::Remove(entry.clone(), TRIES);
            let slow = self.befalls_guard(SimFault::GuardSlow);
            let pause = if slow { self.guards.between(0, SLOW) } else { 0 };
            self.send_guard_request(name, pause);
        }
    }

    /// Sends a request, after a pause.
    fn send_guard_request(&mut self, name: &NodeName, pause: i64) {
        let delay = pause + self.guards.between(1, self.weather.delay.max(1));
        self.after(delay, WorldEvent::GuardRequest { node: name.clone() });
    }

    /// A guard's request arrives at the registry.
    pub(super) fn guard_request_arrives(&mut self, name: &NodeName) {
        let Some(actor) = self.actors.get_mut(name) else { return };
        match std::mem::take(&mut actor.guard) {
            GuardTask::Remove(entry, tries) => self.removal_arrives(name, entry, tries),
            GuardTask::Close(lease) => {
                if actor.link != RegistryLink::Down {
                    self.store.close(lease);
                    self.registry_moved(None);
                }
            }
            // Of a guard before this one.
            other => actor.guard = other,
        }
    }

    fn removal_arrives(&mut self, name: &NodeName, entry: MemberEntry, tries: u32) {
        let unanswered = self.befalls_guard(SimFault::RemovalUnanswered);
        let link = self.actors.get(name).map_or(RegistryLink::Down, |actor| actor.link);
        let mut applied = false;
        if link != RegistryLink::Down {
            self.checker.removed_by_guard(&entry.member);
            let outcome = self.store.commit(Mono(self.at), &entry.removal());
            applied = matches!(outcome, TxnOutcome::Applied(_));
            self.trace.note(self.at, name.as_str(), &applied, || format!("guard removes {}", entry.member));
            self.registry_moved(None);
        }
        let Some(actor) = self.actors.get_mut(name) else { return };
        if link != RegistryLink::Up || unanswered {
            if tries > 1 {
                actor.guard = GuardTask::Remove(entry, tries - 1);
                self.send_guard_request(name, TIMEOUT);
            }
        } else if applied {
            actor.guard = GuardTask::Close(LeaseId(entry.member.incarnation));
            self.send_guard_request(name, 0);
        }
    }

    /// Whether this fault of a guard occurs now.
    fn befalls_guard(&mut self, fault: SimFault) -> bool {
        let struck = self.faulty_guards && self.guards.chance(RATE);
        if struck {
            self.tally.count(fault);
        }
        struck
    }
}
