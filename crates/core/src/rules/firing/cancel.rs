//! Cancellation of runs that have not started: they wait for their moment, a slot, a permit or their next attempt.
//!
//! The node that would start a run ends it, in a commit of its own that closes the run with a reason. The command item
//! stays open until then, and its run does not start meanwhile. An unclaimed trigger is cancelled by the node asked.

use alloc::string::String;

use super::ClaimedRuns;
use super::retry::given_up;
use crate::commit_kind::CommitKind;
use crate::effect::Verdict;
use crate::ids::{Fire, Member, RunId, Shard};
use crate::local::{Given, Local};
use crate::record::{Plan, RunState, ShardRunState, TriggerRequest};
use crate::rule_context::RuleOutput;
use crate::view::{JobView, View};

/// The reason of a cancelled run.
pub const MANUAL: &str = "ended by hand";

/// Whether this member is to start the run, or to attempt it again, by its own entries.
#[must_use]
pub fn awaits(job: &JobView<'_>, me: &Member, run: &RunId) -> bool {
    if job.is_sharded() {
        let open = shard_run_state(job, me).into_iter().flat_map(|run_state| &run_state.open);
        return open.into_iter().any(|open| open.fire == run.fire && open.shards.contains(run.shard));
    }
    if run.shard != Shard(0) {
        return false;
    }
    if job.is_dispatched() {
        let runs = plan(job).into_iter().flat_map(|plan| &plan.runs);
        return runs.into_iter().any(|other| other.by == *me && other.fire == run.fire);
    }
    job.open_of(&run.fire).is_some_and(|open| open.by == *me)
        || (job.owner() == Some(me) && is_triggered(job, run))
}

/// Whether this member has cancelled the run and its verdict is not in the history yet.
#[must_use]
pub fn is_cancelled(job: &JobView<'_>, me: &Member, run: &RunId) -> bool {
    let of_it = |verdict: &&Verdict| {
        let shard = verdict.run.shard == run.shard || verdict.shards.contains(run.shard);
        verdict.run.fire == run.fire && shard && verdict.reason.ends_with(MANUAL)
    };
    if job.is_sharded() {
        return shard_run_state(job, me)
            .is_some_and(|run_state| run_state.verdicts.iter().any(|v| of_it(&v)));
    }
    if job.is_dispatched() {
        return plan(job).is_some_and(|plan| plan.verdicts.iter().any(|v| of_it(&v)));
    }
    run_state(job).is_some_and(|run_state| run_state.verdicts.iter().any(|v| of_it(&v)))
}

fn run_state<'a>(job: &JobView<'a>) -> Option<&'a RunState> {
    job.held()?.run_state.as_ref()?.value.as_ref()
}

fn plan<'a>(job: &JobView<'a>) -> Option<&'a Plan> {
    job.plan()?.known.value.as_ref()
}

fn shard_run_state<'a>(job: &JobView<'a>, me: &Member) -> Option<&'a ShardRunState> {
    job.run_state_of(me)?.run_state.value.as_ref()
}

/// Whether this trigger is the one of this run.
#[must_use]
pub fn is_request(request: &TriggerRequest, run: &RunId) -> bool {
    matches!(&run.fire, Fire::Asked(id) if *id == request.id)
}

/// The trigger of a run, where it was cancelled before any node had claimed the run.
#[must_use]
pub fn taken_back<'a>(job: &JobView<'a>, run: &RunId) -> Option<&'a TriggerRequest> {
    let record = job.triggers()?.value.as_ref()?;
    record.requests.iter().find(|request| is_request(request, run) && request.taken_back.is_some())
}

/// Whether a trigger waits that no node has claimed, and no living node is to: then any node may cancel it.
#[must_use]
pub fn is_unclaimed(view: &View, job: &JobView<'_>, run: &RunId) -> bool {
    let Some(record) = job.triggers().and_then(|known| known.value.as_ref()) else { return false };
    let untouched = |request: &TriggerRequest| !request.taken && request.shards.is_empty();
    let is_held = job.owner().is_some_and(|owner| view.member(owner).is_some());
    !is_held && record.requests.iter().any(|request| is_request(request, run) && untouched(request))
}

/// Whether the run was triggered and no node has claimed it.
fn is_triggered(job: &JobView<'_>, run: &RunId) -> bool {
    let record = job.triggers().and_then(|known| known.value.as_ref());
    record.is_some_and(|record| {
        record.requests.iter().any(|request| !request.taken && is_request(request, run))
    })
}

/// Why no attempt follows one whose end was wanted, even if it failed by itself right then.
pub(super) fn cancel_reason(local: &Local, given: &Given) -> Option<String> {
    local.is_cancelled(&given.run).then(|| MANUAL.into())
}

impl ClaimedRuns<'_> {
    /// Drops a trigger that has no run yet. Returns whether there was one.
    pub(super) fn cancel_trigger(&self, out: &mut RuleOutput) -> bool {
        let local = self.ctx.local;
        if local.called_off.is_empty() {
            return false;
        }
        let id = |fire| RunId { job: self.job.name().clone(), fire, shard: Shard(0) };
        let run = |request: &TriggerRequest| id(Fire::Asked(request.id.clone()));
        let Some(record) = self.job.triggers().and_then(|known| known.value.as_ref()) else { return false };
        let called = |request: &TriggerRequest| !request.taken && local.is_cancelled(&run(request));
        let Some(index) = record.requests.iter().position(called) else { return false };
        let (mut record, mut run_state) = (record.clone(), self.run_state());
        let request = &mut record.requests[index];
        request.taken = true;
        run_state.seq += 1;
        let node = self.ctx.member.node.as_str();
        run_state.verdicts.push(given_up(run(request), 1, request.at, node, MANUAL));
        self.commit_with(CommitKind::GiveUp, run_state, Some(record), out);
        true
    }
}
