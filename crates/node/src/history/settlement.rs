//! What the fires of a batch count as, once they have an outcome.
//!
//! A fire counts by its last attempt that came to an outcome. One that is cut off counts by the verdict on it, since the
//! verdict alone says whether another attempt follows; that attempt may be in another node's history.

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, RunId, Shard};
use evenkeel_core::lifecycle;

use super::draft::{BatchDraft, shards_of};
use super::entry::{HistoryWrite, VerdictFires};
use super::record::{AttemptState, RunRecord};
use super::summary::counts::CountDelta;
use super::summary::mark::{FireClass, contribution, late_start};
use super::summary::tally::fires_by_hour;

/// Counts the fires that an entry settles, after the draft has taken it.
pub(super) fn count(draft: &mut BatchDraft, entry: &HistoryWrite) {
    match entry {
        HistoryWrite::Outcome(record, _) => of_outcome(draft, record),
        HistoryWrite::Verdict(verdict, _, fires) => {
            let shards: Vec<Shard> = shards_of(verdict).collect();
            of_verdict(draft, verdict, &shards, fires);
        }
        _ => {}
    }
}

/// Counts the last attempt of a run, if its state is the one that history has.
fn of_outcome(draft: &mut BatchDraft, record: &RunRecord) {
    if draft.attempt_state(&record.run, record.attempt) == Some(record.state)
        && let Some(class) = class_of_end(record)
    {
        settle(draft, &record.run, record.attempt, class, &[]);
    }
}

/// The class of a run whose last attempt an executor ended: only that of a shadow is skipped.
fn class_of_end(record: &RunRecord) -> Option<FireClass> {
    match record.state {
        AttemptState::Skipped => Some(FireClass::of_skip(record.attempt, &record.reason)),
        state => FireClass::of_end(state),
    }
}

/// Counts the fires that a verdict is about.
fn of_verdict(draft: &mut BatchDraft, verdict: &Verdict, shards: &[Shard], fires: &VerdictFires) {
    if fires.elsewhere {
        return;
    }
    let Verdict { run, attempt, reason, .. } = verdict;
    let repeated = verdict.state == VerdictState::Lost && lifecycle::is_repeated(reason);
    let is_span = verdict.state == VerdictState::Skipped && *attempt <= 1;
    let hours = match (is_span, &run.fire) {
        (true, Fire::Due(_)) => fires_by_hour(fires.schedule.as_deref(), (verdict.from, verdict.due)),
        _ => Vec::new(),
    };
    for shard in shards {
        let run = RunId { shard: *shard, ..run.clone() };
        let class = match draft.attempt_state(&run, *attempt) {
            // A final result says more than a verdict.
            Some(AttemptState::Lost | AttemptState::Fenced)
                if verdict.state == VerdictState::Lost && !repeated =>
            {
                FireClass::Failed
            }
            Some(AttemptState::Skipped) if verdict.state == VerdictState::Skipped => {
                FireClass::of_skip(*attempt, reason)
            }
            _ => continue,
        };
        settle(draft, &run, *attempt, class, &hours);
    }
}

/// Counts a run by this attempt, in place of an earlier one. With `hours` it stands for a span of fires: so many in each.
fn settle(draft: &mut BatchDraft, run: &RunId, attempt: u32, class: FireClass, hours: &[(i64, i64)]) {
    let Some(lines) = draft.attempts.get_mut(run) else { return };
    if lines.iter().any(|line| line.record.attempt >= attempt && line.mark.class.is_some()) {
        return;
    }
    for line in lines.iter_mut() {
        if let Some(before) = line.mark.class.take() {
            let back = contribution(&line.record, before).reversed();
            draft.tally.add(&run.job, line.record.due, &back);
            line.touched = true;
        }
        if line.record.attempt != attempt {
            continue;
        }
        (line.mark.class, line.touched) = (Some(class), true);
        match hours {
            [] => draft.tally.add(&run.job, line.record.due, &contribution(&line.record, class)),
            hours => hours.iter().for_each(|(hour, fires)| {
                draft.tally.add_hour(&run.job, *hour, &CountDelta::of(class.kind(), *fires));
            }),
        }
    }
}

/// Counts the late starts of the batch whose attempts history has.
pub(super) fn count_late(draft: &mut BatchDraft) {
    for run in std::mem::take(&mut draft.late_starts) {
        let lines = draft.attempts.get_mut(&run).into_iter().flatten();
        for line in lines.filter(|line| line.record.attempt == 1 && !line.mark.late) {
            (line.mark.late, line.touched) = (true, true);
            draft.tally.add(&run.job, line.record.due, &late_start());
        }
    }
}
