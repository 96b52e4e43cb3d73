//! Faults with retries.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, Verdict, VerdictState};
use evenkeel_core::input::{Input, RunEvent, RunOutcome};
use evenkeel_core::keys::{ParsedKey, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{Plan, Record, RetryWait, RunState, ShardRunState, decode, encode};
use evenkeel_core::registry::{Value, Write};
use evenkeel_core::time::{Now, Wall};

use super::commits::{change_run_states, commits};
use crate::mutation::Mutation;

/// Changes the waits and the verdicts in transactions of these kinds, in each placement.
fn entries(
    effects: &mut [Effect],
    kinds: &[CommitKind],
    change: impl Fn(Vec<&mut RetryWait>, &mut Vec<Verdict>),
) {
    fn changed<T: Record>(value: &mut Value, change: impl FnOnce(&mut T)) {
        if let Some(mut record) = decode::<T>(value) {
            change(&mut record);
            *value = encode(&record);
        }
    }
    for write in commits(effects, kinds).flat_map(|txn| &mut txn.writes) {
        let Write::Put { key, value, .. } = write else { continue };
        match parse(key) {
            Some(ParsedKey::RunState(_)) => changed::<RunState>(value, |run_state| {
                let waits = run_state.open.iter_mut().filter_map(|open| open.wait.as_mut());
                change(waits.collect(), &mut run_state.verdicts);
            }),
            Some(ParsedKey::ShardRunState(..)) => changed::<ShardRunState>(value, |run_state| {
                let waits = run_state.open.iter_mut().filter_map(|open| open.wait.as_mut());
                change(waits.collect(), &mut run_state.verdicts);
            }),
            Some(ParsedKey::Plan(_)) => changed::<Plan>(value, |plan| {
                let waits = plan.runs.iter_mut().filter_map(|run| run.wait.as_mut());
                change(waits.collect(), &mut plan.verdicts);
            }),
            _ => {}
        }
    }
}

/// Retries a run without a wait.
pub(super) struct SkipsRetryDelay;

impl Mutation for SkipsRetryDelay {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        entries(effects, &[CommitKind::WaitForRetry, CommitKind::Finish], |waits, _| {
            waits.into_iter().for_each(|wait| wait.until = Wall::MIN);
        });
    }
}

/// Treats every end as a failure.
pub(super) struct RetriesEveryEnd;

impl Mutation for RetriesEveryEnd {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        if let Input::Run { event: RunEvent::Ended(ended @ RunOutcome::Succeeded), .. } = input {
            *ended = RunOutcome::Failed(Some(1));
        }
    }
}

/// Gives up retries without a verdict.
pub(super) struct HidesGivenUpRetries;

impl Mutation for HidesGivenUpRetries {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        entries(effects, &[CommitKind::GiveUp, CommitKind::Finish, CommitKind::Withdraw], |_, verdicts| {
            verdicts.retain(|v| v.state != VerdictState::Skipped || v.attempt == 0);
        });
    }
}

/// Retries a failed run under the token of the failed attempt.
pub(super) struct ReusesTokenOnRetry;

impl Mutation for ReusesTokenOnRetry {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        change_run_states(node, effects, &[CommitKind::Retry], |run_state, known| {
            for open in &mut run_state.open {
                let before = known.and_then(|known| known.open_of(&open.fire));
                open.seq = before.map_or(open.seq, |before| before.seq);
            }
        });
    }
}
