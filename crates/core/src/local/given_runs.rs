//! The runs that this node gave to executors, and what it counts of them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::handoff::HandoffRun;
use crate::ids::{Fire, RunId, Shard};
use crate::input::RunOutcome;
use crate::job::Backoff;
use crate::time::Mono;
use crate::view::JobId;

/// A run that was given to an executor, kept until the view shows it closed (law 3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Given {
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: u32,
    /// Its outcome, once it has ended, and when.
    pub ended: Option<(RunOutcome, Mono)>,
    /// Whether its end was asked for.
    pub stopping: bool,
    /// Whether it belongs to a sharded job: those runs take their slots only when they start.
    pub sharded: bool,
    /// Whether and when another attempt follows it, as declared when it was given.
    pub retry: Option<Box<Backoff>>,
}

impl Given {
    /// Whether it executes.
    #[must_use]
    pub fn is_executing(&self) -> bool {
        self.ended.is_none()
    }

    /// How it is counted: whether it belongs to a sharded job, and whether it executes. A shard's run takes a slot that no
    /// claim has taken for it.
    fn counts(&self) -> (bool, bool) {
        (self.sharded, self.is_executing())
    }
}

impl HandoffRun {
    pub(crate) fn of(given: &Given) -> Self {
        let Given { run, attempt, ended, stopping, sharded, retry } = given.clone();
        Self { run, attempt, ended: ended.map(|(ended, at)| (ended, at.0)), stopping, sharded, retry }
    }

    pub(crate) fn into_given(self) -> Given {
        let Self { run, attempt, ended, stopping, sharded, retry } = self;
        Given { run, attempt, ended: ended.map(|(ended, at)| (ended, Mono(at))), stopping, sharded, retry }
    }
}

/// The number of runs of a sharded job that were given to executors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShardRunCounts {
    /// The executing ones.
    pub running: usize,
    /// The ended ones, which wait to be closed.
    pub ended: usize,
}

/// The runs that were given to executors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GivenRuns {
    /// In the order of their jobs, shards and fires.
    runs: BTreeMap<(JobId, Shard, Fire), Given>,
    /// How many each sharded job has; no entry where it has none.
    shard_counts: BTreeMap<JobId, ShardRunCounts>,
    /// How many are of sharded jobs and still execute.
    executing_shards: usize,
    /// How many others still execute.
    executing_others: usize,
}

impl GivenRuns {
    /// Adds a run that was given to an executor. It replaces an earlier attempt.
    pub(crate) fn give(&mut self, job: JobId, given: Given) {
        self.forget(job, &given.run);
        self.count(job, given.counts(), true);
        self.runs.insert(key(job, &given.run), given);
    }

    /// Notes that the end of a run was asked for.
    pub(crate) fn stop(&mut self, job: JobId, run: &RunId) {
        if let Some(given) = self.runs.get_mut(&key(job, run)) {
            given.stopping = true;
        }
    }

    /// Notes that a run has ended. Only the first report counts.
    pub(crate) fn end(&mut self, job: JobId, run: &RunId, ended: (RunOutcome, Mono)) {
        let Some(given) = self.runs.get_mut(&key(job, run)).filter(|given| given.is_executing()) else {
            return;
        };
        let before = given.counts();
        given.ended = Some(ended);
        let after = given.counts();
        self.count(job, before, false);
        self.count(job, after, true);
    }

    /// Removes a run.
    pub(crate) fn forget(&mut self, job: JobId, run: &RunId) {
        if let Some(old) = self.runs.remove(&key(job, run)) {
            self.count(job, old.counts(), false);
        }
    }

    /// Removes the runs that have ended.
    pub(crate) fn forget_ended(&mut self) {
        let ended = self.runs.iter().filter(|(_, given)| !given.is_executing());
        for (job, run) in ended.map(|((job, ..), given)| (*job, given.run.clone())).collect::<Vec<_>>() {
            self.forget(job, &run);
        }
    }

    /// The runs of a job, with their shards.
    pub fn of_job(&self, job: JobId) -> impl Iterator<Item = (Shard, &Given)> {
        let jobs = self.runs.range((job, Shard(0), Fire::FIRST)..);
        jobs.take_while(move |((id, ..), _)| *id == job).map(|((_, shard, _), given)| (*shard, given))
    }

    /// The run of a fire.
    #[must_use]
    pub fn get(&self, job: JobId, run: &RunId) -> Option<&Given> {
        self.runs.get(&key(job, run))
    }

    /// Whether a shard's run, of whichever fire, was given to an executor.
    pub(crate) fn has_shard(&self, job: JobId, shard: Shard) -> bool {
        let mut from = self.runs.range((job, shard, Fire::FIRST)..);
        from.next().is_some_and(|((id, of, _), _)| (*id, *of) == (job, shard))
    }

    /// All runs, with the numbers of their jobs.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Given)> {
        self.runs.iter().map(|((job, ..), given)| (*job, given))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The counts of a sharded job's runs.
    pub(crate) fn shard_counts(&self, job: JobId) -> ShardRunCounts {
        self.shard_counts.get(&job).copied().unwrap_or_default()
    }

    /// How many runs of sharded jobs execute.
    pub(crate) fn executing_shards(&self) -> usize {
        self.executing_shards
    }

    /// How many runs of other jobs execute.
    pub(crate) fn executing_others(&self) -> usize {
        self.executing_others
    }

    /// Updates the counts.
    fn count(&mut self, job: JobId, (sharded, executes): (bool, bool), more: bool) {
        let by = |n: &mut usize| *n = if more { *n + 1 } else { *n - 1 };
        if !sharded {
            if executes {
                by(&mut self.executing_others);
            }
            return;
        }
        let counts = self.shard_counts.entry(job).or_default();
        by(if executes { &mut counts.running } else { &mut counts.ended });
        if executes {
            by(&mut self.executing_shards);
        }
        if *counts == ShardRunCounts::default() {
            self.shard_counts.remove(&job);
        }
    }
}

/// The key under which a run is kept.
fn key(job: JobId, run: &RunId) -> (JobId, Shard, Fire) {
    (job, run.shard, run.fire.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Wall;

    #[test]
    fn runs_of_sharded_jobs_are_counted_by_what_they_do() {
        let mut runs = GivenRuns::default();
        let (job, other) = (JobId(1), JobId(2));
        let given = |shard: u32, sharded| Given {
            run: RunId { job: "j".parse().unwrap(), fire: Fire::Due(Wall(1)), shard: Shard(shard) },
            attempt: 1,
            ended: None,
            stopping: false,
            retry: None,
            sharded,
        };
        (0..3).for_each(|shard| runs.give(job, given(shard, true)));
        runs.give(other, given(0, false));
        assert_eq!(
            (runs.shard_counts(job), runs.executing_shards()),
            (ShardRunCounts { running: 3, ended: 0 }, 3)
        );
        assert_eq!(
            runs.shard_counts(other),
            ShardRunCounts::default(),
            "a claimed job's run takes no slot of its own"
        );
        // The same end reported twice counts once, and an attempt given anew replaces the one before.
        let run = |shard| given(shard, true).run;
        (0..2).for_each(|_| runs.end(job, &run(1), (RunOutcome::Succeeded, Mono(5))));
        runs.give(job, given(2, true));
        assert_eq!(
            (runs.shard_counts(job), runs.executing_shards()),
            (ShardRunCounts { running: 2, ended: 1 }, 2)
        );
        runs.forget_ended();
        runs.forget(job, &run(0));
        assert_eq!(
            (runs.shard_counts(job), runs.executing_shards()),
            (ShardRunCounts { running: 1, ended: 0 }, 1)
        );
        runs.forget(job, &run(2));
        assert!(runs.shard_counts.is_empty() && runs.executing_shards() == 0);
    }
}
