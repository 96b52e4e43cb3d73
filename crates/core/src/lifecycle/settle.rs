//! Settling: what becomes of an attempt whose outcome is unknown, because its node is gone or lost trust.

use alloc::format;

use super::JobRuns;
use super::verdicts::REPEATED;
use crate::effect::Verdict;
use crate::job::{Delivery, Job};
use crate::record::{Attempt, Outcomes};

impl JobRuns<'_> {
    /// The attempt that goes on after a settlement, as this node claims it: one that waits goes on waiting.
    pub(crate) fn taken_over(&self, again: Attempt, seq: u64) -> Attempt {
        let by = self.ctx.member.clone();
        match again.wait {
            Some(_) => Attempt { by, ..again },
            None => Attempt { by, from: Some(self.ctx.now.wall.max(again.due)), seq, ..again },
        }
    }

    /// Whether a run whose outcome is unknown is attempted again.
    pub(crate) fn repeats(&self) -> bool {
        let repeats = |job: &Job| job.enabled && job.delivery == Delivery::AtLeastOnce;
        self.job.spec().is_some_and(|spec| repeats(&spec.job))
    }

    /// Settles an attempt by the job's delivery: it is lost, or attempted again. Returns the attempt that goes on: the
    /// same one where it only waited, or the next one. The placement claims it, or places it.
    pub(crate) fn settle(&self, attempt: &Attempt, why: &str, outcomes: Outcomes<'_>) -> Option<Attempt> {
        if attempt.wait.is_some() {
            // Nothing was executing, so nothing is in doubt.
            return Some(attempt.clone());
        }
        // The terms are known of the jobs that this node has; the declaration, of every job.
        let spec = self.job.spec();
        let lost = match spec.as_ref().map(|spec| &spec.job) {
            None => "it is not repeated: its job was deleted",
            Some(job) if job.delivery == Delivery::AtMostOnce => {
                "it is not repeated: delivery is at_most_once"
            }
            Some(job) if !job.enabled => "it is not repeated: its job is disabled",
            Some(_) => {
                outcomes.verdicts.push(self.lost(attempt, &format!("{why}; {REPEATED}")));
                return Some(attempt.clone().next());
            }
        };
        self.lose(attempt, &format!("{why}; {lost}"), outcomes);
        None
    }

    /// Closes an attempt that goes on nowhere, with verdicts for the history.
    pub(crate) fn lose(&self, attempt: &Attempt, why: &str, mut outcomes: Outcomes<'_>) {
        let node = || attempt.by.node.as_str().into();
        if attempt.wait.is_some() {
            let verdict = self.not_attempted(attempt, attempt.attempt, why);
            return outcomes.verdicts.push(Verdict { node: node(), ..verdict });
        }
        outcomes.verdicts.push(self.lost(attempt, why));
        if self.job.spec().is_some_and(|spec| spec.job.retry.is_some()) {
            // It may have failed, and the history may expect another attempt.
            let verdict = self.not_attempted(attempt, attempt.attempt + 1, "the attempt before is lost");
            outcomes.verdicts.push(Verdict { node: node(), ..verdict });
        }
        self.count_failure(&mut outcomes);
    }
}
