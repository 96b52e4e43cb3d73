//! Leases whose terms a test waits for, on a machine that may stand still for longer than such a term.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::registry::{LeaseGrant, LeaseId, Revision, Txn, TxnOutcome};
use evenkeel_core::time::Millis;
use evenkeel_registry::Registry;
use evenkeel_registry::clock::Stopwatch;
use evenkeel_registry::conformance::MachineStall;

type TermRegistry = Arc<dyn Registry>;

/// Plays a case with a short term, and again with one that is twice as long each time this machine stood still for so long that a
/// lease ended rightly meanwhile.
///
/// # Panics
/// When it stood still for longer than each of them.
pub(crate) async fn with_a_term(shortest: Millis, case: impl AsyncFn(Millis) -> Result<(), MachineStall>) {
    for nth in 0..5 {
        if case(Millis(shortest.0 << nth)).await.is_ok() {
            return;
        }
    }
    panic!("this machine stood still for longer than 16 times {shortest}");
}

/// A lease, and since when its term counts.
pub(crate) struct LeaseTerm {
    pub(crate) lease: LeaseId,
    /// How long it lives at least, counted from before its last renewal was asked for.
    pub(crate) least: Duration,
    since: Stopwatch,
}

impl LeaseTerm {
    pub(crate) async fn open(registry: &TermRegistry, ttl: Millis) -> Self {
        let since = Stopwatch::start();
        let granted = registry.open(ttl).await.unwrap();
        let least = granted.ttl - registry.facts().early - Millis(granted.ttl.0 / 100);
        Self { lease: granted.lease, least: Duration::from_millis(least.0.unsigned_abs()), since }
    }

    /// How long ago its last renewal was asked for.
    pub(crate) fn passed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether enough time has passed that it may rightly have ended.
    pub(crate) fn may_be_over(&self) -> bool {
        self.passed() >= self.least
    }

    /// Checks what was seen of it before its term has passed: that it is open.
    ///
    /// # Panics
    /// When it ended early.
    pub(crate) fn lives(&self, open: bool) -> Result<(), MachineStall> {
        if open { Ok(()) } else { Err(self.ended()) }
    }

    /// It was seen to be over, which is right only where this machine stood still for its term.
    ///
    /// # Panics
    /// When it ended early.
    pub(crate) fn ended(&self) -> MachineStall {
        assert!(self.may_be_over(), "{} ended early, after {:?}", self.lease, self.passed());
        MachineStall
    }

    /// Renews it, which must be possible.
    pub(crate) async fn renew(&mut self, registry: &TermRegistry) -> Result<LeaseGrant, MachineStall> {
        let since = Stopwatch::start();
        let Some(renewed) = registry.renew(self.lease).await.unwrap() else { return Err(self.ended()) };
        self.since = since;
        Ok(renewed)
    }

    /// It was renewed, which was asked for then.
    pub(crate) fn renewed(&mut self, asked: Stopwatch) {
        self.since = asked;
    }

    /// Sends a transaction that the lease must be open for.
    pub(crate) async fn made(&self, registry: &TermRegistry, txn: Txn) -> Result<Revision, MachineStall> {
        match registry.commit(vec![txn]).await.remove(0) {
            TxnOutcome::Applied(revision) => Ok(revision),
            TxnOutcome::Refused(_) => Err(self.ended()),
            TxnOutcome::Unknown => panic!("should have been answered: {:?}", registry.last_error()),
        }
    }
}
