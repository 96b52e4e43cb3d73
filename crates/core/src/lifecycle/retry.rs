//! Retries: between two attempts a run stays open, and waits without a slot.
//!
//! A waiting run is never in doubt: after a takeover the new owner goes on waiting, whatever the job's delivery says.
//! The next attempt is claimed like a fire, in a commit of its own, when its moment has come.

use alloc::string::String;

use super::JobRuns;
use crate::job::Job;
use crate::local::Given;
use crate::record::{Attempt, RetryWait};
use crate::rule_context::RuleContext;
use crate::time::{Millis, Wall};

/// Into how many moments the ends of one wait are gathered: a record with very many shards that fail one after the other
/// stays small.
const MOMENTS: i64 = 16;
/// No two of those moments are nearer than this.
const GRAIN: Millis = Millis::secs(1);

/// The wait for the next attempt of a run that has ended; `None` when none follows.
pub(super) fn wait_after(given: &Given) -> Option<Millis> {
    let (ended, _) = given.ended?;
    given.retry.as_ref()?.delay_after(&given.run, given.attempt, ended)
}

/// A wait of this length that begins now. With a wrong clock its end would be unknown, so it goes by the registry's.
pub(crate) fn wait_of(ctx: &RuleContext<'_>, length: Millis) -> RetryWait {
    RetryWait { until: ctx.moment() + length, length }
}

impl JobRuns<'_> {
    /// Of several shards, the same wait up to the next moment at which waits of its length end. Its length grows with it:
    /// a wait that ends later than its length says is taken for one that a clock ahead of time began, and so for over.
    pub(super) fn gathered(&self, attempt: &Attempt, wait: RetryWait) -> RetryWait {
        if attempt.total == 1 {
            return wait;
        }
        let grain = (wait.length.0 / MOMENTS).max(GRAIN.0);
        let until = Wall(wait.until.0.div_euclid(grain) * grain + grain);
        RetryWait { until, length: wait.length + Millis(grain) }
    }

    /// Why no attempt follows at this moment, even if the history expects one.
    pub(crate) fn no_retry_reason(&self, attempt: &Attempt, at: Wall) -> Option<String> {
        let Some(terms) = self.terms else { return Some("its job was deleted".into()) };
        if !terms.enabled {
            return Some("its job was disabled".into());
        }
        let forgot = attempt.wait.and_then(|wait| self.ctx.forgot(terms.delivery, wait.since()));
        forgot.map(String::from).or_else(|| self.time_is_over(&self.job.spec()?.job, attempt, at))
    }

    /// Why the time of a run is over at this moment, after the attempts before. With a wrong clock it is unknown.
    pub(crate) fn time_is_over(&self, job: &Job, attempt: &Attempt, at: Wall) -> Option<String> {
        job.time_is_over(attempt.began()?, at).filter(|_| self.ctx.clock_agrees())
    }

    /// Why a claimed attempt is not made after all: the ones before took all the time of the run.
    pub(crate) fn no_start_reason(&self, job: &Job, attempt: &Attempt) -> Option<String> {
        self.time_is_over(job, attempt, self.ctx.now.wall).filter(|_| attempt.attempt > 1)
    }
}
