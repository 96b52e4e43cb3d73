//! Runs that somebody ended by hand while they waited: they never start, and no other run is given up so.

use std::collections::BTreeSet;

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, RunId, Shard};
use evenkeel_core::rules::firing::MANUAL;

use super::tracks::FireClosure;
use super::{Invariant, InvariantChecker, InvariantResults, JobTrack};

/// What somebody wanted ended of a job, and of what he was told that it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelRequests {
    requested: BTreeSet<(Fire, Shard)>,
    reported: BTreeSet<(Fire, Shard)>,
}

impl InvariantChecker {
    /// Somebody wants a run ended, whatever it does.
    pub(crate) fn cancel_requested(&mut self, run: &RunId) {
        let book = self.jobs.entry(run.job.clone()).or_default();
        book.cancels.requested.insert((run.fire.clone(), run.shard));
    }

    /// He was told that it is, of one that did not run.
    pub(crate) fn cancel_reported(&mut self, run: &RunId) {
        let book = self.jobs.entry(run.job.clone()).or_default();
        book.cancels.reported.insert((run.fire.clone(), run.shard));
    }
}

/// Whether this is told of a run that was given up by hand.
pub(crate) fn is_manual(verdict: &Verdict) -> bool {
    verdict.state == VerdictState::Skipped && verdict.reason.ends_with(MANUAL)
}

impl JobTrack {
    /// A run starts of which nobody was told that it never will.
    pub(super) fn check_not_cancelled(&self, at: i64, run: &RunId, findings: &mut InvariantResults) {
        let told = self.cancels.reported.contains(&(run.fire.clone(), run.shard));
        findings.test(at, Invariant::I46, !told, || format!("{run} was told to be ended and starts"));
    }

    /// Notes what is given up by hand now, of a job with one shard.
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
            // No other declaration makes it up.
            if matches!(verdict.run.fire, Fire::Due(_)) {
                self.given_up.push((verdict.due, verdict.due));
            }
        }
    }

    /// Somebody asked for it.
    pub(super) fn check_requested(&self, at: i64, run: &RunId, findings: &mut InvariantResults) {
        let asked = self.cancels.requested.contains(&(run.fire.clone(), run.shard));
        findings.test(at, Invariant::I16, asked, || format!("{run} was ended by hand and nobody asked"));
    }
}
