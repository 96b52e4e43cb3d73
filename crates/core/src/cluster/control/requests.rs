//! Cancellation of waiting runs: the rules of firing end a run that a node has claimed, and a trigger without a claim
//! is cancelled here.

use alloc::format;

use super::decision::{ItemDecision, answer, no_job, refuse};
use crate::commit_kind::CommitKind;
use crate::effect::Verdict;
use crate::ids::RunId;
use crate::input::{Answer, Refusal};
use crate::keys;
use crate::lifecycle;
use crate::local::CommitScope;
use crate::record::{TriggerRecord, TriggerRequest, encode};
use crate::registry::{Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::shards::ShardSet;
use crate::view::JobView;

/// Checks whether the rules of firing have ended a claimed run, which they do while the item is open.
pub(super) fn cancel(ctx: &RuleContext<'_>, run: &RunId, out: &mut RuleOutput) -> ItemDecision {
    let Some(id) = ctx.view.id(&run.job) else { return no_job(&run.job) };
    let job = ctx.job(id);
    if lifecycle::is_cancelled(&job, ctx.member, run) {
        return answer(Answer::Done);
    }
    if lifecycle::awaits(&job, ctx.member, run) {
        return ItemDecision::Wait;
    }
    if let Some(request) = lifecycle::taken_back(&job, run) {
        out.add(RuleAction::Record(verdict(ctx, &job, (run, request))));
        return answer(Answer::Done);
    }
    if lifecycle::is_unclaimed(ctx.view, &job, run) {
        return take_back(ctx, &job, run);
    }
    // The feed may show this node's own commit before its answer, which says what became of the run.
    if !ctx.is_idle(&CommitScope::Job(id)) {
        return ItemDecision::Wait;
    }
    let text = format!("run {run} has ended meanwhile, or is another node's: see `evenkeel run show {run}`");
    refuse(Refusal::Conflict, text)
}

/// Marks the trigger as handled. A node that claims a run for it writes the same entry, so only one of the two happens.
fn take_back(ctx: &RuleContext<'_>, job: &JobView<'_>, run: &RunId) -> ItemDecision {
    let known = job.triggers().cloned().unwrap_or_default();
    let mut record: TriggerRecord = known.value.clone().unwrap_or_default();
    for request in record.requests.iter_mut().filter(|request| lifecycle::is_request(request, run)) {
        request.take();
        request.taken_back = Some(ctx.now.wall);
    }
    let key = keys::triggers(job.name());
    let guards = [known.guard(key.clone())].into();
    let writes = [Write::Put { key, value: encode(&record), owner: None }].into();
    ItemDecision::Commit(CommitKind::CancelRequest, Txn { guards, writes })
}

/// The verdict for the history, written once, by the node that got the command.
fn verdict(ctx: &RuleContext<'_>, job: &JobView<'_>, (run, request): (&RunId, &TriggerRequest)) -> Verdict {
    let node = ctx.member.node.as_str();
    let one = lifecycle::not_attempted(run.clone(), 1, request.at, node, lifecycle::MANUAL);
    let sharded = job.spec().zip(job.sharding());
    let shards = sharded.map(|(spec, sharding)| {
        ShardSet::all(sharding.shard_map.total_of(&spec.job)).minus(&spec.off).or(&ShardSet::one(run.shard))
    });
    Verdict { shards: shards.filter(|_| job.is_sharded()).unwrap_or_default(), ..one }
}
