//! The audit log over HTTP: `/api/v1/audit`.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::audit::{AuditFilter, Proof};
use evenkeel_client::requests::AuditListQuery;
use evenkeel_core::ids::JobName;

use super::events::when;
use super::row_limit::row_limit;
use super::{ApiError, App, fanout, namespaces};
use crate::record_rows;
use crate::{queries, text_input, zones};
use evenkeel_client::types::AuditPage;

/// The maximum and the default number of rows of a page.
const PAGE_MAX: u32 = 1_000;
const PAGE: u32 = 100;

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<AuditListQuery>, QueryRejection>,
) -> Result<Json<AuditPage>, ApiError> {
    let Query(page) = page?;
    let limit = row_limit("limit", page.limit, (PAGE, PAGE_MAX))?;
    namespaces::known(&app, page.namespace.as_ref())?;
    let now = zones::now();
    let since = page.since.as_deref().map(|text| when("since", text, now)).transpose()?;
    let until = page.until.as_deref().map(|text| when("until", text, now)).transpose()?;
    let from = page.before.as_deref().map(fanout::read).transpose()?;
    let (job, node, who) = (page.job, page.node, page.who);
    let filter = AuditFilter {
        job: job.clone(),
        namespace: page.namespace,
        node: node.clone(),
        who: who.clone(),
        since,
        until,
        limit,
        before: None,
    };
    let is_first = from.is_none();
    let fanout::MergedPage { rows, next, missing } = fanout::audit(&app, filter, from).await?;
    let warnings = match rows.is_empty() && is_first {
        true => unknown(&app, job, node, who).await?,
        false => Vec::new(),
    };
    Ok(Json(AuditPage {
        audit: rows.iter().map(record_rows::audit_row).collect(),
        before: next.as_ref().map(fanout::written),
        missing: missing.iter().map(ToString::to_string).collect(),
        warnings,
    }))
}

/// The names of the query that no job, no node and no entry has.
async fn unknown(
    app: &App,
    job: Option<JobName>,
    node: Option<String>,
    who: Option<String>,
) -> Result<Vec<String>, ApiError> {
    let any = AuditFilter { limit: 1, ..AuditFilter::default() };
    let mut warnings = Vec::new();
    if let Some(job) = job.filter(|job| !queries::is_job(&app.handle, job)) {
        let of_job = AuditFilter { job: Some(job.clone()), ..any.clone() };
        let is_told_of = has_entry(app, of_job).await?;
        warnings.extend((!is_told_of).then(|| queries::no_job(&app.handle, &job)));
    }
    if let Some(node) = node {
        let is_told_of = has_entry(app, AuditFilter { node: Some(node.clone()), ..any.clone() }).await?;
        warnings.extend(queries::unknown_node(&app.handle, &node).filter(|_| !is_told_of));
    }
    if let Some(who) = who.filter(|who| text_input::one_of("proof", who, &Proof::WORDS).is_err()) {
        let is_told_of = has_entry(app, AuditFilter { who: Some(who.clone()), ..any }).await?;
        let why = || text_input::one_of("proof", &who, &Proof::WORDS).err().unwrap_or_default();
        warnings.extend(
            (!is_told_of).then(|| format!("no entry is of a caller who says {who:?}, and {}", why())),
        );
    }
    Ok(warnings)
}

async fn has_entry(app: &App, filter: AuditFilter) -> Result<bool, ApiError> {
    Ok(!fanout::audit(app, filter, None).await?.rows.is_empty())
}
