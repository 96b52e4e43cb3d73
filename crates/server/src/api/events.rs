//! What happened to nodes: `/api/v1/events`.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel::EventFilter;
use evenkeel_core::time::{Millis, Wall};
use jiff::Timestamp;
use serde::Deserialize;

use super::{ApiError, App, elsewhere};
use crate::rows::{EventPage, EventRow};
use crate::{settings, zones};

/// The most rows of a page, and how many there are when nobody says.
const PAGE_MAX: u32 = 1_000;
const PAGE: u32 = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    node: Option<String>,
    kind: Option<String>,
    since: Option<String>,
    limit: Option<u32>,
    before: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<EventPage>, ApiError> {
    let Query(page) = page?;
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let since = page.since.as_deref().map(|text| when("since", text, zones::now())).transpose()?;
    let kind = page.kind.map(|kind| evenkeel::event_kind(&kind).map_or(kind, ToOwned::to_owned));
    let from = page.before.as_deref().map(elsewhere::read).transpose()?;
    let filter = EventFilter { node: page.node, kind, since, limit, before: None };
    let elsewhere::Page { rows, next, missing } = elsewhere::events(&app, filter, from).await?;
    Ok(Json(EventPage {
        events: rows.iter().map(EventRow::of).collect(),
        before: next.as_ref().map(elsewhere::written),
        missing: missing.iter().map(ToString::to_string).collect(),
    }))
}

/// A moment as RFC 3339, or a span before now.
pub(super) fn when(what: &str, text: &str, now: Wall) -> Result<Wall, ApiError> {
    if let Some(span) = settings::span(text) {
        return Ok(now - Millis(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)));
    }
    let moment: Option<Timestamp> = text.parse().ok();
    moment.map(|at| Wall(at.as_millisecond())).ok_or_else(|| {
        ApiError::invalid(format!(
            "{what} is {text:?}: write how long ago, like 10m or 2d, or a moment like 2026-03-01T22:30:00Z"
        ))
    })
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
