//! The verdicts that this node handed to the history, and whether the history has them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::effect::Verdict;
use crate::ids::{Fire, JobName, RunId, Shard};
use crate::time::Wall;

/// The verdicts handed to the history, until their run states no longer carry them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SentVerdicts {
    /// By run and attempt: whether the history has it.
    recorded: BTreeMap<(RunId, u32), bool>,
}

impl SentVerdicts {
    /// Notes that a verdict was handed to the history.
    pub(crate) fn send(&mut self, verdict: &Verdict) {
        self.recorded.insert((verdict.run.clone(), verdict.attempt), false);
    }

    /// Notes that the history has a verdict. Returns whether it was handed over and is still awaited.
    pub(crate) fn record(&mut self, run: RunId, attempt: u32) -> bool {
        let sent = self.recorded.get_mut(&(run, attempt));
        sent.is_some_and(|recorded| {
            *recorded = true;
            true
        })
    }

    /// Whether a verdict was handed to the history.
    pub(crate) fn is_sent(&self, verdict: &Verdict) -> bool {
        self.recorded.contains_key(&(verdict.run.clone(), verdict.attempt))
    }

    /// Whether the history has a verdict.
    pub(crate) fn is_recorded(&self, verdict: &Verdict) -> bool {
        self.recorded.get(&(verdict.run.clone(), verdict.attempt)) == Some(&true)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// Forgets the verdicts of a job except those that this keeps.
    pub(crate) fn keep_of_job(&mut self, job: &JobName, keeps: impl Fn(&RunId, u32) -> bool) {
        let first = RunId { job: job.clone(), fire: Fire::Due(Wall::MIN), shard: Shard(0) };
        let of_job = self.recorded.range((first, 0)..).take_while(|((run, _), _)| run.job == *job);
        let gone = of_job.map(|(key, _)| key).filter(|(run, attempt)| !keeps(run, *attempt));
        for key in gone.cloned().collect::<Vec<_>>() {
            self.recorded.remove(&key);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.recorded.clear();
    }
}
