//! Retries of shards: those that failed together wait together, without slots, in their node's run state.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::RunStateWriter;
use super::withdraw::FITS_NO_MORE;
use crate::effect::VerdictState;
use crate::ids::Shard;
use crate::local::Given;
use crate::record::{OpenShards, RetryWait};
use crate::rules::firing::cancel::cancel_reason;
use crate::rules::firing::retry::{wait_after, wait_of};
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};

/// Into how many moments the ends of one wait are gathered: a run state with very many shards that fail one after the
/// other stays small.
const MOMENTS: i64 = 16;
/// No two of those moments are nearer than this.
const GRAIN: Millis = Millis::secs(1);

impl RunStateWriter<'_> {
    /// Keeps ended runs that are to be attempted again open.
    pub(super) fn retry(&mut self, over: &ShardSet) {
        let ctx = self.context();
        let runs = ctx.local.given_of(self.sharded.job.id).filter(|(shard, _)| over.contains(*shard));
        let again: Vec<(Shard, &Given, Millis)> =
            runs.filter_map(|(shard, given)| Some((shard, given, wait_after(given)?))).collect();
        for (shard, given, length) in again {
            let Some(open) =
                self.current.open_of(shard).filter(|open| open.attempt == given.attempt).cloned()
            else {
                continue;
            };
            let (shards, attempt) = (ShardSet::one(shard), open.attempt + 1);
            let wait = gathered(wait_of(ctx, length));
            let by_hand = cancel_reason(ctx.local, given);
            if let Some(why) = by_hand.or_else(|| self.no_retry_reason(&open, wait.until)) {
                self.give_up(&open, &shards, attempt, &why);
                continue;
            }
            // Only a time limit, which counts from the start, needs an entry for each start; otherwise they merge.
            let (from, began) = (wait.until, self.has_run_timeout().then(|| open.began()));
            self.draft.add_open(OpenShards { attempt, from, wait: Some(wait), began, shards, ..open });
        }
    }

    /// Whether its runs have a time limit for all their attempts.
    fn has_run_timeout(&self) -> bool {
        self.sharded.job.spec().is_some_and(|spec| spec.job.run_timeout.is_some())
    }

    /// Whether its runs are attempted again where they fail.
    pub(super) fn retries(&self) -> bool {
        self.sharded.job.spec().is_some_and(|spec| spec.job.retry.is_some())
    }

    /// Why no attempt follows at this moment, even if the history expects one.
    pub(super) fn no_retry_reason(&self, open: &OpenShards, at: Wall) -> Option<String> {
        match self.terms() {
            None => Some("its job was deleted".into()),
            Some((terms, _)) if !terms.enabled => Some("its job was disabled".into()),
            Some(_) if !self.sharded.job.fits(self.context().member) => Some(FITS_NO_MORE.into()),
            Some((terms, _)) => {
                let forgot = open.wait.and_then(|wait| self.context().forgot(terms.delivery, wait.since()));
                forgot.map(String::from).or_else(|| self.time_is_over(open.began(), at))
            }
        }
    }

    /// Why the time of a run that began then is over at this moment; with a wrong clock it is unknown.
    fn time_is_over(&self, began: Wall, at: Wall) -> Option<String> {
        self.sharded.job.spec()?.job.time_is_over(began, at).filter(|_| self.context().clock_agrees())
    }

    /// Why a run that is claimed anew, after doubt or manually, is not started.
    pub(super) fn no_start_reason(&self, open: &OpenShards) -> Option<String> {
        if !self.sharded.job.fits(self.context().member) {
            return Some(FITS_NO_MORE.into());
        }
        self.time_is_over(open.began.filter(|_| open.attempt > 1)?, self.context().now.wall)
    }

    /// The verdict that no attempt follows, where the history expects one.
    pub(super) fn give_up(&mut self, open: &OpenShards, shards: &ShardSet, attempt: u32, why: &str) {
        let reason = if attempt > 1 { format!("not attempted again: {why}") } else { String::from(why) };
        let told = (&open.fire, open.due, open.due);
        self.draft.verdicts.extend(self.verdict(told, shards, attempt, VerdictState::Skipped, reason));
    }
}

/// The same wait up to the next moment at which waits of its length end. Its length grows with it: a wait that ends
/// later than its length says is taken for one that a clock ahead of time began, and so for over.
fn gathered(wait: RetryWait) -> RetryWait {
    let grain = (wait.length.0 / MOMENTS).max(GRAIN.0);
    let until = Wall(wait.until.0.div_euclid(grain) * grain + grain);
    RetryWait { until, length: wait.length + Millis(grain) }
}
