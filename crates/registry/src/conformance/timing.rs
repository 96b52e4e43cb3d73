//! The time of a case: moved by the test if the engine takes its clock, real if the engine has its own.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::registry::{ChangeBatch, Guard, LeaseId, Revision, TxnOutcome, Write};
use evenkeel_core::time::{Millis, Mono};

use super::{Stage, TTL, txn};
use crate::clock::{Clock, HostClock, ManualClock};

/// The source of an engine's time.
#[derive(Clone, Copy, Debug)]
pub enum TimeSource {
    /// The suite's [`ManualClock`]: bounds are met to the millisecond.
    Manual,
    /// Real time, for an engine that is a server.
    Server(ServerTiming),
}

/// The facts of a server that the suite needs.
#[derive(Clone, Copy, Debug)]
pub struct ServerTiming {
    /// A short term, which a case can wait for; the engine grants exactly this.
    pub ttl: Millis,
    /// How long after its term a lease is over at the latest, with the entries that it owns.
    pub late: Millis,
    /// Whether other clients share the order: then it advances without the case.
    pub shared: bool,
    /// After how many changes a sleeping listener is too far behind; `None` if the suite should not test it.
    pub remembers: Option<u32>,
}

impl ServerTiming {
    /// The same with the term for the `nth` attempt, counted from 0: each time twice as long.
    pub(super) fn for_attempt(self, nth: u32) -> Self {
        Self { ttl: Millis(self.ttl.0 << nth), ..self }
    }
}

/// How often a case starts on a machine that stalls for longer than a lease's term. The last term is 16 times the first
/// one.
pub(super) const ATTEMPTS: u32 = 5;

/// How long after its term to wait for a lease to end. No guarantee: the limit of a wait that hangs.
const PATIENCE: Millis = Millis::secs(120);

/// The pause between two checks whether a lease is over.
const LOOK: Millis = Millis(50);

/// The error of a machine that stalled for longer than a lease's term: the case proved nothing and has to start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineStall;

/// The result of a case.
pub trait CaseResult {
    /// Whether the case has to begin again.
    fn is_stalled(&self) -> bool;
}

impl CaseResult for () {
    fn is_stalled(&self) -> bool {
        false
    }
}

impl CaseResult for Result<(), MachineStall> {
    fn is_stalled(&self) -> bool {
        self.is_err()
    }
}

/// The time of a stage.
#[derive(Clone)]
pub(super) enum StageTime {
    Manual(Arc<ManualClock>),
    Server(ServerTiming),
}

/// A lease whose end a case waits for.
#[derive(Clone, Copy, Debug)]
pub struct TimedLease {
    /// Its number.
    pub lease: LeaseId,
    /// The term that it was granted.
    pub ttl: Millis,
    since: Mono,
}

impl Stage {
    /// The manual clock of a stage, if it has one.
    #[must_use]
    pub fn manual_clock(&self) -> Option<&ManualClock> {
        match &self.time {
            StageTime::Manual(clock) => Some(clock),
            StageTime::Server(_) => None,
        }
    }

    pub(super) fn server_timing(&self) -> Option<ServerTiming> {
        match self.time {
            StageTime::Manual(_) => None,
            StageTime::Server(real) => Some(real),
        }
    }

    /// A usual term, as short as a case can wait for.
    #[must_use]
    pub fn ttl(&self) -> Millis {
        self.server_timing().map_or(TTL, |real| real.ttl)
    }

    /// A term that no case outlives, if time is real; otherwise a usual one.
    #[must_use]
    pub fn long_ttl(&self) -> Millis {
        self.server_timing().map_or(TTL, |_| Millis::secs(600))
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Mono {
        match &self.time {
            StageTime::Manual(clock) => clock.now().mono,
            StageTime::Server(_) => HostClock.now().mono,
        }
    }

    /// Opens a lease of a usual term, whose end is awaited.
    pub async fn short_lease(&self) -> TimedLease {
        let since = self.now();
        let granted = self.open(self.ttl()).await;
        TimedLease { lease: granted.lease, ttl: granted.ttl, since }
    }

    /// Renews a lease, which must still be possible.
    ///
    /// # Errors
    /// When the case has to begin again.
    pub async fn renew_timed(&self, held: &mut TimedLease) -> Result<(), MachineStall> {
        let since = self.now();
        let renewed = self.renew(held.lease).await.is_some();
        self.expect_open(held, renewed)?;
        held.since = since;
        Ok(())
    }

    /// Commits a transaction whose entries are owned by a lease that must be open.
    ///
    /// # Errors
    /// When the case has to begin again.
    pub async fn commit_applied_by(
        &self,
        held: &TimedLease,
        guards: impl Into<Vec<Guard>>,
        writes: impl Into<Vec<Write>>,
    ) -> Result<Revision, MachineStall> {
        match self.commit(txn(guards, writes)).await {
            TxnOutcome::Applied(revision) => Ok(revision),
            TxnOutcome::Refused(_) => Err(self.stall(held)),
            TxnOutcome::Unknown => panic!("should have been answered"),
        }
    }

    /// Checks that a lease whose term has not passed is open.
    ///
    /// # Errors
    /// When it is not, and this machine stalled for so long that the lease ended rightly: the case has to start again.
    ///
    /// # Panics
    /// When the lease ended early.
    pub fn expect_open(&self, held: &TimedLease, open: bool) -> Result<(), MachineStall> {
        if open { Ok(()) } else { Err(self.stall(held)) }
    }

    fn stall(&self, held: &TimedLease) -> MachineStall {
        assert!(self.server_timing().is_some() && self.may_be_over(held), "ended early: {held:?}");
        MachineStall
    }

    /// Whether enough time has passed since the request that the lease may rightly have ended.
    ///
    /// The suite's clock and the engine's may differ in rate by 1 %.
    #[must_use]
    pub fn may_be_over(&self, held: &TimedLease) -> bool {
        let early = match &self.time {
            StageTime::Manual(_) => Millis::ZERO,
            StageTime::Server(_) => self.registry.facts().early + Millis(held.ttl.0 / 100),
        };
        self.now() - held.since >= held.ttl - early
    }

    /// Lets most of a usual term pass: all but a millisecond of a manual clock, half of it if time is real.
    pub async fn pass_most_of_ttl(&self) {
        let most = match &self.time {
            StageTime::Manual(_) => TTL - Millis(1),
            StageTime::Server(real) => Millis(real.ttl.0 / 2),
        };
        self.pass(most).await;
    }

    /// Lets the rest of a lease's term pass, until it is over for all.
    pub async fn wait_expired(&self, held: &TimedLease) {
        let is_over = async || !self.holds([Guard::Open(held.lease)]).await;
        self.wait_expired_by(held, async || self.act().await, is_over).await;
    }

    /// Waits likewise for the removal of what the lease owns.
    pub async fn wait_removed(&self, held: &TimedLease, is_gone: impl AsyncFn() -> bool) {
        self.wait_expired_by(held, async || self.act().await, is_gone).await;
    }

    /// Waits likewise, with an act by which the engine notices that the lease is over.
    ///
    /// If time is real this waits until the end is seen, however long that takes on this machine.
    ///
    /// # Panics
    /// When the end is seen early, or never.
    pub async fn wait_expired_by(
        &self,
        held: &TimedLease,
        act: impl AsyncFn(),
        is_over: impl AsyncFn() -> bool,
    ) {
        if self.manual_clock().is_some() {
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

    /// Lets time pass in steps with acts in between, so that the engine does not count as having been away.
    pub async fn pass(&self, span: Millis) {
        self.pass_by(span, &async || self.act().await).await;
    }

    /// Lets time pass likewise, with this act.
    async fn pass_by(&self, span: Millis, act: &impl AsyncFn()) {
        let (mut left, step) = (span, Millis(400));
        while left > Millis::ZERO {
            self.idle(left.min(step)).await;
            left = left - step;
            act().await;
        }
    }

    async fn act(&self) {
        self.commit_applied([], []).await;
    }

    /// Lets time pass without any act.
    pub async fn idle(&self, span: Millis) {
        match &self.time {
            StageTime::Manual(clock) => clock.advance(span),
            StageTime::Server(_) => {
                tokio::time::sleep(Duration::from_millis(span.0.max(0).unsigned_abs())).await;
            }
        }
    }

    /// Whether other clients advance the order too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.server_timing().is_some_and(|real| real.shared)
    }

    /// Checks that the case did not advance the order.
    pub fn assert_same_order(&self, before: Revision, now: Revision) {
        match self.is_shared() {
            true => assert!(now >= before, "{now} is before {before}"),
            false => assert_eq!(now, before, "the order moved"),
        }
    }

    /// Checks that a list is unchanged.
    pub fn assert_same_listing(&self, before: &ChangeBatch, now: &ChangeBatch) {
        let entries = |batch: &ChangeBatch| {
            batch.changes.iter().map(|it| (it.key.clone(), it.entry.clone())).collect::<Vec<_>>()
        };
        assert_eq!(entries(now), entries(before));
        self.assert_same_order(before.revision, now.revision);
    }

    /// Numbers of leases that were never granted.
    #[must_use]
    pub fn unknown_leases(&self, granted: LeaseId) -> [LeaseId; 3] {
        // If other clients open leases too, the next number may be theirs.
        let near = if self.is_shared() { granted.0 ^ (1 << 40) } else { granted.0 + 1 };
        [0, near, u64::MAX].map(LeaseId)
    }
}
