//! The lease as the node keeps it: opens it, renews it, and ends what depended on a lost one.

use alloc::vec::Vec;

use super::{EarliestWake, Node};
use crate::effect::{Effect, Event};
use crate::local::FairQueue;
use crate::time::{Millis, Now};

impl Node {
    pub(super) fn tend_lease(&mut self, now: Now, effects: &mut Vec<Effect>, wake: &mut EarliestWake) {
        if self.local.departed || self.local.closed {
            return;
        }
        if let Some((lease, since)) = self.local.evicted {
            let patience = since + self.local.lease.ttl();
            if now.mono < patience {
                return wake.at(patience, "was it the lease?");
            }
            self.local.evicted = None;
            effects.push(Effect::Close(lease));
        }
        if self.local.lease.hopeless(now.mono) {
            self.lose_lease(now, effects);
        }
        // A node that cannot work lets its lease run out, so that others take over (law 7).
        let yields = self.local.yields(now.mono);
        if let Some(since) = self.local.unable.filter(|_| !yields) {
            wake.at(since + Millis(self.local.lease.ttl().0 * 2 + 1), "unable for too long");
        }
        if core::mem::replace(&mut self.local.yielding, yields) != yields {
            self.revisit_held();
        }
        if yields && !self.local.leaving {
            return;
        }
        let (effect, next) = self.local.lease.decide(now, self.local.settings.max_clock_skew);
        effects.extend(effect);
        wake.at(next, "lease");
        if let Some(trusted) = self.local.lease.trusted(now.mono) {
            wake.at(trusted.until(), "trust ends");
        }
        if self.local.lease.difference(now).is_some_and(|by| by <= self.local.settings.max_clock_skew) {
            self.local.announced.retain(|event| !matches!(event, Event::ClockDiffers(_)));
        }
    }

    /// Our member entry is gone. All runs end, whatever the reason; the lease shows which of two it was: a session that
    /// was lost comes back with another lease, a node that an operator closed stays out (S3-28, I3-05).
    pub(super) fn notice_eviction(&mut self, now: Now, effects: &mut Vec<Effect>) {
        // Before a listing no member is known, for example when the node was handed off to this program.
        if let Some(member) = self.local.joined.clone().filter(|_| self.view.is_listed())
            && self.view.member(&member).is_none()
        {
            self.local.evicted = self.local.lease.id().map(|lease| (lease, now.mono));
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
        let local = &mut self.local;
        if let Some(member) = local.joined.take() {
            local.predecessor = Some(member.incarnation);
            effects.push(Effect::Announce(Event::LeaseLost));
        }
        // A run that has ended only waited for its registry entry to be closed, which is not ours any more.
        local.forget_ended();
        // One that still executes must end in the next life, whichever node owns its job then.
        local.agenda.extend(local.given.keys().map(|(id, ..)| *id));
        local.unread.clear();
        local.locks.clear();
        local.spent.clear();
        local.recording.clear();
        local.wheel.clear();
        local.timers.clear();
        local.uncertain.clear();
        local.put_off.clear();
        local.reading.clear();
        local.waiting = FairQueue::default();
        local.pool_waiters.clear();
        self.end_part(effects);
    }
}
