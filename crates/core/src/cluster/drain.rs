//! Drain: a node releases jobs that it should not own, each after its run (S1-39, S1-60).
//!
//! These are all jobs of a node that drains or leaves, disabled and deleted jobs of any node, and jobs whose node
//! selector does not fit their node any more.

use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::effect::{Event, Verdict};
use crate::ids::Fire;
use crate::keys;
use crate::lifecycle::JobRuns;
use crate::local::CommitScope;
use crate::record::{Assignment, Attempt, NodeIntent, RunState, encode};
use crate::registry::{Txn, Write};
use crate::rule_context::{CommitNotice, RuleContext, RuleOutput};
use crate::view::{JobId, JobView};

/// Releases the job, with a fire that was claimed ahead and not started; waits for a running one.
pub fn decide(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    let job = ctx.job(id);
    let unwanted = !job.is_enabled() || ctx.gives_up() || !job.fits(ctx.member);
    if !unwanted
        || !job.is_consistent()
        || ctx.me.is_none()
        || !ctx.holds(&job)
        || !ctx.is_idle(&CommitScope::Job(id))
    {
        return;
    }
    let leaves = ctx.local.availability.is_leaving() && job.is_enabled();
    // A node that leaves and has no run need not release job by job: others take everything over once its member entry
    // is gone, which is soon. With a run that may take long; meanwhile its other jobs must not wait.
    let released = if leaves && ctx.local.runs.is_empty() { None } else { release(ctx, &job) };
    if let Some(txn) = released {
        out.commit(CommitScope::Job(id), CommitKind::Release, txn);
    } else if leaves && let Some(txn) = withdraw_last(ctx, &job) {
        out.commit(CommitScope::Job(id), CommitKind::Withdraw, txn);
    }
}

/// Reports in the registry, and as an event, that this draining node owns nothing and may be stopped (S1-39, S1-61).
///
/// Should it own something again, it withdraws that report: a job that is deleted while an attempt waits goes to the
/// node that got the command to delete it.
pub fn report_drained(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    let node = &ctx.member.node;
    let Some(known) = ctx.view.intent_entry(node) else { return };
    let Some(intent) = known.value.as_ref().filter(|intent| intent.wanted) else { return };
    // A node that was just upgraded in place has not read all that it may own.
    if ctx.local.inherited.has_unread() {
        return;
    }
    // A commit in flight may make this node an owner.
    let may_own = |scope: &CommitScope| {
        matches!(scope, CommitScope::Job(_) | CommitScope::Item(..) | CommitScope::Drained)
    };
    if ctx.me.is_none() || ctx.local.commits.scopes().any(may_own) {
        return;
    }
    let drained = (!owns_anything(ctx)).then_some(ctx.member.incarnation);
    let said = intent.drained.filter(|life| *life == ctx.member.incarnation);
    if drained == said {
        return;
    }
    let key = keys::intent(node);
    let record = NodeIntent { drained, seq: intent.seq + 1, ..intent.clone() };
    let guards = ctx.born().into_iter().chain([known.guard(key.clone())]).collect();
    let writes = [Write::Put { key, value: encode(&record), owner: None }].into();
    if drained.is_some() {
        out.notices.push(CommitNotice { scope: CommitScope::Drained, sent: false, event: Event::Drained });
    }
    let kind = if drained.is_some() { CommitKind::MarkDrained } else { CommitKind::MarkNotDrained };
    out.commit(CommitScope::Drained, kind, Txn { guards, writes });
}

/// Whether this node owns a job, has a shard that another one can take, leads, or has a running or accepted run.
fn owns_anything(ctx: &RuleContext<'_>) -> bool {
    let (view, me) = (ctx.view, ctx.member);
    let leader = view.serving().value.as_ref().and_then(|serving| serving.leader.as_ref());
    view.count(me) > 0
        || !ctx.local.runs.is_empty()
        || leader == Some(me)
        || view.opened_by(me)
        || view.leads(me)
        || view.has_shards_for_others(me)
}

/// The transaction that withdraws a claimed, unstarted fire, with its watermark; `None` when there is none.
fn withdraw_last(ctx: &RuleContext<'_>, job: &JobView<'_>) -> Option<Txn> {
    withdraw(ctx, job, job.held()?.record()?.open.last()?)
}

/// The transaction that withdraws this fire, with its watermark; `None` when it may have started.
pub(crate) fn withdraw(ctx: &RuleContext<'_>, job: &JobView<'_>, open: &Attempt) -> Option<Txn> {
    let (known, back) = (job.held()?.run_state.as_ref()?, withdrawn(ctx, job, open)?);
    let key = keys::run_state(job.name());
    Some(Txn {
        guards: ctx.born().into_iter().chain([known.guard(key.clone())]).collect(),
        writes: [Write::Put { key, value: encode(&back), owner: None }].into(),
    })
}

/// The run state without a fire that was claimed ahead as the last one; `None` when it cannot be withdrawn.
fn withdrawn(ctx: &RuleContext<'_>, job: &JobView<'_>, open: &Attempt) -> Option<RunState> {
    let run_state = job.held()?.record()?;
    let started = JobRuns::new(ctx, *job).is_given(open);
    let last = open.fire == Fire::Due(run_state.watermark);
    if started || !last || open.by != *ctx.member || open.attempt > 1 {
        return None;
    }
    let mut run_state = RunState { watermark: open.back, seq: run_state.seq + 1, ..run_state.clone() };
    run_state.close(&open.fire);
    Some(run_state)
}

/// The transaction that releases a job, unstarted fire and all; `None` while a run executes.
///
/// Verdicts that history lacks stay in the run state and are handed over by the next owner; so a job that will have
/// none is kept until history has them. That is also a job that no living node may run.
pub(crate) fn release(ctx: &RuleContext<'_>, job: &JobView<'_>) -> Option<Txn> {
    if !job.is_consistent() || ctx.local.runs.of_job(job.id).next().is_some() {
        return None;
    }
    let known = job.held()?.run_state.as_ref()?;
    let is_recorded = |v: &Verdict| ctx.local.verdicts.is_recorded(v);
    let verdicts = || known.value.iter().flat_map(|run_state| &run_state.verdicts);
    if match job.is_enabled() {
        true => ctx.view.is_unschedulable(job.group()) && !verdicts().all(is_recorded),
        false => verdicts().next().is_some(),
    } {
        return None;
    }
    let last = known.value.as_ref().and_then(|run_state| run_state.open.last());
    let back = last.and_then(|open| withdrawn(ctx, job, open));
    let mut left =
        back.as_ref().or(known.value.as_deref()).into_iter().flat_map(|run_state| &run_state.open).peekable();
    // The next owner goes on waiting; a job that is to have no owner ends the waiting run first.
    let waits = left.peek().is_some();
    if waits && !job.is_enabled() || left.any(|open| open.wait.is_none()) {
        return None;
    }
    let run_state_key = keys::run_state(job.name());
    let mut writes = Vec::new();
    writes.extend(back.map(|back| Write::Put {
        key: run_state_key.clone(),
        value: encode(&back),
        owner: None,
    }));
    let place = Assignment { owner: None, waits, ..job.assignment().next() };
    writes.push(Write::Put { key: keys::assignment(job.name()), value: encode(&place), owner: None });
    let guards = ctx.born().into_iter().chain([job.assignment_guard(), known.guard(run_state_key)]);
    Some(Txn { guards: guards.collect(), writes })
}
