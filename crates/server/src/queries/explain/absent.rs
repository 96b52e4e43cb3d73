//! Explains why fires of a job are missing: ignored ones, skipped ones, and those that a notification reported.

use evenkeel::{AttemptState, Handle, RunFilter, RunRecord};
use evenkeel_core::record::NotificationRecord;

use super::context::ExplainContext;
use evenkeel_client::types::{ExplanationRow, moment};

/// Explains past fires by the registry and this node's history.
pub(super) async fn explain(handle: &Handle, known: &ExplainContext, explanation: &mut ExplanationRow) {
    let since = moment(known.spec.since);
    explanation.fact("since", &since);
    if known.job().schedule.is_some() {
        let text = format!(
            "{since}: fires up to then are not due, for then it was created, switched on or given other times"
        );
        explanation.point("since", "control", text);
    }
    let job = known.job().name.clone();
    let skipped = RunFilter {
        job: Some(job.clone()),
        states: vec![AttemptState::Skipped],
        limit: 1,
        ..RunFilter::default()
    };
    // If the history cannot be read now, the past is left out; what is to come is explained all the same.
    if let Some(last) = handle.runs(skipped).await.ok().and_then(|runs| runs.into_iter().next()) {
        explanation.fact("missed", moment(last.due));
        explanation.point("missed", "firing", missed(&last));
    }
    let record = handle.with_node(|node| node.view().find(&job).and_then(|job| job.notifications().cloned()));
    if let Some(text) = record.as_ref().and_then(overdue) {
        explanation.point("overdue", "notify", text);
    }
}

pub(super) fn missed(last: &RunRecord) -> String {
    let fires = match last.from == last.due {
        true => format!("the fire of {} did not run", moment(last.due)),
        false => format!("the fires of {} to {} did not run", moment(last.from), moment(last.due)),
    };
    format!("{fires}: {} (said by {})", last.reason, last.node)
}

pub(super) fn overdue(notified: &NotificationRecord) -> Option<String> {
    let late = notified.late.map(|due| format!("the fire of {} was late", moment(due)));
    let absent = notified.absent.map(|due| format!("the fire of {} had no outcome in time", moment(due)));
    let all: Vec<String> = late.into_iter().chain(absent).collect();
    (!all.is_empty()).then(|| format!("{}; last reported by {}", all.join(", "), notified.by.node))
}
