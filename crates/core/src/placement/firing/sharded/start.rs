//! Starts shards of open fires, as many as there are slots for, within a second of their moment.

use alloc::vec::Vec;

use super::RunStateWriter;
use crate::commit_kind::CommitKind;
use crate::lifecycle::{PACE_AGAIN, StartReadiness, free_slots, is_within_pace};
use crate::record::Attempt;
use crate::rule_context::{RuleAction, RuleOutput};
use crate::shards::ShardSet;

/// How many shards of a job one step starts.
const STARTS: usize = 1_000;

impl RunStateWriter<'_> {
    /// Starts open fires whose moment has come; clears verdicts that the history has.
    pub(super) fn start(&mut self, out: &mut RuleOutput) {
        let ctx = self.context();
        let id = self.sharded.job.id;
        if ctx.local.checks.is_put_off(id) {
            return;
        }
        // With other jobs waiting for slots they get their turns in between.
        let rivals = ctx.local.slot_waiters.has_rivals(self.sharded.job.priority(), id);
        let most = if rivals { 1 } else { STARTS };
        let given: ShardSet = ctx.local.runs.of_job(id).map(|(shard, _)| shard).collect();
        let mut open: Vec<&Attempt> = self.current.open.iter().collect();
        open.sort_by_key(|open| open.due);
        let mut late = Vec::new();
        let mut spec = None;
        for open in open {
            let idle = open.shards.minus(&given);
            if idle.is_empty() {
                continue;
            }
            if open.wait.is_some()
                && (ctx.local.availability.is_leaving() || !ctx.local.availability.is_able())
            {
                continue;
            }
            let readiness = self.runs.readiness(open, out);
            if readiness == StartReadiness::NotYet {
                continue;
            }
            let free = free_slots(ctx.view, ctx.local).saturating_sub(out.claimed).min(most);
            if free > 0 && open.wait.is_some() {
                late.push(open.clone());
                continue;
            }
            let spec = spec.get_or_insert_with(|| self.sharded.job.spec().map(|spec| spec.job));
            let runs = idle.iter().take(free).map(|shard| self.runs.run_id(&open.fire, shard)).collect();
            // A run that waits for its next attempt has no permit before that attempt is claimed.
            let runs = self.runs.admitted(spec.as_ref(), runs, open.due, out);
            // Not where it is the pool that has no room.
            if free < idle.len() && runs.len() == free {
                out.add(ctx.awaits_slot(&self.sharded.job, open.due));
            }
            let StartReadiness::Start(not_after) = readiness else {
                late.extend((!runs.is_empty()).then(|| open.clone()));
                continue;
            };
            let Some(job) = spec else { return };
            for run in runs {
                out.take_slot(id);
                out.add(RuleAction::Start(id, self.runs.run(open, run.shard, job, not_after)));
            }
        }
        if !late.is_empty() {
            self.confirm(&late, out);
        } else if self.draft.verdicts.len() != self.current.verdicts.len() {
            self.commit(CommitKind::ClearVerdicts, out);
        }
    }

    /// Renews claims that are too old to start from (law 2), and claims the next attempt of runs that waited for it.
    fn confirm(&mut self, late: &[Attempt], out: &mut RuleOutput) {
        if !is_within_pace(self.context().local, out) {
            let again = self.context().now.mono + PACE_AGAIN;
            return out.add(RuleAction::JobAfter(self.sharded.job.id, again));
        }
        let seq = self.draft.seq;
        for open in self.draft.open.iter_mut().filter(|open| late.contains(open)) {
            *open = self.runs.confirmed(open, seq);
        }
        // They keep the free slot until they are confirmed, and are first in line for it then.
        out.claimed += 1;
        let first = late.first();
        out.actions.extend(first.map(|open| self.context().awaits_slot(&self.sharded.job, open.due)));
        self.commit(CommitKind::ConfirmShards, out);
    }
}
