//! Lists of runs: `GET /api/v1/runs`.

use evenkeel_client::requests::RunListQuery;
use std::collections::BTreeSet;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::{AttemptState as RunState, RunFilter};
use evenkeel_core::ids::JobName;

use super::events::when;
use super::row_limit::row_limit;
use super::{ApiError, App, fanout, jobs, namespaces, waiting};
use crate::queries::explain::WaitingRuns;
use crate::{queries, text_input, zones};
use evenkeel_client::types::RunPage;

/// The maximum and the default number of rows of a page.
const PAGE_MAX: u32 = 1_000;
const PAGE: u32 = 100;

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<RunListQuery>, QueryRejection>,
) -> Result<Json<RunPage>, ApiError> {
    let Query(page) = page?;
    let states = page
        .state
        .iter()
        .flat_map(|states| states.split(',').map(str::trim))
        .map(state)
        .collect::<Result<Vec<_>, _>>()?;
    let now = zones::now();
    let since = page.since.as_deref().map(|text| when("since", text, now)).transpose()?;
    let until = page.until.as_deref().map(|text| when("until", text, now)).transpose()?;
    let limit = row_limit("limit", page.limit, (PAGE, PAGE_MAX))?;
    let from = page.before.as_deref().map(fanout::read).transpose()?;
    // Waiting runs that no history has are beside the first page.
    let is_first = from.is_none();
    let waits = is_first && page.node.is_none() && (states.is_empty() || states.contains(&RunState::Waiting));
    let (job, namespace) = (page.job, page.namespace);
    namespaces::known(&app, namespace.as_ref())?;
    let filter = RunFilter {
        job: job.clone(),
        namespace: namespace.clone(),
        node: page.node,
        since,
        until,
        states,
        limit,
        ..RunFilter::default()
    };
    let fanout::MergedPage { rows, next, missing } = fanout::runs(&app, filter, from).await?;
    let is_unknown = |job: &&JobName| is_first && rows.is_empty() && !queries::is_job(&app.handle, job);
    if let Some(job) = job.as_ref().filter(is_unknown) {
        return Err(jobs::unknown(&app.handle, job));
    }
    let mut found = if waits {
        waiting::all(&app, job.as_ref(), namespace.as_ref()).await
    } else {
        WaitingRuns::default()
    };
    let known: BTreeSet<String> = rows.iter().map(|record| record.run.to_string()).collect();
    let is_meant = |due: &str| {
        let due = zones::when(due, now).ok();
        due.is_none_or(|due| since.is_none_or(|since| due >= since) && until.is_none_or(|until| due < until))
    };
    found.rows.retain(|row| !known.contains(&row.run) && is_meant(&row.due));
    let cut = found.rows.len().saturating_sub(limit as usize);
    found.rows.truncate(limit as usize);
    Ok(Json(RunPage {
        runs: rows.iter().map(queries::run_row).collect(),
        waiting: found.rows,
        waiting_more: found.more + cut,
        before: next.as_ref().map(fanout::written),
        missing: missing.iter().map(ToString::to_string).collect(),
    }))
}

fn state(text: &str) -> Result<RunState, ApiError> {
    let known = text_input::one_of("state", text, &RunState::ALL.map(RunState::as_str));
    let known = known.map_err(ApiError::invalid)?;
    RunState::parse(known).ok_or_else(|| ApiError::internal(format!("{known} is listed and not read")))
}
