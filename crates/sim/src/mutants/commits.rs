//! Faults in effects of nodes: transactions and starts that differ from what the rules decided.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, Event};
use evenkeel_core::input::Input;
use evenkeel_core::job::JobFile;
use evenkeel_core::keys::{ParsedKey, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{RunState, SpecRecord, TriggerRecord, decode, encode};
use evenkeel_core::registry::{Guard, Txn, TxnOutcome, Write};
use evenkeel_core::time::Mono;

use crate::mutation::Mutation;

/// The transactions of these kinds, among the effects of a node's last step.
pub(super) fn commits<'a>(
    effects: &'a mut [Effect],
    kinds: &'a [CommitKind],
) -> impl Iterator<Item = &'a mut Txn> {
    effects.iter_mut().filter_map(|effect| match effect {
        Effect::Commit { kind, txn, .. } if kinds.contains(kind) => Some(txn),
        _ => None,
    })
}

/// Changes the run states in transactions of these kinds; passes on the node's own copy of each.
pub(super) fn change_run_states(
    node: &Node,
    effects: &mut [Effect],
    kinds: &[CommitKind],
    change: impl Fn(&mut RunState, Option<&RunState>),
) {
    for write in commits(effects, kinds).flat_map(|txn| &mut txn.writes) {
        let Write::Put { key, value, .. } = write else { continue };
        let Some(ParsedKey::RunState(job)) = parse(key) else { continue };
        let Some(mut run_state) = decode::<RunState>(value) else { continue };
        let id = node.view().id(&job);
        let known = id.and_then(|id| node.view().job(id).held()).and_then(|held| held.record());
        change(&mut run_state, known);
        *value = encode(&run_state);
    }
}

/// Changes the declarations that a node reads.
pub(super) fn declarations(input: &mut Input, change: impl Fn(&mut JobFile)) {
    let changes = match input {
        Input::Listed(Some(batch)) | Input::Changed(batch) => &mut batch.changes,
        Input::Committed { outcome: TxnOutcome::Refused(found), .. } => found,
        _ => return,
    };
    for entry in changes.iter_mut().filter_map(|change| change.entry.as_mut()) {
        if let Some(SpecRecord::Live(mut spec)) = decode(&entry.value) {
            if let Ok(job) = spec.job.changed(&change) {
                spec.job = job;
            }
            entry.value = encode(&SpecRecord::Live(spec));
        }
    }
}

/// Removes all guards from transactions of this kind.
pub(super) struct UnguardedCommits(pub(super) &'static [CommitKind]);

impl Mutation for UnguardedCommits {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        commits(effects, self.0).for_each(|txn| txn.guards.clear());
    }
}

/// The commits that claim a fire of a claimed job.
pub(super) const CLAIMS: [CommitKind; 2] = [CommitKind::ClaimFire, CommitKind::FinishAndClaim];

/// Claims and plans fires without the guard on calendars.
pub(super) struct SkipsCalendarGuard;

impl Mutation for SkipsCalendarGuard {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let calendar = |guard: &Guard| matches!(guard, Guard::At(key, _) if matches!(parse(key), Some(ParsedKey::Calendar(_))));
        use CommitKind as K;
        let kinds =
            [K::ClaimFire, K::FinishAndClaim, K::ClaimShards, K::Plan, K::Accept, K::Skip, K::FollowSchedule];
        commits(effects, &kinds).for_each(|txn| txn.guards.retain(|guard| !calendar(guard)));
    }
}

/// Takes jobs over without the guard that their owner is absent.
pub(super) struct SkipsAbsenceGuard;

impl Mutation for SkipsAbsenceGuard {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let absent = |guard: &Guard| matches!(guard, Guard::Absent(key) if matches!(parse(key), Some(ParsedKey::Node(_))));
        commits(effects, &[CommitKind::TakeOver]).for_each(|txn| txn.guards.retain(|guard| !absent(guard)));
    }
}

/// Takes jobs over without the guard against a second takeover.
pub(super) struct SkipsTakeoverGuard;

impl Mutation for SkipsTakeoverGuard {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let at = |guard: &Guard| matches!(guard, Guard::At(..));
        commits(effects, &[CommitKind::TakeOver]).for_each(|txn| txn.guards.retain(|guard| !at(guard)));
    }
}

/// Retries a lost run under the token of the previous attempt.
pub(super) struct ReusesTokenAfterLoss;

impl Mutation for ReusesTokenAfterLoss {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        change_run_states(node, effects, &[CommitKind::TakeOver, CommitKind::Settle], |run_state, known| {
            for open in &mut run_state.open {
                let before = known.and_then(|known| known.open_of(&open.fire));
                open.seq = before.map_or(open.seq, |before| before.seq);
            }
        });
    }
}

/// Drops verdicts with the next write, whether history has them or not.
pub(super) struct DropsVerdicts;

impl Mutation for DropsVerdicts {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        let kinds = [CommitKind::ClaimFire, CommitKind::Finish, CommitKind::FinishAndClaim];
        change_run_states(node, effects, &kinds, |run_state, known| {
            let old = known.map(|k| k.verdicts.clone()).unwrap_or_default();
            run_state.verdicts.retain(|v| !old.contains(v));
        });
    }
}

/// Withdraws a fire and leaves the watermark where the claim had moved it.
pub(super) struct KeepsWithdrawnWatermark;

impl Mutation for KeepsWithdrawnWatermark {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        change_run_states(
            node,
            effects,
            &[CommitKind::Withdraw, CommitKind::Release, CommitKind::HandOver],
            |run_state, known| {
                run_state.watermark = known.map_or(run_state.watermark, |k| k.watermark);
            },
        );
    }
}

/// Claims a fire and leaves the watermark where it was.
pub(super) struct SkipsWatermark;

impl Mutation for SkipsWatermark {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        change_run_states(node, effects, &CLAIMS, |run_state, _| {
            if let Some(open) = run_state.open.last() {
                run_state.watermark = open.back;
            }
        });
    }
}

/// Claims a requested run, and does not write that it did.
pub(super) struct SkipsRequestWrite;

impl Mutation for SkipsRequestWrite {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for write in commits(effects, &CLAIMS).flat_map(|txn| &mut txn.writes) {
            if let Write::Put { key, value, .. } = write
                && let Some(ParsedKey::Triggers(_)) = parse(key)
                && let Some(mut record) = decode::<TriggerRecord>(value)
            {
                record.requests.iter_mut().for_each(|request| request.taken = false);
                *value = encode(&record);
            }
        }
    }
}

/// Changes a job's spec but not its assignment, so that a guard on the assignment proves nothing.
pub(super) struct SkipsAssignmentWrite;

impl Mutation for SkipsAssignmentWrite {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        let place = |write: &Write| matches!(parse(write.key()), Some(ParsedKey::Assignment(_)));
        let kinds = [
            CommitKind::DeleteJob,
            CommitKind::PauseOrResume,
            CommitKind::EnableOrDisable,
            CommitKind::UpdateJob,
        ];
        commits(effects, &kinds).for_each(|txn| txn.writes.retain(|write| !place(write)));
    }
}

/// Starts runs however late.
pub(super) struct IgnoresNotAfter;

impl Mutation for IgnoresNotAfter {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        for effect in effects {
            if let Effect::Start(run) = effect {
                run.not_after = Mono(i64::MAX);
            }
        }
    }
}

/// No guard process ends the runs of a node that has lost its trust.
pub(super) struct NoGuardProcess;

impl Mutation for NoGuardProcess {
    fn guards(&self) -> bool {
        false
    }
}

/// The guard of a dead process removes its member while runs still end.
pub(super) struct RemovesBeforeRunsEnd;

impl Mutation for RemovesBeforeRunsEnd {
    fn guard_awaits_runs(&self) -> bool {
        false
    }
}

/// The guard takes a stopped process for a dead one.
pub(super) struct TakesStoppedForDead;

impl Mutation for TakesStoppedForDead {
    fn guard_knows_death(&self) -> bool {
        false
    }
}

/// Raises no alarm.
pub(super) struct SuppressesAlarms;

impl Mutation for SuppressesAlarms {
    fn effects(&self, _node: &Node, effects: &mut Vec<Effect>) {
        effects.retain(|effect| !matches!(effect, Effect::Announce(Event::Alarm { .. })));
    }
}
