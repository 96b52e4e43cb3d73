//! Node events over HTTP: `/api/v1/events`.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::EventFilter;
use evenkeel_client::requests::EventListQuery;
use evenkeel_core::time::Wall;

use super::row_limit::row_limit;
use super::{ApiError, App, fanout, namespaces};
use crate::record_rows;
use crate::{cli, queries, zones};
use evenkeel_client::types::EventPage;

/// The maximum and the default number of rows of a page.
const PAGE_MAX: u32 = 1_000;
const PAGE: u32 = 100;

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<EventListQuery>, QueryRejection>,
) -> Result<Json<EventPage>, ApiError> {
    let Query(page) = page?;
    let limit = row_limit("limit", page.limit, (PAGE, PAGE_MAX))?;
    let since = page.since.as_deref().map(|text| when("since", text, zones::now())).transpose()?;
    let kind = page.kind.as_deref().map(cli::event_kind).transpose().map_err(ApiError::invalid)?;
    let from = page.before.as_deref().map(fanout::read).transpose()?;
    namespaces::known(&app, page.namespace.as_ref())?;
    let (node, is_first) = (page.node, from.is_none());
    let (namespace, before) = (page.namespace, None);
    let filter = EventFilter { node: node.clone(), kind, namespace, since, limit, before };
    let fanout::MergedPage { rows, next, missing } = fanout::events(&app, filter, from).await?;
    let mut warnings = Vec::new();
    if let Some(node) = node.filter(|_| is_first && rows.is_empty()) {
        let ever = EventFilter { node: Some(node.clone()), limit: 1, ..EventFilter::default() };
        let has_told = !fanout::events(&app, ever, None).await?.rows.is_empty();
        warnings.extend(queries::unknown_node(&app.handle, &node).filter(|_| !has_told));
    }
    Ok(Json(EventPage {
        events: rows.iter().map(record_rows::event_row).collect(),
        before: next.as_ref().map(fanout::written),
        missing: missing.iter().map(ToString::to_string).collect(),
        warnings,
    }))
}

/// Parses a moment as RFC 3339, or a span before now.
pub(super) fn when(what: &str, text: &str, now: Wall) -> Result<Wall, ApiError> {
    zones::when(text, now).map_err(|fix| ApiError::invalid(format!("{what} is {text:?}: {fix}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_span_or_a_moment() {
        let now = Wall(1_000_000_000);
        assert_eq!(when("since", "10m", now).expect("a span"), Wall(1_000_000_000 - 600_000));
        assert_eq!(when("since", "1970-01-01T00:00:02Z", now).expect("a moment"), Wall(2_000));
        assert!(when("since", "yesterday", now).is_err());
    }
}
