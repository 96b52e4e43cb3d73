//! Cancellation of runs that have not started: they wait for their moment, a slot, a permit or their next attempt.
//!
//! The node that would start a run ends it, in a commit of its own that closes the run with a reason. The command item
//! stays open until then, and its run does not start meanwhile. An unclaimed trigger is cancelled by the node asked.

use alloc::string::String;

use super::attempts;
use crate::effect::Verdict;
use crate::ids::{Fire, Member, RunId, Shard};
use crate::local::{Given, Local};
use crate::record::TriggerRequest;
use crate::view::{JobView, View};

/// The reason of a cancelled run.
pub const MANUAL: &str = "ended by an operator";

/// Whether this member is to start the run, or to attempt it again, by its own entries.
#[must_use]
pub fn awaits(job: &JobView<'_>, me: &Member, run: &RunId) -> bool {
    let mut own = attempts::own(job, me);
    if own.any(|attempt| attempt.fire == run.fire && attempt.shards.contains(run.shard)) {
        return true;
    }
    // A claimed job's owner starts its triggers.
    let is_claimed = !job.is_sharded() && !job.is_dispatched();
    is_claimed && run.shard == Shard(0) && job.owner() == Some(me) && is_triggered(job, run)
}

/// Whether this member has cancelled the run and its verdict is not in the history yet.
#[must_use]
pub fn is_cancelled(job: &JobView<'_>, me: &Member, run: &RunId) -> bool {
    let of_it = |verdict: &Verdict| {
        let shard = verdict.run.shard == run.shard || verdict.shards.contains(run.shard);
        verdict.run.fire == run.fire && shard && verdict.reason.ends_with(MANUAL)
    };
    attempts::verdicts(job, me).iter().any(of_it)
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
    local.commands.is_cancelled(&given.run).then(|| MANUAL.into())
}
