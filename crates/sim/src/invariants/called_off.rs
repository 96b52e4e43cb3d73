//! Runs that somebody ended by hand while they waited: they never start, and no other run is given up so.

use std::collections::BTreeSet;

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::rules::firing::BY_HAND;
use evenkeel_core::words::{Fire, RunId, Shard};

use super::book::Closed;
use super::{Findings, Invariant, JobBook, Watch};

/// What somebody wanted ended of a job, and of what he was told that it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByHand {
    asked: BTreeSet<(Fire, Shard)>,
    told: BTreeSet<(Fire, Shard)>,
}

impl Watch {
    /// Somebody wants a run ended, whatever it does.
    pub(crate) fn asked_to_end(&mut self, run: &RunId) {
        let book = self.jobs.entry(run.job.clone()).or_default();
        book.by_hand.asked.insert((run.fire.clone(), run.shard));
    }

    /// He was told that it is, of one that did not run.
    pub(crate) fn told_ended(&mut self, run: &RunId) {
        let book = self.jobs.entry(run.job.clone()).or_default();
        book.by_hand.told.insert((run.fire.clone(), run.shard));
    }
}

/// Whether this is told of a run that was given up by hand.
pub(crate) fn is_by_hand(verdict: &Verdict) -> bool {
    verdict.state == VerdictState::Skipped && verdict.reason.ends_with(BY_HAND)
}

impl JobBook {
    /// A run starts of which nobody was told that it never will.
    pub(super) fn starts_unended(&self, at: i64, run: &RunId, findings: &mut Findings) {
        let told = self.by_hand.told.contains(&(run.fire.clone(), run.shard));
        findings.test(at, Invariant::I46, !told, || format!("{run} was told to be ended and starts"));
    }

    /// Notes what is given up by hand now, of a job with one shard.
    pub(super) fn note_called_off<'a>(
        &mut self,
        at: i64,
        told: impl Iterator<Item = &'a Verdict>,
        findings: &mut Findings,
    ) {
        for verdict in told.filter(|verdict| is_by_hand(verdict)) {
            self.wanted(at, &verdict.run, findings);
            self.fires.entry(verdict.run.fire.clone()).or_default().closed.get_or_insert(Closed::Dropped);
            // No other declaration makes it up.
            if matches!(verdict.run.fire, Fire::Due(_)) {
                self.given_up.push((verdict.due, verdict.due));
            }
        }
    }

    /// Somebody asked for it.
    pub(super) fn wanted(&self, at: i64, run: &RunId, findings: &mut Findings) {
        let asked = self.by_hand.asked.contains(&(run.fire.clone(), run.shard));
        findings.test(at, Invariant::I16, asked, || format!("{run} was ended by hand and nobody asked"));
    }
}
