//! Checks retries: whether one may follow, when it may start, and that no run waits for one for ever.

use evenkeel_core::effect::{StopReason, Verdict, VerdictState};
use evenkeel_core::ids::RunId;
use evenkeel_core::input::RunOutcome;
use evenkeel_core::job::Retry;
use evenkeel_core::record::RetryWait;
use evenkeel_core::time::Millis;

use super::runs::UNNOTICED;
use super::tracks::FireTrack;
use super::{Invariant, InvariantResults, JobTrack};

/// The shortest wait that jitter makes in these worlds, in milliseconds.
const SHORTEST: i64 = 4_000;

/// An attempt that failed, or the waiting retry of it, in one accepted write.
pub(super) struct RetryWrite<'a> {
    pub(super) at: i64,
    pub(super) run: &'a RunId,
    pub(super) attempt: u32,
    pub(super) fire: Option<&'a FireTrack>,
    /// The retry policy of the job.
    pub(super) retry: Option<&'a Retry>,
}

impl JobTrack {
    /// How long the retries of a run, and the waits before them, may take, if each attempt takes this
    /// long.
    pub(crate) fn retrying(&self, longest: i64) -> i64 {
        let times = self.retry.as_ref().map_or(0, |retry| i64::from(retry.max_retries));
        times * (2 * SHORTEST + 2_000 + longest)
    }
}

impl FireTrack {
    /// Whether an attempt ended in a way that allows a retry.
    pub(crate) fn failed(&self, attempt: u32, retry: Option<&Retry>) -> bool {
        let ended = self.attempts.get(&attempt).and_then(|attempt| attempt.ended);
        retry.is_some_and(|retry| match ended {
            Some(RunOutcome::Failed(_)) => attempt <= retry.max_retries,
            Some(RunOutcome::Stopped(StopReason::TimedOut)) => {
                attempt <= retry.max_retries && retry.exit_codes.is_empty()
            }
            _ => false,
        })
    }

    /// How many attempts started that followed no failure: each of them had an uncertain predecessor.
    pub(crate) fn doubtful_starts(&self, retry: Option<&Retry>) -> usize {
        let started = self.attempts.iter().filter(|(_, attempt)| attempt.started.is_some());
        started.filter(|(number, _)| !self.failed(**number - 1, retry)).count()
    }
}

impl RetryWrite<'_> {
    /// Checks that the run waits for a retry.
    pub(super) fn waits(&self, by_its_node: bool, findings: &mut InvariantResults) {
        let failed = self.fire.is_some_and(|fire| fire.failed(self.attempt, self.retry));
        findings.test(self.at, Invariant::I20, failed && by_its_node, || {
            format!("{} waits for an attempt after number {}: {:?}", self.run, self.attempt, self.fire)
        });
    }

    /// Checks the claim of a waiting retry: not before its wait is over.
    pub(super) fn begins(&self, wait: RetryWait, findings: &mut InvariantResults) {
        // A run that was only set aside has no wait.
        if wait.length == Millis::ZERO {
            return;
        }
        let before = self.fire.and_then(|fire| fire.attempts.get(&(self.attempt - 1)));
        let over = before.and_then(|attempt| attempt.over);
        let early = over.is_none_or(|over| self.at < over + SHORTEST - 2 * UNNOTICED);
        findings.test(self.at, Invariant::I17, !early, || {
            format!("attempt {} of {} began early: it waited {wait:?} from {over:?}", self.attempt, self.run)
        });
    }

    /// Checks a failed and closed run without a retry: there was none left, or history has the reason.
    pub(super) fn ends<'a>(
        &self,
        mut told: impl Iterator<Item = &'a Verdict>,
        findings: &mut InvariantResults,
    ) {
        let given_up = |v: &Verdict| v.state == VerdictState::Skipped && v.attempt == self.attempt + 1;
        let failed = self.fire.is_some_and(|fire| fire.failed(self.attempt, self.retry));
        findings.test(self.at, Invariant::I16, !failed || told.any(given_up), || {
            format!("attempt {} of {} failed, and no other one follows it", self.attempt, self.run)
        });
    }

    /// Checks a waiting retry that will not be made: history has the reason.
    pub(super) fn dropped<'a>(
        &self,
        mut told: impl Iterator<Item = &'a Verdict>,
        findings: &mut InvariantResults,
    ) {
        let given_up = |v: &Verdict| v.state == VerdictState::Skipped && v.attempt == self.attempt;
        findings.test(self.at, Invariant::I16, told.any(given_up), || {
            format!("attempt {} of {} was waited for and dropped without a word", self.attempt, self.run)
        });
    }
}
