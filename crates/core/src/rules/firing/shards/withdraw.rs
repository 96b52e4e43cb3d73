//! Withdraws runs of a sharded job that a node should not start, or skips them where no other node can run them.

use super::RunStateWriter;
use crate::commit_kind::CommitKind;
use crate::effect::VerdictState;
use crate::ids::{Fire, RunId};
use crate::record::OpenShards;
use crate::rules::firing::MANUAL;
use crate::rules::sharding::MOVED;
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};

/// Why a node gives up its next run: a shard's runs stay in its node's run state, so no other node could take them.
pub(super) const FITS_NO_MORE: &str = "its node fits the job no more";

impl RunStateWriter<'_> {
    /// Withdraws runs that were claimed ahead and not started, where they should not start any more.
    pub(super) fn withdraw(&mut self) {
        let given: ShardSet =
            self.context().local.given_of(self.sharded.job.id).map(|(shard, _)| shard).collect();
        self.cancel(&given);
        for open in self.draft.open.clone() {
            let idle = open.shards.minus(&given);
            if open.wait.is_some()
                && let Some(why) = self.no_retry_reason(&open, self.context().now.wall)
            {
                self.give_up(&open, &open.shards, open.attempt, &why);
                self.draft.close(&open.shards);
                self.set_kind(CommitKind::GiveUp);
                continue;
            }
            let off = self.terms().map_or(ShardSet::empty(), |(_, shards)| shards.off.and(&idle));
            let first = open.attempt == 1 && matches!(open.fire, Fire::Due(_));
            if self.terms().is_none() && open.attempt > 1 && !idle.is_empty() {
                self.give_up(&open, &idle, open.attempt, "its job was deleted");
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
                self.give_up(&open, &idle, open.attempt, &why);
                self.take_back(&idle, None);
            }
        }
    }

    /// Drops the runs of cancelled shards that have not started.
    fn cancel(&mut self, given: &ShardSet) {
        let local = &self.context().local;
        if local.called_off.is_empty() {
            return;
        }
        for open in self.draft.open.clone() {
            let idle = if open.wait.is_some() { open.shards.clone() } else { open.shards.minus(given) };
            let run = |shard| RunId { job: self.sharded.job.name().clone(), fire: open.fire.clone(), shard };
            let called: ShardSet = idle.iter().filter(|shard| local.is_cancelled(&run(*shard))).collect();
            if !called.is_empty() {
                self.give_up(&open, &called, open.attempt, MANUAL);
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
    fn report_removed(&mut self, open: &OpenShards, shards: &ShardSet) {
        let broadcast = self.terms().is_some_and(|(_, shards)| shards.total.is_none());
        if broadcast && !self.is_stale(open) {
            let (told, gone) = ((&open.fire, open.due, open.due), shards.minus(&self.draft.shards()));
            let verdict = self.verdict(told, &gone, 0, VerdictState::Skipped, MOVED.into());
            self.draft.verdicts.extend(verdict);
        }
    }

    /// Whether a fire claimed ahead is no longer due.
    fn is_stale(&self, open: &OpenShards) -> bool {
        let Some((terms, _)) = self.terms() else { return true };
        let scheduled = || terms.schedule.as_ref().and_then(|s| s.next(open.due - Millis(1)));
        terms.paused || !terms.enabled || open.due <= terms.since || scheduled() != Some(open.due)
    }
}
