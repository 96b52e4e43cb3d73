//! Finishing: what follows the end of an attempt that this node ran.

use super::JobRuns;
use super::retry::{wait_after, wait_of};
use crate::effect::StopReason;
use crate::input::RunOutcome;
use crate::local::Given;
use crate::record::{Attempt, Outcomes};

/// What follows the end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was ended because trust ran out, so its outcome is in doubt, as if the node had died.
    InDoubt,
    /// The run is over, and the executor has its outcome.
    Over,
    /// This attempt follows, after a wait.
    Retry(Attempt),
}

impl JobRuns<'_> {
    /// What follows the end of an attempt; `None` while it has not ended.
    pub(crate) fn ending(
        &self,
        attempt: &Attempt,
        given: &Given,
        mut outcomes: Outcomes<'_>,
    ) -> Option<Ending> {
        let (outcome, _) = given.ended?;
        if outcome == RunOutcome::Stopped(StopReason::Fenced) {
            return Some(Ending::InDoubt);
        }
        let Some(length) = wait_after(given) else {
            self.count_outcome(outcome, &mut outcomes);
            return Some(Ending::Over);
        };
        let wait = self.gathered(attempt, wait_of(self.ctx, length));
        let cancelled = super::cancel::cancel_reason(self.ctx.local, given);
        Some(match cancelled.or_else(|| self.no_retry_reason(attempt, wait.until)) {
            Some(why) => {
                // The history expects another attempt.
                outcomes.verdicts.push(self.not_attempted(attempt, attempt.attempt + 1, &why));
                self.count_outcome(outcome, &mut outcomes);
                Ending::Over
            }
            None => {
                let next = Attempt { seq: attempt.seq, wait: Some(wait), ..attempt.clone().next() };
                Ending::Retry(Attempt { began: next.began.filter(|_| self.keeps_began(attempt)), ..next })
            }
        })
    }

    /// Whether the next attempt has to know when the first one began. Of several shards only a time limit, which counts
    /// from there, needs an entry for each start; otherwise those that wait together merge.
    fn keeps_began(&self, attempt: &Attempt) -> bool {
        attempt.total == 1 || self.job.spec().is_some_and(|spec| spec.job.run_timeout.is_some())
    }
}
