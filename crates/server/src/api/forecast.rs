//! How many fires are due in a time to come: `GET /api/v1/forecast`.

mod cache;

use evenkeel_client::requests::ForecastQuery;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel_core::forecast::ForecastScope;
use evenkeel_core::job::JobSelector;
use evenkeel_core::schedule::ForecastWindow;

use super::row_limit::row_limit;
use super::{ApiError, App, namespaces};
use crate::zones;
pub(crate) use cache::ForecastCache;
use cache::ForecastKey;
use evenkeel_client::types::ForecastAnswer;

/// The usual and the maximum number of hours.
const HOURS: (u32, u32) = (24, 48);

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
