//! Faults with fires that come due during a run.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, StopReason, Verdict};
use evenkeel_core::input::Input;
use evenkeel_core::job::Overlap;
use evenkeel_core::node::Node;
use evenkeel_core::time::Now;

use super::commits::{change_run_states, declarations};
use crate::mutation::Mutation;

/// Gives up fires that were not to wait, without a verdict.
pub(super) struct HidesSkippedFires;

impl Mutation for HidesSkippedFires {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        change_run_states(
            node,
            effects,
            &[
                CommitKind::Finish,
                CommitKind::FinishAndClaim,
                CommitKind::ClaimFire,
                CommitKind::WaitForRetry,
                CommitKind::Retry,
            ],
            |run_state, _| {
                run_state.verdicts.retain(|v: &Verdict| !v.reason.contains("while the run before"));
            },
        );
    }
}

/// Ends runs for a later fire that does not exist.
pub(super) struct ReplacesWithoutFire;

impl Mutation for ReplacesWithoutFire {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        if effects.iter().any(|effect| matches!(effect, Effect::Renew(_))) {
            let going =
                node.local().runs().iter().map(|(_, given)| given).filter(|given| given.ended.is_none());
            effects.extend(going.map(|given| Effect::Stop(given.run.clone(), StopReason::Replaced)));
        }
    }
}

/// Treats every job as one whose fires wait as long as they are not too late.
pub(super) struct QueuesEveryFire;

impl Mutation for QueuesEveryFire {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| job.overlap = Overlap::Forbid);
    }
}

/// Ignores every limit of concurrent runs.
pub(super) struct IgnoresRunLimit;

impl Mutation for IgnoresRunLimit {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| {
            if matches!(job.overlap, Overlap::Limit(_)) {
                job.overlap = Overlap::Allow;
            }
        });
    }
}

/// Closes all runs of a job when one of them ends.
pub(super) struct ClosesConcurrentRuns;

impl Mutation for ClosesConcurrentRuns {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        change_run_states(node, effects, &[CommitKind::Finish], |run_state, _| run_state.open.clear());
    }
}

/// Counts fires that follow runs from when the last one was due.
pub(super) struct CountsFromDue;

impl Mutation for CountsFromDue {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        change_run_states(node, effects, &[CommitKind::Finish], |run_state, known| {
            run_state.watermark = known.map_or(run_state.watermark, |known| known.watermark);
        });
    }
}
