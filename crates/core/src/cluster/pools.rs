//! Pools: a pool limits how many runs of its jobs execute at once, in the whole cluster.
//!
//! The pool's entry names every running run with its permit. A run takes its permit by a commit right before it starts,
//! and releases it when it has ended. A commit that takes permits removes those of dead members, guarded by their
//! absence: their runs were ended before their membership was. So the permits are never fewer than the runs.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::commit_kind::CommitKind;
use crate::ids::{Member, PoolName, RunId};
use crate::job::{Job, Pool};
use crate::keys;
use crate::lifecycle;
use crate::local::{CommitScope, Waiter};
use crate::record::{PoolPermit, PoolRecord, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::time::Wall;
use crate::view::{JobId, KnownEntry};

/// The operations of a commit beside the permits that it removes: the guards on this node and the entry, and the entry.
const BASE: usize = 3;

/// Releases the permits of runs that have ended.
pub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    for (name, known) in ctx.view.pools() {
        let Some(record) = &known.value else { continue };
        let over = |permit: &&PoolPermit| permit.by == *ctx.member && !needs(ctx, &permit.run);
        if !record.permits.iter().any(|permit| over(&permit)) || !is_idle(ctx, name, out) {
            continue;
        }
        let permits = record.permits.iter().filter(|permit| !over(permit)).cloned().collect();
        commit(ctx, (name, known), CommitKind::LeavePool, permits, Vec::new(), out);
    }
}

/// The runs, of these of one fire, that may start now: all, where the job is in no pool. For the others permits are
/// taken, if there are any, and the job is looked at when there may be.
pub(crate) fn admitted(
    ctx: &RuleContext<'_>,
    (id, job): (JobId, &Job),
    due: Wall,
    runs: Vec<RunId>,
    out: &mut RuleOutput,
) -> Vec<RunId> {
    let Some(Pool { name, limit }) = &job.pool else { return runs };
    let known = ctx.view.pool(name);
    let permits = known.value.iter().flat_map(|record| &record.permits).cloned();
    let permits = permits.filter(|permit| permit.by != *ctx.member || needs(ctx, &permit.run));
    let (permits, gone): (Vec<PoolPermit>, Vec<PoolPermit>) =
        permits.partition(|permit| ctx.view.member(&permit.by).is_some());
    let sits = |run: &RunId| permits.iter().any(|permit| permit.run == *run && permit.by == *ctx.member);
    let (seated, wanting): (Vec<RunId>, Vec<RunId>) = runs.into_iter().partition(sits);
    // A commit in flight may release a permit that the view still shows; then its holders are looked at again.
    let idle = is_idle(ctx, name, out);
    let seated = if idle { seated } else { Vec::new() };
    if wanting.is_empty() {
        return seated;
    }
    let waiter = Waiter { priority: Reverse(job.priority), due, again: Wall::MAX, id };
    let is_first = ctx.local.pool_waiters.is_first(name, &waiter);
    out.add(RuleAction::JobAwaitsPermit(name.clone(), id, due, is_first));
    let mut record = PoolRecord { permits, seq: known.value.as_ref().map_or(0, |record| record.seq) };
    let room = record.limit(*limit).saturating_sub(record.permits.len());
    if idle && room > 0 && is_first {
        if lifecycle::free_slots(ctx.view, ctx.local) <= out.claimed {
            out.add(ctx.awaits_slot(&ctx.job(id), due));
            return seated;
        }
        // A shard takes its slot when it starts.
        match ctx.job(id).is_sharded() {
            true => out.claimed += 1,
            false => out.take_slot(id),
        }
        out.permits.push((name.clone(), id));
        // With others waiting they get their turns in between.
        let rivals = ctx.local.pool_waiters.has_rivals(name, (job.priority, id));
        let room = if rivals { 1 } else { room };
        let permit = |run| PoolPermit { run, by: ctx.member.clone(), limit: *limit };
        record.permits.extend(wanting.into_iter().take(room).map(permit));
        commit(ctx, (name, &known), CommitKind::EnterPool, record.permits, gone, out);
    }
    seated
}

/// Whether this node is not writing the pool's entry, and no other rule of this step does.
fn is_idle(ctx: &RuleContext<'_>, name: &PoolName, out: &RuleOutput) -> bool {
    let scope = CommitScope::Pool(name.clone());
    let writes = |decision: &RuleAction| matches!(decision, RuleAction::Commit(of, ..) if *of == scope);
    ctx.is_idle(&scope) && !out.actions.iter().any(writes)
}

/// Whether a run of this node executes, or is to start as soon as it has a permit.
fn needs(ctx: &RuleContext<'_>, run: &RunId) -> bool {
    let Some(id) = ctx.view.id(&run.job) else { return false };
    match ctx.local.runs.get(id, run) {
        Some(given) => given.ended.is_none(),
        None => lifecycle::is_claimed(&ctx.job(id), ctx.member, run),
    }
}

/// Writes the pool's entry, without the permits of as many dead members as one transaction can guard on.
fn commit(
    ctx: &RuleContext<'_>,
    (name, known): (&PoolName, &KnownEntry<PoolRecord>),
    kind: CommitKind,
    mut permits: Vec<PoolPermit>,
    mut gone: Vec<PoolPermit>,
    out: &mut RuleOutput,
) {
    let most = ctx.local.settings.operations_max.saturating_sub(BASE);
    let mut members: Vec<Member> = gone.iter().map(|permit| permit.by.clone()).collect();
    members.sort();
    members.dedup();
    members.truncate(most);
    gone.retain(|permit| !members.contains(&permit.by));
    permits.append(&mut gone);
    let key = keys::pool(name);
    let absent = members.iter().map(|member| Guard::Absent(keys::node(member)));
    let guards = ctx.born().into_iter().chain([known.guard(key.clone())]).chain(absent).collect();
    let seq = known.value.as_ref().map_or(0, |record| record.seq) + 1;
    let writes = [Write::Put { key, value: encode(&PoolRecord { permits, seq }), owner: None }].into();
    out.commit(CommitScope::Pool(name.clone()), kind, Txn { guards, writes });
}
