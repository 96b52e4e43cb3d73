//! Limits of runs: a pool limits how many runs of its jobs execute at once, in the whole cluster, and so may a namespace.
//!
//! The limit's entry names every running run with its permit. A run takes its permits, of its pool and of its namespace, in
//! one commit right before it starts, and releases them when it has ended. So no run keeps a permit that it cannot use. A
//! commit that takes permits removes those of dead members, guarded by their absence: their runs were ended before their
//! membership was. So the permits are never fewer than the runs.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::commit_kind::CommitKind;
use crate::ids::{Member, RunId};
use crate::job::Job;
use crate::keys;
use crate::lifecycle;
use crate::local::{CommitScope, Waiter};
use crate::record::{PermitsRecord, RunPermit, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::run_limit::RunLimit;
use crate::time::Wall;
use crate::view::{JobId, KnownEntry};

/// Releases the permits of runs that have ended.
pub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    for (limit, known) in ctx.view.permit_entries() {
        let Some(record) = &known.value else { continue };
        let over = |permit: &&RunPermit| permit.by == *ctx.member && !needs(ctx, &permit.run);
        if !record.permits.iter().any(|permit| over(&permit)) || !is_idle(ctx, limit, out) {
            continue;
        }
        let permits = record.permits.iter().filter(|permit| !over(permit)).cloned().collect();
        let known = known.clone();
        commit(
            ctx,
            Vec::from([PermitDraft { limit, known, permits, gone: Vec::new() }]),
            CommitKind::LeavePool,
            out,
        );
    }
}

/// The permits of a limit as this node would write them.
struct PermitDraft<'a> {
    limit: &'a RunLimit,
    known: KnownEntry<PermitsRecord>,
    /// Those of living members and of runs that need them.
    permits: Vec<RunPermit>,
    /// Those of dead members.
    gone: Vec<RunPermit>,
}

impl<'a> PermitDraft<'a> {
    fn of(ctx: &RuleContext<'_>, limit: &'a RunLimit) -> Self {
        let known = ctx.view.permits(limit);
        let permits = known.value.iter().flat_map(|record| &record.permits).cloned();
        let permits = permits.filter(|permit| permit.by != *ctx.member || needs(ctx, &permit.run));
        let (permits, gone) = permits.partition(|permit| ctx.view.member(&permit.by).is_some());
        Self { limit, known, permits, gone }
    }

    fn has(&self, ctx: &RuleContext<'_>, run: &RunId) -> bool {
        self.permits.iter().any(|permit| permit.run == *run && permit.by == *ctx.member)
    }

    /// How many runs may go on, by the limit as this node knows it, and by those of the runs that have permits.
    fn most(&self, own: u32) -> usize {
        match self.limit {
            RunLimit::Pool(_) => self.permits.iter().map(|permit| permit.limit).fold(own, u32::min) as usize,
            // The commit is guarded on what the namespace declares, so nothing else counts.
            RunLimit::Namespace(_) => own as usize,
        }
    }

    /// How many more runs of a job may have a permit.
    fn room(&self, ctx: &RuleContext<'_>, job: &Job) -> usize {
        self.most(own_limit(ctx, self.limit, job)).saturating_sub(self.permits.len())
    }
}

/// What a limit allows by the job's declaration, or by its namespace's.
fn own_limit(ctx: &RuleContext<'_>, limit: &RunLimit, job: &Job) -> u32 {
    match limit {
        RunLimit::Pool(_) => job.pool.as_ref().map(|pool| pool.limit),
        RunLimit::Namespace(namespace) => ctx.view.runs_max(namespace),
    }
    .unwrap_or(u32::MAX)
}

/// The runs, of these of one fire, that may start now: all, where nothing limits the job. For the others permits are
/// taken, if there are any, and the job is looked at when there may be.
pub(crate) fn admitted(
    ctx: &RuleContext<'_>,
    (id, job): (JobId, &Job),
    due: Wall,
    runs: Vec<RunId>,
    out: &mut RuleOutput,
) -> Vec<RunId> {
    let limits = ctx.view.run_limits(id);
    if limits.is_empty() {
        return runs;
    }
    let mut drafts: Vec<PermitDraft<'_>> = limits.iter().map(|limit| PermitDraft::of(ctx, limit)).collect();
    // A commit in flight may release a permit that the view still shows; then its holders are looked at again.
    let idle = drafts.iter().all(|draft| is_idle(ctx, draft.limit, out));
    let (permitted, wanting): (Vec<RunId>, Vec<RunId>) =
        runs.into_iter().partition(|run| drafts.iter().all(|draft| draft.has(ctx, run)));
    let permitted = if idle { permitted } else { Vec::new() };
    // A run that got a permit before its namespace had a limit lacks fewer than the others, and must not wait for them.
    let lacks = |run: &RunId| drafts.iter().map(|draft| !draft.has(ctx, run)).collect::<Vec<_>>();
    let Some(fewest) =
        wanting.iter().map(lacks).min_by_key(|lacks| lacks.iter().filter(|lacks| **lacks).count())
    else {
        return permitted;
    };
    let wanting: Vec<RunId> = wanting.into_iter().filter(|run| lacks(run) == fewest).collect();
    let mut lacked = fewest.into_iter();
    drafts.retain(|_| lacked.next().unwrap_or(true));
    let Some(first) = drafts.first() else { return permitted };
    let waiter = Waiter { priority: Reverse(job.priority), due, again: Wall::MAX, id };
    let has_turn = |draft: &PermitDraft<'_>| ctx.local.permit_waiters.is_first(draft.limit, &waiter);
    let lets_in = |draft: &&PermitDraft<'_>| {
        has_turn(draft) && is_idle(ctx, draft.limit, out) && draft.room(ctx, job) > 0
    };
    // It waits for one limit at a time: the first that does not let it in.
    let full = drafts.iter().find(|draft| !lets_in(draft));
    let awaited = full.unwrap_or(first);
    let waits = RuleAction::JobAwaitsPermit(awaited.limit.clone(), id, due, has_turn(awaited));
    let is_full = full.is_some();
    out.add(waits);
    if is_full {
        return permitted;
    }
    if lifecycle::free_slots(ctx.view, ctx.local) <= out.claimed {
        out.add(ctx.awaits_slot(&ctx.job(id), due));
        return permitted;
    }
    // A shard takes its slot when it starts.
    match ctx.job(id).is_sharded() {
        true => out.claimed += 1,
        false => out.take_slot(id),
    }
    take(ctx, (id, job), drafts, &wanting, out);
    permitted
}

/// Takes permits of all these limits for as many of the runs as there is room for.
fn take(
    ctx: &RuleContext<'_>,
    (id, job): (JobId, &Job),
    mut drafts: Vec<PermitDraft<'_>>,
    wanting: &[RunId],
    out: &mut RuleOutput,
) {
    // With others waiting they get their turns in between.
    let has_rivals =
        |draft: &PermitDraft<'_>| ctx.local.permit_waiters.has_rivals(draft.limit, (job.priority, id));
    let room = drafts.iter().map(|draft| if has_rivals(draft) { 1 } else { draft.room(ctx, job) });
    let wanting = &wanting[..room.min().unwrap_or(0).min(wanting.len())];
    for draft in &mut drafts {
        let limit = own_limit(ctx, draft.limit, job);
        let permit = |run: &RunId| RunPermit { run: run.clone(), by: ctx.member.clone(), limit };
        draft.permits.extend(wanting.iter().map(permit));
        out.permits.push((draft.limit.clone(), id));
    }
    commit(ctx, drafts, CommitKind::EnterPool, out);
}

/// Whether this node is not writing the limit's entry, and no other rule of this step does.
fn is_idle(ctx: &RuleContext<'_>, limit: &RunLimit, out: &RuleOutput) -> bool {
    let writes = |action: &RuleAction| matches!(action, RuleAction::Commit(scope, ..) if scope.limits().contains(limit));
    !ctx.local.commits.writes_permits(limit) && !out.actions.iter().any(writes)
}

/// Whether a run of this node executes, or is to start as soon as it has its permits.
fn needs(ctx: &RuleContext<'_>, run: &RunId) -> bool {
    let Some(id) = ctx.view.id(&run.job) else { return false };
    match ctx.local.runs.get(id, run) {
        Some(given) => given.ended.is_none(),
        None => lifecycle::is_claimed(&ctx.job(id), ctx.member, run),
    }
}

/// Writes the entries of these limits, without the permits of as many dead members as one transaction can guard on.
fn commit(ctx: &RuleContext<'_>, drafts: Vec<PermitDraft<'_>>, kind: CommitKind, out: &mut RuleOutput) {
    let mut guards: Vec<Guard> = ctx.born().into_iter().collect();
    guards.extend(drafts.iter().map(|draft| draft.known.guard(keys::permits(draft.limit))));
    if kind == CommitKind::EnterPool {
        // Its limit is the one that this node knows.
        guards.extend(drafts.iter().filter_map(|draft| match draft.limit {
            RunLimit::Namespace(namespace) => Some(ctx.view.namespace_guard(namespace)),
            RunLimit::Pool(_) => None,
        }));
    }
    let most = ctx.local.settings.operations_max.saturating_sub(guards.len() + drafts.len());
    let mut members: Vec<Member> =
        drafts.iter().flat_map(|draft| &draft.gone).map(|permit| permit.by.clone()).collect();
    members.sort();
    members.dedup();
    members.truncate(most);
    guards.extend(members.iter().map(|member| Guard::Absent(keys::node(member))));
    let scope = CommitScope::Permits(drafts.iter().map(|draft| draft.limit.clone()).collect());
    let write = |draft: PermitDraft<'_>| {
        let PermitDraft { limit, known, mut permits, gone } = draft;
        permits.extend(gone.into_iter().filter(|permit| !members.contains(&permit.by)));
        let seq = known.value.as_ref().map_or(0, |record| record.seq) + 1;
        Write::Put { key: keys::permits(limit), value: encode(&PermitsRecord { permits, seq }), owner: None }
    };
    let writes = drafts.into_iter().map(write).collect();
    out.commit(scope, kind, Txn { guards, writes });
}
