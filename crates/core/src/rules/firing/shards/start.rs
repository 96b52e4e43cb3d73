//! Starts shards of open fires, as many as there are slots for, within a second of their moment.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::RunStateWriter;
use crate::commit_kind::CommitKind;
use crate::effect::Run;
use crate::ids::{RunId, Shard, Token};
use crate::job::Job;
use crate::record::OpenShards;
use crate::rule_context::{RuleAction, RuleOutput};
use crate::rules::firing::{PACE_AGAIN, START_WINDOW, free_slots, is_misdated, is_within_pace, moment};
use crate::rules::pools;
use crate::shards::ShardSet;

/// How many shards of a job one step starts.
const STARTS: usize = 1_000;

impl RunStateWriter<'_> {
    /// Starts open fires whose moment has come; clears verdicts that the history has.
    pub(super) fn start(&mut self, out: &mut RuleOutput) {
        let ctx = self.context();
        let id = self.sharded.job.id;
        if ctx.local.put_off.contains_key(&id) {
            return;
        }
        // With other jobs waiting for slots they get their turns in between.
        let rivals = ctx.local.waiting.has_rivals(self.sharded.job.priority(), id);
        let most = if rivals { 1 } else { STARTS };
        let given: ShardSet = ctx.local.given_of(id).map(|(shard, _)| shard).collect();
        let mut open: Vec<&OpenShards> = self.current.open.iter().collect();
        open.sort_by_key(|open| open.due);
        let mut late = Vec::new();
        let mut spec = None;
        for open in open {
            let idle = open.shards.minus(&given);
            if idle.is_empty() {
                continue;
            }
            if open.wait.is_some() && (ctx.local.leaving || ctx.local.unable.is_some()) {
                continue;
            }
            let due = moment(&open.fire, open.due, ctx.now.wall);
            let again = open.wait.is_some_and(|wait| wait.left(ctx.now.wall).is_none());
            let renewed = again || open.wait.is_none() && is_misdated(open.from, due, ctx.now.wall);
            if ctx.now.wall < open.from && !renewed {
                out.add(RuleAction::JobAt(id, open.from));
                continue;
            }
            if self.terms().is_some_and(|(_, shards)| !self.clock_agrees(shards, out)) {
                return;
            }
            let free = free_slots(ctx.view, ctx.local).saturating_sub(out.claimed).min(most);
            if free > 0 && again {
                late.push(open.clone());
                continue;
            }
            let is_late = renewed || ctx.now.wall > open.from + START_WINDOW;
            let spec = spec.get_or_insert_with(|| self.sharded.job.spec().map(|spec| spec.job));
            let runs = idle.iter().take(free).map(|shard| self.id(open, shard)).collect();
            let runs: Vec<RunId> = match spec {
                // A run that waits for its next attempt has no permit before that attempt is claimed.
                Some(job) => pools::admitted(ctx, (id, job), open.due, runs, out),
                None => runs,
            };
            // Not where it is the pool that has no room.
            if free < idle.len() && runs.len() == free {
                out.add(RuleAction::JobAwaitsSlot(id, open.due));
            }
            if !runs.is_empty() && is_late {
                late.push(open.clone());
                continue;
            }
            let Some(job) = spec else { return };
            for run in runs {
                out.take_slot(id);
                out.add(RuleAction::Start(id, self.run(open, run, job)));
            }
        }
        if !late.is_empty() {
            self.confirm(&late, out);
        } else if self.draft.verdicts.len() != self.current.verdicts.len() {
            self.commit(CommitKind::ClearVerdicts, out);
        }
    }

    /// Renews claims that are too old to start from (law 2), and claims the next attempt of runs that waited for it.
    fn confirm(&mut self, late: &[OpenShards], out: &mut RuleOutput) {
        if !is_within_pace(self.context().local, out) {
            let again = self.context().now.mono + PACE_AGAIN;
            return out.add(RuleAction::JobAfter(self.sharded.job.id, again));
        }
        let (now, seq) = (self.context().now.wall, self.draft.seq);
        self.draft.open.iter_mut().filter(|open| late.contains(open)).for_each(|open| {
            open.from = now.max(moment(&open.fire, open.due, now));
            if open.wait.take().is_some() {
                (open.from, open.seq) = (now, seq);
            }
        });
        // They keep the free slot until they are confirmed, and are first in line for it then.
        out.claimed += 1;
        out.actions.extend(late.first().map(|open| RuleAction::JobAwaitsSlot(self.sharded.job.id, open.due)));
        self.commit(CommitKind::ConfirmShards, out);
    }

    fn id(&self, open: &OpenShards, shard: Shard) -> RunId {
        RunId { job: self.sharded.job.name().clone(), fire: open.fire.clone(), shard }
    }

    fn run(&self, open: &OpenShards, id: RunId, job: &Job) -> Run {
        let ctx = self.context();
        let now = ctx.now;
        let latest = open.from + START_WINDOW;
        Run {
            due: open.due,
            priority: job.priority,
            again: None,
            shards: open.total,
            parameter: job.shard_parameters.get(id.shard.0 as usize).cloned().unwrap_or_default(),
            job_parameter: job.parameter.clone(),
            sent: String::new(),
            attempt: open.attempt,
            token: Token::new(ctx.local.settings.generation, open.seq),
            work: job.work(),
            setting: job.launch_settings().into(),
            retry: job.backoff().map(Box::new),
            timeout: job.attempt_time(open.began(), now.wall),
            not_after: ctx.lease.until().min(now.mono + (latest - now.wall)),
            id,
        }
    }
}
