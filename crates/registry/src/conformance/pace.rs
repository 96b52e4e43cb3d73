//! How time passes in a case: by hand where the engine takes our clock, really where it has its own.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::registry::{Batch, Guard, LeaseId, Outcome, Revision, Write};
use evenkeel_core::time::{Millis, Mono};

use super::{Stage, TTL, txn};
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

impl Real {
    /// The same with the term that a case has when it begins for the `nth` time, counted from 0: each time twice as long.
    pub(super) fn attempt(self, nth: u32) -> Self {
        Self { ttl: Millis(self.ttl.0 << nth), ..self }
    }
}

/// How often a case begins on a machine that stands still for longer than a lease's term. The last term is 16 times the first
/// one.
pub(super) const ATTEMPTS: u32 = 5;

/// For how long after its term a lease is waited for that does not end. No promise: the limit of a wait that hangs.
const PATIENCE: Millis = Millis::secs(120);

/// How long between two looks whether a lease is over.
const LOOK: Millis = Millis(50);

/// This machine stood still for longer than a lease's term, so the case proved nothing and has to begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled;

/// What a case returns.
pub trait Verdict {
    /// Whether the case has to begin again.
    fn stalled(self) -> bool;
}

impl Verdict for () {
    fn stalled(self) -> bool {
        false
    }
}

impl Verdict for Result<(), Stalled> {
    fn stalled(self) -> bool {
        self.is_err()
    }
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
    /// The term that it was granted.
    pub ttl: Millis,
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
        self.real().map_or(TTL, |_| Millis::secs(600))
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
    ///
    /// # Errors
    /// When the case has to begin again.
    pub async fn keep(&self, held: &mut Held) -> Result<(), Stalled> {
        let since = self.now();
        let renewed = self.renew(held.lease).await.is_some();
        self.lives(held, renewed)?;
        held.since = since;
        Ok(())
    }

    /// Sends a transaction whose writes live by a lease that must be open.
    ///
    /// # Errors
    /// When the case has to begin again.
    pub async fn made_by(
        &self,
        held: &Held,
        guards: impl Into<Vec<Guard>>,
        writes: impl Into<Vec<Write>>,
    ) -> Result<Revision, Stalled> {
        match self.commit(txn(guards, writes)).await {
            Outcome::Applied(revision) => Ok(revision),
            Outcome::Refused(_) => Err(self.ended(held)),
            Outcome::Unknown => panic!("should have been answered"),
        }
    }

    /// Checks what was seen of a lease whose term has not passed: that it is open.
    ///
    /// # Errors
    /// When it is not, and this machine stood still for so long that the lease ended rightly: the case has to begin again.
    ///
    /// # Panics
    /// When the lease ended early.
    pub fn lives(&self, held: &Held, open: bool) -> Result<(), Stalled> {
        if open { Ok(()) } else { Err(self.ended(held)) }
    }

    fn ended(&self, held: &Held) -> Stalled {
        assert!(self.real().is_some() && self.may_be_over(held), "ended early: {held:?}");
        Stalled
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

    /// Lets most of a usual term pass: all but a millisecond of a clock that is set, half of it where time is real.
    pub async fn almost(&self) {
        let most = match &self.time {
            Time::Hand(_) => TTL - Millis(1),
            Time::Real(real) => Millis(real.ttl.0 / 2),
        };
        self.pass(most).await;
    }

    /// Lets the rest of a lease's term pass, until it is over for all.
    pub async fn over(&self, held: &Held) {
        let is_over = async || !self.holds([Guard::Open(held.lease)]).await;
        self.over_by(held, async || self.act().await, is_over).await;
    }

    /// The same for what is seen to go with the lease.
    pub async fn gone(&self, held: &Held, is_gone: impl AsyncFn() -> bool) {
        self.over_by(held, async || self.act().await, is_gone).await;
    }

    /// The same with an act by which the engine notices that the lease is over.
    ///
    /// Where time is real this waits until the end is seen, however long that takes on this machine.
    ///
    /// # Panics
    /// When the end is seen early, or never.
    pub async fn over_by(&self, held: &Held, act: impl AsyncFn(), is_over: impl AsyncFn() -> bool) {
        if self.by_hand().is_some() {
            self.pass_by(held.since + held.ttl - self.now(), &act).await;
            assert!(is_over().await, "it is over with its term: {held:?}");
            return;
        }
        let begun = self.now();
        loop {
            act().await;
            if is_over().await {
                break;
            }
            assert!(self.now() - begun < held.ttl + PATIENCE, "never over: {held:?}");
            self.idle(LOOK).await;
        }
        assert!(self.may_be_over(held), "ended early: {held:?}");
    }

    /// Lets time pass in steps in which somebody acts, so that the engine does not count as having been away.
    pub async fn pass(&self, span: Millis) {
        self.pass_by(span, &async || self.act().await).await;
    }

    /// The same with an act of one's own.
    async fn pass_by(&self, span: Millis, act: &impl AsyncFn()) {
        let (mut left, step) = (span, Millis(400));
        while left > Millis::ZERO {
            self.idle(left.min(step)).await;
            left = left - step;
            act().await;
        }
    }

    async fn act(&self) {
        self.made([], []).await;
    }

    /// Lets time pass in which nothing acts.
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
