//! The notices that follow from the results of a batch.

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{RunId, Shard};
use evenkeel_core::job::Occasion;
use evenkeel_core::time::Wall;

use super::BatchDraft;
use crate::history::notice::NoticePolicy;
use crate::history::record::{AttemptState, RunRecord};

/// Creates the notices that follow from the last attempt of a run, when history receives it for the first time.
pub(super) fn of_outcome(draft: &mut BatchDraft, record: &RunRecord, item: Option<&NoticePolicy>) {
    let RunRecord { job, run, attempt, node, .. } = record;
    let (occasion, text) = match record.state {
        AttemptState::Failed | AttemptState::TimedOut => {
            draft.fail(job, record.shard);
            let why = if record.reason.is_empty() { record.state.as_str() } else { &record.reason };
            (Occasion::Failure, format!("job {job} failed on {node}: {why} (run {run}, attempt {attempt})"))
        }
        AttemptState::Succeeded => match draft.heal(job, record.shard) {
            Some(since) => (
                Occasion::Recovery,
                format!(
                    "job {job} succeeds again on {node} after failing since {since} (run {run}, attempt {attempt})"
                ),
            ),
            None => return,
        },
        // An operator ended it and knows; for one that was cut off a verdict follows.
        AttemptState::Killed
        | AttemptState::Fenced
        | AttemptState::Lost
        | AttemptState::Skipped
        | AttemptState::Running
        | AttemptState::Waiting => {
            return;
        }
    };
    add_notice(draft, item, occasion, run, (*attempt, record.due), text);
}

/// Creates the notices of a verdict on these shards of a fire; `new` are those that history has for the first time.
pub(super) fn of_verdict(
    draft: &mut BatchDraft,
    verdict: &Verdict,
    (shards, new): (&[Shard], &[Shard]),
    item: Option<&NoticePolicy>,
) {
    let Verdict { run, attempt, due, reason, from, node, .. } = verdict;
    let job = &run.job;
    let cut_off = |draft: &BatchDraft, shard: Shard, attempt: u32| {
        let stands = draft.attempt_state(&RunId { shard, ..run.clone() }, attempt);
        matches!(stands, Some(AttemptState::Lost | AttemptState::Fenced))
    };
    let (failed, occasion, text): (Vec<Shard>, _, _) = match verdict.state {
        VerdictState::Lost => {
            // A final result says more than a verdict; that the attempt was cut off says the same.
            let failed = shards.iter().copied().filter(|shard| cut_off(draft, *shard, *attempt));
            let text = format!("job {job}: it is not known how run {run} ended on {node}: {reason}");
            (failed.collect(), Occasion::Lost, text)
        }
        VerdictState::Skipped if *attempt > 1 => {
            // The attempt that will not be made was the last retry of a failed one, or followed a lost one.
            let failed = new.iter().copied().filter(|shard| !cut_off(draft, *shard, attempt - 1));
            let text =
                format!("job {job} failed, and its attempt {attempt} will not be made: {reason} (run {run})");
            (failed.collect(), Occasion::Failure, text)
        }
        VerdictState::Skipped => {
            let fires = if from == due {
                format!("its fire of {due}")
            } else {
                format!("its fires of {from} to {due}")
            };
            if !new.is_empty() {
                let text = format!("job {job} does not run for {fires}: {reason}");
                add_notice(draft, item, Occasion::Miss, run, (*attempt, *due), text);
            }
            return;
        }
    };
    for shard in &failed {
        draft.fail(job, *shard);
    }
    if !failed.is_empty() {
        add_notice(draft, item, occasion, run, (*attempt, *due), text);
    }
}

fn add_notice(
    draft: &mut BatchDraft,
    item: Option<&NoticePolicy>,
    occasion: Occasion,
    run: &RunId,
    (attempt, due): (u32, Wall),
    text: String,
) {
    let Some(item) = item else { return };
    if let Some(notice) = item.notice(occasion, run.clone(), (attempt, due), draft.now, text) {
        draft.add_notice(notice, &item.node);
    }
}
