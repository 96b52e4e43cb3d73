//! Settling: what becomes of an attempt whose outcome is unknown, because its node is gone or lost trust.

use alloc::format;
use alloc::vec::Vec;

use super::JobRuns;
use crate::effect::Verdict;
use crate::job::Delivery;
use crate::record::Attempt;

/// What becomes of an attempt whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// What the history is told.
    pub(crate) verdicts: Vec<Verdict>,
    /// The attempt that goes on: the same one where it only waited, or the next one. The placement claims it, or places
    /// it.
    pub(crate) again: Option<Attempt>,
}

impl JobRuns<'_> {
    /// The attempt that goes on after a settlement, as this node claims it: one that waits goes on waiting.
    pub(crate) fn taken_over(&self, again: Attempt, seq: u64) -> Attempt {
        let by = self.ctx.member.clone();
        match again.wait {
            Some(_) => Attempt { by, ..again },
            None => Attempt { by, from: Some(self.ctx.now.wall.max(again.due)), seq, ..again },
        }
    }

    /// Settles an attempt by the job's delivery: it is lost, or attempted again.
    pub(crate) fn settle(&self, attempt: &Attempt, why: &str) -> Settlement {
        if attempt.wait.is_some() {
            // Nothing was executing, so nothing is in doubt.
            return Settlement { verdicts: Vec::new(), again: Some(attempt.clone()) };
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
                let verdicts = Vec::from([self.lost(attempt, &format!("{why}; another attempt follows"))]);
                return Settlement { verdicts, again: Some(attempt.clone().next()) };
            }
        };
        Settlement { verdicts: self.lose(attempt, &format!("{why}; {lost}")), again: None }
    }

    /// What the history is told of an attempt that goes on nowhere.
    pub(crate) fn lose(&self, attempt: &Attempt, why: &str) -> Vec<Verdict> {
        let node = || attempt.by.node.as_str().into();
        if attempt.wait.is_some() {
            let told = self.not_attempted(attempt, attempt.attempt, why);
            return Vec::from([Verdict { node: node(), ..told }]);
        }
        let mut verdicts = Vec::from([self.lost(attempt, why)]);
        if self.job.spec().is_some_and(|spec| spec.job.retry.is_some()) {
            // It may have failed, and the history may expect another attempt.
            let told = self.not_attempted(attempt, attempt.attempt + 1, "the attempt before is lost");
            verdicts.push(Verdict { node: node(), ..told });
        }
        verdicts
    }
}
