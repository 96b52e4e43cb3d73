//! Checks waiting runs that were cancelled: they never start, and no other run is given up in that way.

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, RunId};
use evenkeel_core::lifecycle::MANUAL;

use super::tracks::FireClosure;
use super::{Invariant, InvariantChecker, InvariantResults, JobTrack};

impl InvariantChecker {
    /// Records a request to kill a run, whatever its state.
    pub(crate) fn cancel_requested(&mut self, run: &RunId) {
        let book = self.jobs.entry(run.job.clone()).or_default();
        book.cancels.requested.insert((run.fire.clone(), run.shard));
    }

    /// Records that a run that did not run was reported as cancelled.
    pub(crate) fn cancel_reported(&mut self, run: &RunId) {
        let book = self.jobs.entry(run.job.clone()).or_default();
        book.cancels.reported.insert((run.fire.clone(), run.shard));
    }
}

/// Whether this verdict is about a manually cancelled run.
pub(crate) fn is_manual(verdict: &Verdict) -> bool {
    verdict.state == VerdictState::Skipped && verdict.reason.ends_with(MANUAL)
}

impl JobTrack {
    /// Checks that a run that starts was not reported as cancelled.
    pub(super) fn check_not_cancelled(&self, at: i64, run: &RunId, findings: &mut InvariantResults) {
        let told = self.cancels.reported.contains(&(run.fire.clone(), run.shard));
        findings.test(at, Invariant::I46, !told, || format!("{run} was reported as cancelled and starts"));
    }

    /// Records the runs that are cancelled now, of a job with one shard.
    pub(super) fn note_cancelled<'a>(
        &mut self,
        at: i64,
        told: impl Iterator<Item = &'a Verdict>,
        findings: &mut InvariantResults,
    ) {
        for verdict in told.filter(|verdict| is_manual(verdict)) {
            self.check_requested(at, &verdict.run, findings);
            self.fires
                .entry(verdict.run.fire.clone())
                .or_default()
                .closed
                .get_or_insert(FireClosure::Dropped);
            // No other declaration catches it up.
            if matches!(verdict.run.fire, Fire::Due(_)) {
                self.given_up.push((verdict.due, verdict.due));
            }
        }
    }

    /// Checks that the cancellation was requested.
    pub(super) fn check_requested(&self, at: i64, run: &RunId, findings: &mut InvariantResults) {
        let asked = self.cancels.requested.contains(&(run.fire.clone(), run.shard));
        findings.test(at, Invariant::I16, asked, || format!("{run} was cancelled without a request"));
    }
}
