//! Takeover: one commit assigns a dead owner's job to a new one and settles its open runs.

use alloc::format;
use alloc::vec::Vec;

use crate::effect::{Verdict, VerdictState};
use crate::ids::{RunId, Shard};
use crate::job::Delivery;
use crate::keys;
use crate::record::{Assignment, Open, RunState, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::RuleContext;
use crate::rules::firing::given_up;
use crate::shards::ShardSet;
use crate::view::{JobView, KnownEntry};

/// The takeover transaction. `gone` guards that the old owner is no member.
pub(crate) fn txn(
    ctx: &RuleContext<'_>,
    job: &JobView<'_>,
    run_state: &KnownEntry<RunState>,
    gone: Guard,
) -> Txn {
    let lane_key = keys::run_state(job.name());
    let guards =
        ctx.born().into_iter().chain([job.assignment_guard(), gone, run_state.guard(lane_key.clone())]);
    // A job that may not be owned is released; but the history needs a verdict on its last run.
    let told = run_state.value.as_ref().is_none_or(|l| l.open.is_empty() && l.verdicts.is_empty());
    let stays = job.is_enabled() && job.fits(ctx.member);
    let owner = (stays || !told).then(|| ctx.member.clone());
    let place = Assignment { owner, ..job.assignment().next() };
    let mut writes =
        Vec::from([Write::Put { key: keys::assignment(job.name()), value: encode(&place), owner: None }]);
    if let Some(run_state) = run_state.value.as_ref().filter(|l| !l.open.is_empty()) {
        let settled = settle(ctx, job, run_state, |_| true, "its node is gone");
        writes.push(Write::Put { key: lane_key, value: encode(&settled), owner: None });
    }
    Txn { guards: guards.collect(), writes }
}

/// The run state with its doubtful runs settled by the job's delivery: lost, or attempted again by this node.
pub(crate) fn settle(
    ctx: &RuleContext<'_>,
    job: &JobView<'_>,
    run_state: &RunState,
    is_doubtful: impl Fn(&Open) -> bool,
    why: &str,
) -> RunState {
    let mut settled = RunState { open: Vec::new(), seq: run_state.seq + 1, ..run_state.clone() };
    for open in &run_state.open {
        match is_doubtful(open) {
            true => settle_one(ctx, job, &mut settled, open.clone(), why),
            false => settled.open.push(open.clone()),
        }
    }
    settled
}

fn settle_one(ctx: &RuleContext<'_>, job: &JobView<'_>, run_state: &mut RunState, open: Open, why: &str) {
    if open.wait.is_some() {
        // Nothing was executing, so nothing is in doubt.
        return run_state.open.push(Open { by: ctx.member.clone(), ..open });
    }
    let spec = job.spec();
    let repeats = spec.as_ref().is_some_and(|s| s.job.enabled && s.job.delivery == Delivery::AtLeastOnce);
    let retries = spec.is_some_and(|s| s.job.retry.is_some());
    let then =
        if repeats { "another attempt follows" } else { "it is not repeated: delivery is at_most_once" };
    run_state.verdicts.push(Verdict {
        run: run_id(job, &open),
        attempt: open.attempt,
        due: open.due,
        state: VerdictState::Lost,
        reason: format!("{why}; {then}"),
        node: open.by.node.as_str().into(),
        from: open.due,
        shards: ShardSet::empty(),
    });
    if !repeats && retries {
        // It may have failed, and the history may expect another attempt.
        let (run, node) = (run_id(job, &open), open.by.node.as_str());
        run_state.verdicts.push(given_up(
            run,
            open.attempt + 1,
            open.due,
            node,
            "the attempt before is lost",
        ));
    }
    if !repeats && ctx.clock_agrees() && follows_runs(job) {
        // When it ended is unknown, but by now it has.
        run_state.watermark = run_state.watermark.max(ctx.now.wall);
    }
    if repeats {
        // Each attempt has a number of its own: tokens are made of them.
        let taken = run_state.open.iter().map(|other| other.seq + 1).max();
        run_state.seq = run_state.seq.max(taken.unwrap_or(0));
        run_state.open.push(Open {
            began: Some(open.began()),
            from: ctx.now.wall.max(open.due),
            by: ctx.member.clone(),
            attempt: open.attempt + 1,
            seq: run_state.seq,
            ..open
        });
    }
}

/// Whether the next fire is counted from the end of the run before.
fn follows_runs(job: &JobView<'_>) -> bool {
    let schedule = job.spec().and_then(|spec| spec.job.schedule().ok()).flatten();
    schedule.is_some_and(|schedule| schedule.follows_runs())
}

/// The run of an open fire. A claimed job has one shard.
pub(crate) fn run_id(job: &JobView<'_>, open: &Open) -> RunId {
    RunId { job: job.name().clone(), fire: open.fire.clone(), shard: Shard(0) }
}
