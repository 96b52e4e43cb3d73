//! Explains why fires of a job are missing: ignored ones, skipped ones, and those that a notification reported.

use evenkeel::{AttemptState, Handle, RunFilter, RunRecord};
use evenkeel_core::record::NotificationRecord;

use super::context::ExplainContext;
use crate::api_types::{ExplanationRow, moment};

/// Explains past fires by the registry and this node's history.
pub(super) async fn explain(handle: &Handle, known: &ExplainContext, told: &mut ExplanationRow) {
    let since = moment(known.spec.since);
    told.fact("since", &since);
    if !known.job().schedule.is_empty() {
        let text = format!(
            "{since}: fires up to then are nobody's, for then it was created, switched on or given other times"
        );
        told.point("since", "control", text);
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
        told.fact("missed", moment(last.due));
        told.point("missed", "firing", missed(&last));
    }
    let record = handle.with_node(|node| node.view().find(&job).and_then(|job| job.notifications().cloned()));
    if let Some(text) = record.as_ref().and_then(overdue) {
        told.point("overdue", "notify", text);
    }
}

pub(super) fn missed(last: &RunRecord) -> String {
    let fires = match last.from == last.due {
        true => format!("the fire of {} did not run", moment(last.due)),
        false => format!("the fires of {} to {} did not run", moment(last.from), moment(last.due)),
    };
    format!("{fires}: {} (said by {})", last.reason, last.node)
}

pub(super) fn overdue(told: &NotificationRecord) -> Option<String> {
    let late = told.late.map(|due| format!("the fire of {} was late", moment(due)));
    let absent = told.absent.map(|due| format!("the fire of {} had no outcome in time", moment(due)));
    let all: Vec<String> = late.into_iter().chain(absent).collect();
    (!all.is_empty()).then(|| format!("{}; told last by {}", all.join(", "), told.by.node))
}
