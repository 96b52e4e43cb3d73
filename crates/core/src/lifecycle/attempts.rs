//! The attempts of a job that belong to a member, and whether a run that was given to an executor is one of them.

use alloc::vec::Vec;

use crate::effect::{StopReason, Verdict};
use crate::ids::{Member, RunId};
use crate::local::{Given, Local};
use crate::record::{Attempt, FailureStreak};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::view::JobView;

/// The attempts that are this member's by the registry, as far as it is known.
pub(super) fn own<'a>(job: &JobView<'a>, me: &'a Member) -> impl Iterator<Item = &'a Attempt> + use<'a> {
    let all: &[Attempt] = if job.is_sharded() {
        job.run_state_of(me).and_then(|known| known.run_state.value.as_ref()).map_or(&[], |known| &known.open)
    } else if job.is_dispatched() {
        job.plan().and_then(|plan| plan.known.value.as_ref()).map_or(&[], |plan| &plan.runs)
    } else if job.owner() == Some(me) {
        job.held().and_then(|held| held.record()).map_or(&[], |run_state| &run_state.open)
    } else {
        &[]
    };
    all.iter().filter(move |attempt| attempt.by == *me)
}

/// The verdicts of this job that the history may lack, from where this member writes them.
pub(super) fn verdicts<'a>(job: &JobView<'a>, me: &Member) -> &'a [Verdict] {
    if job.is_sharded() {
        let known = job.run_state_of(me).and_then(|known| known.run_state.value.as_ref());
        known.map_or(&[], |run_state| &run_state.verdicts)
    } else if job.is_dispatched() {
        job.plan().and_then(|plan| plan.known.value.as_ref()).map_or(&[], |plan| &plan.verdicts)
    } else {
        job.held().and_then(|held| held.record()).map_or(&[], |run_state| &run_state.verdicts)
    }
}

/// The runs in a row that ended badly, by where this member writes them.
pub(super) fn failures(job: &JobView<'_>, me: &Member) -> Option<FailureStreak> {
    if job.is_sharded() {
        Some(job.run_state_of(me)?.run_state.value.as_ref()?.failures)
    } else if job.is_dispatched() {
        Some(job.plan()?.known.value.as_ref()?.failures)
    } else if job.owner() == Some(me) {
        Some(job.held()?.record()?.failures)
    } else {
        None
    }
}

/// Whether a run that was given to an executor is a claimed attempt of this member.
#[must_use]
pub fn is_own(job: &JobView<'_>, me: &Member, given: &Given) -> bool {
    own(job, me).any(|attempt| {
        attempt.is_claimed()
            && attempt.fire == given.run.fire
            && attempt.attempt == given.attempt
            && attempt.shards.contains(given.run.shard)
    })
}

/// Whether a run is claimed by this member, and does not wait for its next attempt.
pub(crate) fn is_claimed(job: &JobView<'_>, me: &Member, run: &RunId) -> bool {
    own(job, me)
        .any(|attempt| attempt.is_claimed() && attempt.fire == run.fire && attempt.shards.contains(run.shard))
}

/// Runs that have ended and that the registry shows closed.
#[must_use]
pub fn closed(local: &Local, job: &JobView<'_>, me: Option<&Member>) -> Vec<RunId> {
    let ended = local.runs.of_job(job.id).map(|(_, given)| given).filter(|given| given.ended.is_some());
    let open = |given: &Given| me.is_some_and(|me| is_own(job, me, given));
    ended.filter(|given| !open(given)).map(|given| given.run.clone()).collect()
}

/// Ends runs that the registry does not show as this node's, whatever became of their entries. A run of a job without
/// monitoring has no entry once it started.
pub fn stop_orphans(ctx: &RuleContext<'_>, job: &JobView<'_>, out: &mut RuleOutput) {
    if ctx.me.is_some() && job.terms().is_some_and(|(_, shards)| !shards.monitor) {
        return;
    }
    for (_, given) in ctx.local.runs.of_job(job.id).filter(|(_, g)| g.ended.is_none() && !g.stopping) {
        if !is_own(job, ctx.member, given) {
            out.add(RuleAction::Stop(job.id, given.run.clone(), StopReason::Fenced));
        }
    }
}
