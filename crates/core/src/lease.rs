//! The lease of a node, and the window in which it may be trusted.

use crate::effect::Effect;
use crate::handoff::HandoffLease;
use crate::input::LeaseEvent;
use crate::registry::{LeaseGrant, LeaseId};
use crate::time::{Millis, Mono, Now, Wall};

/// How soon after a renewal another one may follow for the sake of another node's lease.
const SOONEST: Millis = Millis(100);

/// Proof that a node may act now: its lease cannot have ended. Only this file can make one (law 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseProof {
    until: Mono,
}

impl LeaseProof {
    /// From this moment on the lease is not trusted any more.
    #[must_use]
    pub fn until(self) -> Mono {
        self.until
    }
}

/// The lease of a node, as far as the node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    ttl: Millis,
    early: Millis,
    held: Option<ConfirmedLease>,
    /// An `open` or `renew` without an answer yet, by when it was asked.
    asked: Option<Mono>,
    /// No request before this moment.
    not_before: Mono,
    /// Since when it is not trusted; a node that cannot regain trust gives its lease up (law 7).
    distrusted: Option<Mono>,
    clock: Option<ClockReading>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ConfirmedLease {
    id: LeaseId,
    ttl: Millis,
    /// When the last confirmed request was sent.
    confirmed: Mono,
    next_end: Option<Mono>,
}

/// The registry's clock, read somewhere between two moments of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ClockReading {
    clock: Wall,
    asked: Mono,
    answered: Mono,
}

/// How long after the request a lease of term `ttl` may be trusted: two thirds, so that the last third suffices to end
/// runs, for messages in flight, for clock rates that differ by 1 %, and for an engine that ends leases `early`.
#[must_use]
pub fn usable(ttl: Millis, early: Millis) -> Millis {
    let margin = ttl.0 / 6 + early.0;
    Millis((ttl.0 * 2 / 3).min(ttl.0 - ttl.0 / 100 - margin).max(0))
}

impl Lease {
    /// No lease yet; one of term `ttl` will be asked for.
    #[must_use]
    pub fn new(ttl: Millis, early: Millis) -> Self {
        Self {
            ttl,
            early,
            held: None,
            asked: None,
            not_before: Mono(i64::MIN),
            distrusted: None,
            clock: None,
        }
    }

    /// The lease that an earlier program of this process held, trusted as long as that one might. It is renewed at
    /// once: some engines keep a lease by a connection, and that one went with the program.
    pub fn resume(&mut self, id: LeaseId, passed: &HandoffLease) {
        let confirmed = Mono(passed.confirmed);
        self.held = Some(ConfirmedLease { id, ttl: passed.ttl, confirmed, next_end: Some(confirmed) });
        self.clock = passed.clock.map(|(clock, asked, answered)| ClockReading {
            clock,
            asked: Mono(asked),
            answered: Mono(answered),
        });
    }

    /// The part of it for a handoff; `None` without a lease.
    #[must_use]
    pub fn handoff(&self) -> Option<HandoffLease> {
        let ConfirmedLease { ttl, confirmed, .. } = self.held?;
        let clock = self.clock.map(|ClockReading { clock, asked, answered }| (clock, asked.0, answered.0));
        Some(HandoffLease { ttl, confirmed: confirmed.0, clock })
    }

    /// The lease held, trusted or not.
    #[must_use]
    pub fn id(&self) -> Option<LeaseId> {
        self.held.map(|h| h.id)
    }

    /// The term granted, or the one to request.
    #[must_use]
    pub fn ttl(&self) -> Millis {
        self.held.map_or(self.ttl, |h| h.ttl)
    }

    /// When the request was sent that the registry last confirmed; `None` without a lease.
    #[must_use]
    pub fn confirmed(&self) -> Option<Mono> {
        self.held.map(|held| held.confirmed)
    }

    /// Proof of trust, if there is trust.
    #[must_use]
    pub fn trusted(&self, now: Mono) -> Option<LeaseProof> {
        let held = self.held?;
        let until = held.confirmed + usable(held.ttl, self.early);
        (now < until).then_some(LeaseProof { until })
    }

    /// Takes a change of the lease. Returns an unused lease that should be closed.
    pub fn absorb(&mut self, now: Mono, event: &LeaseEvent) -> Option<LeaseId> {
        match event {
            LeaseEvent::Opened { asked, granted } => {
                self.asked = None;
                if self.held.is_some() {
                    return Some(granted.lease);
                }
                // How long it was gone is no reason to give the new one up.
                self.distrusted = None;
                self.confirm(now, *asked, granted);
            }
            LeaseEvent::Renewed { asked, granted } => {
                self.asked = None;
                // An answer that a later one, or the loss of the lease, has overtaken changes nothing.
                if self.held.is_some_and(|h| h.id == granted.lease && h.confirmed < *asked) {
                    self.confirm(now, *asked, granted);
                }
            }
            LeaseEvent::Gone(id) => {
                self.asked = None;
                if self.id() == Some(*id) {
                    self.lose(now);
                }
            }
            LeaseEvent::Failed => {
                self.asked = None;
                self.not_before = now + Millis(self.ttl().0 / 10);
            }
        }
        None
    }

    fn confirm(&mut self, now: Mono, asked: Mono, granted: &LeaseGrant) {
        let next_end = granted.next_end.map(|span| now + span);
        self.held = Some(ConfirmedLease { id: granted.lease, ttl: granted.ttl, confirmed: asked, next_end });
        self.clock = granted.clock.map(|clock| ClockReading { clock, asked, answered: now });
        self.not_before = Mono(i64::MIN);
    }

    /// Notes that the lease is gone, or given up.
    pub fn lose(&mut self, now: Mono) {
        self.held = None;
        self.asked = None;
        self.clock = None;
        self.distrusted.get_or_insert(now);
    }

    /// The next request to the registry, if one is due, and when to look again.
    pub fn decide(&mut self, now: Now, max_clock_skew: Millis) -> (Option<Effect>, Mono) {
        let mono = now.mono;
        self.watch_trust(mono);
        let due = self.next_request(now, max_clock_skew);
        if mono < due {
            return (None, due);
        }
        self.asked = Some(mono);
        let effect = match self.held {
            None => Effect::Open { ttl: self.ttl },
            Some(held) => Effect::Renew(held.id),
        };
        (Some(effect), self.next_request(now, max_clock_skew))
    }

    fn watch_trust(&mut self, now: Mono) {
        match (self.trusted(now), self.distrusted) {
            (Some(_), _) => self.distrusted = None,
            (None, None) => self.distrusted = Some(now),
            (None, Some(_)) => {}
        }
    }

    /// Since when it is not trusted, or since when the node has requested one; `None` while it is trusted.
    #[must_use]
    pub fn distrusted_since(&self, now: Mono) -> Option<Mono> {
        // Trust may have ended before that was noticed.
        let ended = self.held.map(|held| held.confirmed + usable(held.ttl, self.early));
        let since = ended.into_iter().chain(self.distrusted).min();
        since.filter(|_| self.trusted(now).is_none())
    }

    /// Whether trust has been missing for so long that the lease should be given up.
    #[must_use]
    pub fn hopeless(&self, now: Mono) -> bool {
        self.held.is_some() && self.distrusted.is_some_and(|since| now - since > Millis(self.ttl().0 * 2))
    }

    /// The next moment at which a request is due: at a third of the term, right when another node's lease ends (a
    /// renewal sweeps), soon after a failure, and soon when the clocks disagree (law 6).
    fn next_request(&self, now: Now, max_clock_skew: Millis) -> Mono {
        if let Some(asked) = self.asked {
            // The driver answers every request; this is for the day it does not.
            return asked + self.ttl();
        }
        let Some(held) = self.held else { return self.not_before.max(Mono(0)) };
        let third = held.confirmed + Millis(held.ttl.0 / 3);
        let soonest = held.confirmed + Millis(held.ttl.0 / 20).min(SOONEST);
        let sweep = held.next_end.map_or(third, |end| end.max(soonest));
        let resample = match self.difference(now) {
            Some(by) if by > max_clock_skew => held.confirmed + Millis::secs(1),
            _ => third,
        };
        third.min(sweep).min(resample).max(self.not_before)
    }

    /// The least time of the registry's clock; `None` when it has none or none was read.
    #[must_use]
    pub fn registry_time(&self, now: Now) -> Option<Wall> {
        self.clock.map(|ClockReading { clock, answered, .. }| clock + (now.mono - answered))
    }

    /// By how much our wall clock is certainly off the registry's; `None` when the registry has no clock or none was
    /// read. The time the answer was under way is not held against us.
    #[must_use]
    pub fn difference(&self, now: Now) -> Option<Millis> {
        let earliest = self.registry_time(now)?;
        let ClockReading { clock, asked, .. } = self.clock?;
        let latest = clock + (now.mono - asked);
        let off = (earliest - now.wall).max(now.wall - latest);
        Some(off.max(Millis::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(lease: u64, ttl: i64) -> LeaseGrant {
        LeaseGrant { lease: LeaseId(lease), ttl: Millis(ttl), clock: None, next_end: None }
    }

    fn at(ms: i64) -> Now {
        Now { mono: Mono(ms), wall: Wall(ms) }
    }

    /// proves: S4-26, I3
    #[test]
    fn trust_counts_from_the_question_and_ends_at_two_thirds() {
        let mut lease = Lease::new(Millis(15_000), Millis(0));
        assert_eq!(lease.decide(at(0), Millis(500)).0, Some(Effect::Open { ttl: Millis(15_000) }));
        lease.absorb(Mono(4_000), &LeaseEvent::Opened { asked: Mono(0), granted: granted(7, 15_000) });
        assert_eq!(lease.trusted(Mono(9_999)).map(LeaseProof::until), Some(Mono(10_000)));
        assert_eq!(lease.trusted(Mono(10_000)), None);
        assert_eq!(lease.decide(at(5_000), Millis(500)).0, Some(Effect::Renew(LeaseId(7))));
        lease.absorb(Mono(5_010), &LeaseEvent::Failed);
        assert_eq!(lease.decide(at(5_020), Millis(500)).0, None);
        assert_eq!(lease.decide(at(6_510), Millis(500)).0, Some(Effect::Renew(LeaseId(7))));
    }

    #[test]
    fn a_late_answer_never_shortens_or_revives_trust() {
        let mut lease = Lease::new(Millis(3_000), Millis(0));
        lease.absorb(Mono(0), &LeaseEvent::Opened { asked: Mono(0), granted: granted(1, 3_000) });
        lease.absorb(Mono(900), &LeaseEvent::Renewed { asked: Mono(800), granted: granted(1, 3_000) });
        lease.absorb(Mono(950), &LeaseEvent::Renewed { asked: Mono(700), granted: granted(1, 3_000) });
        assert_eq!(lease.trusted(Mono(1_000)).map(LeaseProof::until), Some(Mono(2_800)));
        lease.absorb(Mono(1_000), &LeaseEvent::Gone(LeaseId(1)));
        lease.absorb(Mono(1_100), &LeaseEvent::Renewed { asked: Mono(1_050), granted: granted(1, 3_000) });
        assert_eq!(lease.trusted(Mono(1_100)), None);
        let surplus =
            lease.absorb(Mono(1_200), &LeaseEvent::Opened { asked: Mono(1_150), granted: granted(2, 3_000) });
        assert_eq!((surplus, lease.id()), (None, Some(LeaseId(2))));
        let surplus =
            lease.absorb(Mono(1_300), &LeaseEvent::Opened { asked: Mono(1_150), granted: granted(3, 3_000) });
        assert_eq!(surplus, Some(LeaseId(3)));
    }

    #[test]
    fn the_time_an_answer_took_is_no_clock_difference() {
        let mut lease = Lease::new(Millis(15_000), Millis(0));
        let slow = LeaseGrant { clock: Some(Wall(1_000)), ..granted(1, 15_000) };
        lease.absorb(Mono(2_000), &LeaseEvent::Opened { asked: Mono(0), granted: slow });
        let now = |mono, wall| Now { mono: Mono(mono), wall: Wall(wall) };
        assert_eq!(lease.difference(now(2_000, 2_000)), Some(Millis(0)));
        assert_eq!(lease.difference(now(3_000, 5_000)), Some(Millis(1_000)));
        assert_eq!(lease.difference(now(3_000, 0)), Some(Millis(2_000)));
    }
}
