//! Withdraws runs of a sharded job that a node should not start, or skips them where no other node can run them.

use alloc::string::String;

use super::RunStateWriter;
use crate::commit_kind::CommitKind;
use crate::ids::Fire;
use crate::lifecycle::MANUAL;
use crate::placement::sharding::MOVED;
use crate::record::Attempt;
use crate::shards::ShardSet;
use crate::time::Wall;

/// Why a node gives up its next run: a shard's runs stay in its node's run state, so no other node could take them.
const FITS_NO_MORE: &str = "its node fits the job no more";

impl RunStateWriter<'_> {
    /// Withdraws runs that were claimed ahead and not started, where they should not start any more.
    pub(super) fn withdraw(&mut self) {
        let given: ShardSet =
            self.context().local.runs.of_job(self.sharded.job.id).map(|(shard, _)| shard).collect();
        self.cancel(&given);
        for open in self.draft.open.clone() {
            let idle = open.shards.minus(&given);
            if open.wait.is_some()
                && let Some(why) = self.no_retry_reason(&open)
            {
                self.give_up(&open, &open.shards, &why);
                self.draft.close(&open.shards);
                self.set_kind(CommitKind::GiveUp);
                continue;
            }
            let off = self.terms().map_or(ShardSet::empty(), |(_, shards)| shards.off.and(&idle));
            let first = open.attempt == 1 && matches!(open.fire, Fire::Due(_));
            if self.terms().is_none() && open.attempt > 1 && !idle.is_empty() {
                self.give_up(&open, &idle, "its job was deleted");
            }
            if self.terms().is_none() {
                // The declaration went between claim and start; nothing is left to run.
                self.take_back(&idle, None);
            } else if first && (self.is_stale(&open) || !self.takes_part) {
                self.report_removed(&open, &idle);
                self.take_back(&idle, Some(open.back));
            } else if first {
                self.take_back(&off, None);
            } else if !idle.is_empty()
                && let Some(why) = self.no_start_reason(&open)
            {
                self.give_up(&open, &idle, &why);
                self.take_back(&idle, None);
            }
        }
    }

    /// Drops the runs of cancelled shards that have not started.
    fn cancel(&mut self, given: &ShardSet) {
        let local = &self.context().local;
        if !local.commands.has_cancelled() {
            return;
        }
        for open in self.draft.open.clone() {
            let idle = if open.wait.is_some() { open.shards.clone() } else { open.shards.minus(given) };
            let run = |shard| self.runs.run_id(&open.fire, shard);
            let called: ShardSet =
                idle.iter().filter(|shard| local.commands.is_cancelled(&run(*shard))).collect();
            if !called.is_empty() {
                self.give_up(&open, &called, MANUAL);
                self.draft.close(&called);
                self.set_kind(CommitKind::GiveUp);
            }
        }
    }

    /// Drops the open fires of removed shards, which a reshard did not wait for: they have no watermark that could go
    /// back, and no member answers for them again.
    fn take_back(&mut self, shards: &ShardSet, back: Option<Wall>) {
        if !shards.is_empty() {
            self.draft.close(shards);
            let held = shards.and(&self.draft.shards());
            back.into_iter().for_each(|back| self.draft.set_watermark(&held, back));
            self.set_kind(CommitKind::Withdraw);
        }
    }

    /// Closes the open fires of removed numbers of a broadcast job: each was a node's part in the fire, and no other
    /// node begins it. The reshard that removed it recorded its missed fires, and took this fire for a running one.
    fn report_removed(&mut self, open: &Attempt, shards: &ShardSet) {
        let broadcast = self.sharded.is_broadcast();
        if broadcast && !self.is_stale(open) {
            let (at, gone) = ((open.due, open.due), shards.minus(&self.draft.shards()));
            self.draft.verdicts.extend(self.runs.refused(open.fire.clone(), at, &gone, MOVED.into()));
        }
    }

    /// Whether a fire claimed ahead is no longer due.
    fn is_stale(&self, open: &Attempt) -> bool {
        self.runs.terms.is_none_or(|terms| terms.paused) || !self.runs.is_scheduled(open)
    }

    /// Why no other node could take the runs of this one's shards: they stay in its run state.
    fn no_fit_reason(&self) -> Option<String> {
        (!self.sharded.job.fits(self.context().member)).then(|| FITS_NO_MORE.into())
    }

    /// Why runs that wait are not attempted again.
    fn no_retry_reason(&self, open: &Attempt) -> Option<String> {
        self.runs.no_retry_reason(open, self.context().now.wall).or_else(|| self.no_fit_reason())
    }

    /// Why a run that is claimed anew, after doubt or manually, is not started.
    fn no_start_reason(&self, open: &Attempt) -> Option<String> {
        let spec = self.sharded.job.spec();
        self.no_fit_reason().or_else(|| self.runs.no_start_reason(&spec?.job, open))
    }

    /// Tells the history that this attempt of these shards will not be made, which it expects.
    fn give_up(&mut self, open: &Attempt, shards: &ShardSet, why: &str) {
        let attempt = Attempt { shards: shards.clone(), ..open.clone() };
        self.draft.verdicts.push(self.runs.not_attempted(&attempt, open.attempt, why));
    }
}
