//! How many fires are due in a time to come: `GET /api/v1/forecast`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use evenkeel_core::ids::Namespace;
use evenkeel_core::job::JobSelector;
use evenkeel_core::schedule::ForecastWindow;
use evenkeel_core::time::{Millis, Mono, Wall};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::row_limit::row_limit;
use super::{ApiError, App, namespaces};
use crate::api_types::{ForecastAnswer, ForecastStep};
use crate::queries::{self, ForecastScope};
use crate::zones;

/// The usual and the maximum number of hours.
const HOURS: (u32, u32) = (24, 48);
/// How long an answer is good for: what is not declared, such as which nodes are eligible, may have changed.
const GOOD_FOR: Millis = Millis::secs(60);
/// How many answers are kept.
const KEPT: usize = 16;

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

/// What a forecast is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ForecastKey {
    namespace: Option<Namespace>,
    label: Option<String>,
    begin: Wall,
    steps: usize,
    step: ForecastStep,
}

/// A forecast that was made.
#[derive(Debug)]
struct KnownForecast {
    /// The declarations of which it was made.
    version: u64,
    made: Mono,
    answer: Arc<ForecastAnswer>,
}

/// The latest forecasts. One is made at a time, so that callers do not keep all processors busy.
#[derive(Debug, Default)]
pub(crate) struct ForecastCache(Mutex<BTreeMap<ForecastKey, KnownForecast>>);

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
    app.forecasts.get(&app, key, ForecastScope { namespace, labels }, window).await.map(Json)
}

impl ForecastCache {
    /// The forecast, made anew unless it is known and still good.
    async fn get(
        &self,
        app: &App,
        key: ForecastKey,
        scope: ForecastScope,
        window: ForecastWindow,
    ) -> Result<Arc<ForecastAnswer>, ApiError> {
        let mut known = self.0.lock().await;
        let (handle, step, made) = (app.handle.clone(), key.step, evenkeel::clock::now().mono);
        known.retain(|_, known| made - known.made < GOOD_FOR);
        let old = known.get(&key).map(|known| (known.version, known.answer.clone()));
        let work = move || {
            // First the version: what changes meanwhile makes the answer an old one.
            let version = handle.with_node(|node| node.view().timing_version());
            match old {
                Some((known, answer)) if known == version => (version, answer, false),
                _ => (version, Arc::new(queries::forecast(&handle, &scope, &window, step)), true),
            }
        };
        let worked = tokio::task::spawn_blocking(work).await;
        let (version, answer, is_new) = worked.map_err(|e| ApiError::internal(e.to_string()))?;
        if is_new {
            if known.len() >= KEPT && !known.contains_key(&key) {
                let oldest = known.iter().min_by_key(|(_, known)| known.made).map(|(key, _)| key.clone());
                oldest.and_then(|oldest| known.remove(&oldest));
            }
            known.insert(key, KnownForecast { version, made, answer: answer.clone() });
        }
        Ok(answer)
    }
}
