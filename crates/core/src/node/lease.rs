//! The lease as the node keeps it: opens it, renews it, and ends what depended on a lost one.

use alloc::vec::Vec;

use super::{EarliestWake, Node};
use crate::effect::{Effect, Event};
use crate::time::Now;

impl Node {
    pub(super) fn tend_lease(&mut self, now: Now, effects: &mut Vec<Effect>, wake: &mut EarliestWake) {
        if self.local.availability.has_departed() || self.local.membership.is_closed() {
            return;
        }
        if let Some((lease, since)) = self.local.membership.eviction() {
            let patience = since + self.local.lease.ttl();
            if now.mono < patience {
                return wake.at(patience, "was it the lease?");
            }
            self.local.membership.explain_eviction();
            effects.push(Effect::Close(lease));
        }
        if self.local.lease.hopeless(now.mono) {
            self.lose_lease(now, effects);
        }
        // A node that cannot work lets its lease run out, so that others take over (law 7).
        let gives_up = self.local.gives_up(now.mono);
        let gives_up_at = self.local.availability.gives_up_at(self.local.lease.ttl());
        if let Some(at) = gives_up_at.filter(|_| !gives_up) {
            wake.at(at, "unable for too long");
        }
        if self.local.availability.note_gives_up(gives_up) {
            self.revisit_held();
        }
        if gives_up && !self.local.availability.is_leaving() {
            return;
        }
        let (effect, next) = self.local.lease.decide(now, self.local.settings.max_clock_skew);
        effects.extend(effect);
        wake.at(next, "lease");
        if let Some(trusted) = self.local.lease.trusted(now.mono) {
            wake.at(trusted.until(), "trust ends");
        }
        if self.local.lease.difference(now).is_some_and(|by| by <= self.local.settings.max_clock_skew) {
            self.local.announced.clock_agrees();
        }
    }

    /// Our member entry is gone. All runs end, whatever the reason; the lease shows which of two it was: a session that
    /// was lost comes back with another lease, a node that an operator closed stays out (S3-28, I3-05).
    pub(super) fn notice_eviction(&mut self, now: Now, effects: &mut Vec<Effect>) {
        // Before a listing no member is known, for example when the node was handed off to this program.
        if let Some(member) = self.local.membership.joined().cloned().filter(|_| self.view.is_listed())
            && self.view.member(&member).is_none()
        {
            self.local.membership.evict(self.local.lease.id(), now.mono);
            // A lease that can still be renewed did not end: then an operator closed this node.
            effects.extend(self.local.lease.id().map(Effect::Renew));
            self.end_life(now, effects);
        }
    }

    pub(super) fn lose_lease(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if let Some(lease) = self.local.lease.id() {
            effects.push(Effect::Close(lease));
        }
        self.end_life(now, effects);
    }

    pub(super) fn end_life(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.local.lease.lose(now.mono);
        self.view.begin_life(None);
        self.forget_life(effects);
    }

    /// Clears the state of the life that the lease carried.
    pub(super) fn forget_life(&mut self, effects: &mut Vec<Effect>) {
        if self.local.end_life() {
            effects.push(Effect::Announce(Event::LeaseLost));
        }
        self.suspend(effects);
    }
}
