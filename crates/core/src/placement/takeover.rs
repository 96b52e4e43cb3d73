//! Takeover: one commit assigns a dead owner's job to a new one and settles its open runs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::keys;
use crate::lifecycle::JobRuns;
use crate::record::{Assignment, Attempt, RunState, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::RuleContext;
use crate::view::{JobView, KnownEntry};

/// The takeover transaction. `gone` guards that the old owner is no member.
pub(crate) fn txn(
    ctx: &RuleContext<'_>,
    job: &JobView<'_>,
    run_state: &KnownEntry<Box<RunState>>,
    gone: Guard,
) -> Txn {
    let run_state_key = keys::run_state(job.name());
    let guards =
        ctx.born().into_iter().chain([job.assignment_guard(), gone, run_state.guard(run_state_key.clone())]);
    // A job that may not be owned is released; but the history needs a verdict on its last run.
    let is_settled = run_state.value.as_ref().is_none_or(|l| l.open.is_empty() && l.verdicts.is_empty());
    let stays = job.is_enabled() && job.fits(ctx.member);
    let owner = (stays || !is_settled).then(|| ctx.member.clone());
    let place = Assignment { owner, ..job.assignment().next() };
    let mut writes =
        Vec::from([Write::Put { key: keys::assignment(job.name()), value: encode(&place), owner: None }]);
    if let Some(run_state) = run_state.value.as_ref().filter(|l| !l.open.is_empty()) {
        let settled = settle(&JobRuns::new(ctx, *job), run_state, |_| true, "its node is gone");
        writes.push(Write::Put { key: run_state_key, value: encode(&settled), owner: None });
    }
    Txn { guards: guards.collect(), writes }
}

/// The run state with its doubtful runs settled by the job's delivery: lost, or attempted again by this node.
pub(crate) fn settle(
    runs: &JobRuns<'_>,
    run_state: &RunState,
    is_doubtful: impl Fn(&Attempt) -> bool,
    why: &str,
) -> RunState {
    let mut settled = RunState { open: Vec::new(), seq: run_state.seq + 1, ..run_state.clone() };
    for attempt in &run_state.open {
        match is_doubtful(attempt) {
            true => settle_one(runs, &mut settled, attempt, why),
            false => settled.open.push(attempt.clone()),
        }
    }
    settled
}

fn settle_one(runs: &JobRuns<'_>, run_state: &mut RunState, attempt: &Attempt, why: &str) {
    let ctx = runs.ctx;
    match runs.settle(attempt, why, run_state.outcomes()) {
        Some(next) => {
            if next.wait.is_none() {
                // Each attempt has a number of its own: tokens are made of them.
                let taken = run_state.open.iter().map(|other| other.seq + 1).max();
                run_state.seq = run_state.seq.max(taken.unwrap_or(0));
            }
            run_state.open.push(runs.taken_over(next, run_state.seq));
        }
        // When it ended is unknown, but by now it has.
        None if ctx.clock_agrees() && follows_runs(&runs.job) => {
            run_state.watermark = run_state.watermark.max(ctx.now.wall);
        }
        None => {}
    }
}

/// Whether the next fire is counted from the end of the run before.
fn follows_runs(job: &JobView<'_>) -> bool {
    let schedule = job.spec().and_then(|spec| spec.job.schedule().ok()).flatten();
    schedule.is_some_and(|schedule| schedule.follows_runs())
}
