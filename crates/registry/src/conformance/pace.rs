//! How time passes in a case: by hand where the engine takes our clock, really where it has its own.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::registry::{Batch, LeaseId, Revision};
use evenkeel_core::time::{Millis, Mono};

use super::{Stage, TTL};
use crate::clock::{Clock, HandClock, HostClock};

/// How an engine's time passes.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// As the suite's [`HandClock`] says: bounds are met to the millisecond.
    Hand,
    /// As on the wall, for an engine that is a server.
    Real(Real),
}

/// What the suite must know of a server.
#[derive(Clone, Copy, Debug)]
pub struct Real {
    /// A short term, which a case can wait for; the engine grants exactly this.
    pub ttl: Millis,
    /// How long after its term a lease is over at the latest, with what lives by it.
    pub late: Millis,
    /// Whether others count in the same order: then it moves without our doing.
    pub shared: bool,
    /// After how many changes a listener that slept is too far behind; `None` where that is not for the suite to show.
    pub remembers: Option<u32>,
}

/// The time of a stage.
#[derive(Clone)]
pub(super) enum Time {
    Hand(Arc<HandClock>),
    Real(Real),
}

/// A lease that a case waits for.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Its number.
    pub lease: LeaseId,
    ttl: Millis,
    since: Mono,
}

impl Stage {
    /// The clock of a stage whose time is moved by hand.
    #[must_use]
    pub fn by_hand(&self) -> Option<&HandClock> {
        match &self.time {
            Time::Hand(clock) => Some(clock),
            Time::Real(_) => None,
        }
    }

    pub(super) fn real(&self) -> Option<Real> {
        match self.time {
            Time::Hand(_) => None,
            Time::Real(real) => Some(real),
        }
    }

    /// A usual term, as short as a case can wait for.
    #[must_use]
    pub fn ttl(&self) -> Millis {
        self.real().map_or(TTL, |real| real.ttl)
    }

    /// A term that no case outlives, where time is real; a usual one else.
    #[must_use]
    pub fn long(&self) -> Millis {
        self.real().map_or(TTL, |_| Millis::secs(120))
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Mono {
        match &self.time {
            Time::Hand(clock) => clock.now().mono,
            Time::Real(_) => HostClock.now().mono,
        }
    }

    /// Opens a lease of a usual term that is going to be waited for.
    pub async fn brief(&self) -> Held {
        let since = self.now();
        let granted = self.open(self.ttl()).await;
        Held { lease: granted.lease, ttl: granted.ttl, since }
    }

    /// Renews one, which must still be possible.
    pub async fn keep(&self, held: &mut Held) {
        let since = self.now();
        let renewed = self.renew(held.lease).await;
        match renewed {
            Some(_) => held.since = since,
            None if self.real().is_some() && self.may_be_over(held) => {
                panic!("this machine was too slow for the case: a lease of {} ended meanwhile", held.ttl)
            }
            None => panic!("ended early: {held:?}"),
        }
    }

    /// Whether enough time has passed since it was asked for that it may rightly have ended.
    ///
    /// Our clock and the engine's may differ in rate by 1 %.
    #[must_use]
    pub fn may_be_over(&self, held: &Held) -> bool {
        let early = match &self.time {
            Time::Hand(_) => Millis::ZERO,
            Time::Real(_) => self.registry.facts().early + Millis(held.ttl.0 / 100),
        };
        self.now() - held.since >= held.ttl - early
    }

    /// Lets most of a usual term pass: all but a millisecond by hand, half of it really.
    pub async fn almost(&self) {
        self.pass(self.most()).await;
    }

    /// Lets the rest of the term pass, after [`almost`](Self::almost).
    pub async fn rest(&self) {
        self.end_by(self.ttl() - self.most(), async || self.act().await).await;
    }

    /// Lets a whole usual term pass, until what was granted before is over for everybody.
    pub async fn over(&self) {
        self.over_by(async || self.act().await).await;
    }

    /// The same with an act of one's own by which the engine notices.
    pub async fn over_by(&self, act: impl AsyncFn()) {
        self.end_by(self.ttl(), act).await;
    }

    /// Lets a term end that has so much left. Where nobody could act for so long that leases may have their term once more, it
    /// begins again.
    async fn end_by(&self, left: Millis, act: impl AsyncFn()) {
        let late = self.real().map_or(Millis::ZERO, |real| real.late);
        while self.pass_by(left + late, &act).await > Millis(self.ttl().0 / 2) && self.real().is_some() {}
    }

    fn most(&self) -> Millis {
        match &self.time {
            Time::Hand(_) => TTL - Millis(1),
            Time::Real(real) => Millis(real.ttl.0 / 2),
        }
    }

    /// Lets time pass in steps in which somebody acts, so that the engine does not count as having been away.
    pub async fn pass(&self, span: Millis) {
        self.pass_by(span, &async || self.act().await).await;
    }

    /// The same with an act of one's own. Returns for how long nobody acted at most.
    async fn pass_by(&self, span: Millis, act: &impl AsyncFn()) -> Millis {
        let step = Millis(400);
        let (mut left, mut acted, mut away) = (span, self.now(), Millis::ZERO);
        while left > Millis::ZERO {
            self.idle(left.min(step)).await;
            left = left - step;
            let before = self.now();
            act().await;
            away = away.max(self.now() - acted);
            acted = before;
        }
        away
    }

    async fn act(&self) {
        self.made([], []).await;
    }

    /// Lets time pass in which nobody acts.
    pub async fn idle(&self, span: Millis) {
        match &self.time {
            Time::Hand(clock) => clock.pass(span),
            Time::Real(_) => {
                tokio::time::sleep(Duration::from_millis(span.0.max(0).unsigned_abs())).await;
            }
        }
    }

    /// Whether others move the order too.
    #[must_use]
    pub fn shared(&self) -> bool {
        self.real().is_some_and(|real| real.shared)
    }

    /// Checks that the order did not move by our doing.
    pub fn unmoved(&self, before: Revision, now: Revision) {
        match self.shared() {
            true => assert!(now >= before, "{now} is before {before}"),
            false => assert_eq!(now, before, "the order moved"),
        }
    }

    /// Checks that a listing is as the one before.
    pub fn unchanged(&self, before: &Batch, now: &Batch) {
        let entries = |batch: &Batch| {
            batch.changes.iter().map(|it| (it.key.clone(), it.entry.clone())).collect::<Vec<_>>()
        };
        assert_eq!(entries(now), entries(before));
        self.unmoved(before.revision, now.revision);
    }

    /// Numbers of leases that were never granted.
    #[must_use]
    pub fn never(&self, granted: LeaseId) -> [LeaseId; 3] {
        // Where others are granted leases too, the next number may be theirs.
        let near = if self.shared() { granted.0 ^ (1 << 40) } else { granted.0 + 1 };
        [0, near, u64::MAX].map(LeaseId)
    }
}
