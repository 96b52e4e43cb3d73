//! How many fires are due in a time to come: `GET /api/v1/forecast`.

mod cache;

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel_core::forecast::ForecastScope;
use evenkeel_core::ids::Namespace;
use evenkeel_core::job::JobSelector;
use evenkeel_core::schedule::ForecastWindow;
use schemars::JsonSchema;
use serde::Deserialize;

use super::row_limit::row_limit;
use super::{ApiError, App, namespaces};
use crate::api_types::{ForecastAnswer, ForecastStep};
use crate::zones;
pub(crate) use cache::ForecastCache;
use cache::ForecastKey;

/// The usual and the maximum number of hours.
const HOURS: (u32, u32) = (24, 48);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForecastQuery {
    /// Only jobs of this namespace.
    #[schemars(with = "Option<String>")]
    namespace: Option<Namespace>,
    /// Only jobs whose labels meet all these conditions, as `team=billing|sales,!legacy`.
    label: Option<String>,
    /// From this moment on, as `2026-03-01T22:30:00Z`; from the present minute or hour if left out. The first step is the one
    /// that has this moment, with all of its fires.
    since: Option<String>,
    /// How many hours, from 1 to 48; 24 if left out.
    hours: Option<u32>,
    /// The length of a step: `minute` or `hour`.
    #[serde(default)]
    step: ForecastStep,
}

/// Counts the fires that are due.
pub(super) async fn forecast(
    State(app): State<App>,
    asked: Result<Query<ForecastQuery>, QueryRejection>,
) -> Result<Json<Arc<ForecastAnswer>>, ApiError> {
    let Query(ForecastQuery { namespace, label, since, hours, step }) = asked?;
    namespaces::known(&app, namespace.as_ref())?;
    let hours = row_limit("hours", hours, HOURS)?;
    let labels = label.as_deref().map(str::parse::<JobSelector>).transpose()?;
    let now = zones::now();
    let wrong = |why| ApiError::invalid(format!("since: {why}"));
    let from = since.map_or(Ok(now), |since| zones::when(&since, now)).map_err(wrong)?;
    let minutes = step.minutes();
    let steps = usize::try_from(hours * 60 / minutes).unwrap_or(0);
    let window = ForecastWindow::new(from, minutes, steps);
    let key = ForecastKey { namespace: namespace.clone(), label, begin: window.begin(), steps, step };
    app.forecasts.get(&app.handle, key, ForecastScope { namespace, labels }, window).await.map(Json)
}
