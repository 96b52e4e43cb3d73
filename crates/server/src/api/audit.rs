//! Who asked for which change: `/api/v1/audit`.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::audit::AuditFilter;
use evenkeel_core::words::JobName;
use serde::Deserialize;

use super::events::when;
use super::{ApiError, App, elsewhere};
use crate::rows::{AuditPage, AuditRow};
use crate::zones;

/// The most rows of a page, and how many there are when nobody says.
const PAGE_MAX: u32 = 1_000;
const PAGE: u32 = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    job: Option<JobName>,
    node: Option<String>,
    who: Option<String>,
    since: Option<String>,
    until: Option<String>,
    limit: Option<u32>,
    before: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<AuditPage>, ApiError> {
    let Query(page) = page?;
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let now = zones::now();
    let since = page.since.as_deref().map(|text| when("since", text, now)).transpose()?;
    let until = page.until.as_deref().map(|text| when("until", text, now)).transpose()?;
    let from = page.before.as_deref().map(elsewhere::read).transpose()?;
    let filter =
        AuditFilter { job: page.job, node: page.node, who: page.who, since, until, limit, before: None };
    let elsewhere::Page { rows, next, missing } = elsewhere::audit(&app, filter, from).await?;
    Ok(Json(AuditPage {
        audit: rows.iter().map(AuditRow::of).collect(),
        before: next.as_ref().map(elsewhere::written),
        missing: missing.iter().map(ToString::to_string).collect(),
    }))
}
