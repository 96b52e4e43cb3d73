//! Explanations over HTTP: `/api/v1/jobs/{name}/explain` and `/api/v1/runs/{run}/explain`.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use evenkeel::RunStateError;
use evenkeel_core::ids::JobName;

use super::jobs::unknown;
use super::run_target::RunTarget;
use super::{ApiError, App, attempts, fanout};
use crate::queries;
use evenkeel_client::types::ExplanationRow;

pub(super) async fn job(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
) -> Result<Json<ExplanationRow>, ApiError> {
    let Path(name) = name?;
    let troubles = fanout::troubles(&app).await;
    let told = queries::explain::job(&app.handle, &name, &troubles).await?;
    told.map(Json).ok_or_else(|| unknown(&app.handle, &name))
}

pub(super) async fn run(
    State(app): State<App>,
    run: Result<Path<RunTarget>, PathRejection>,
) -> Result<Json<ExplanationRow>, ApiError> {
    let Path(run) = run?;
    let run = run.one(&app)?;
    let attempts = attempts::of_run(&app, &run).await?;
    let troubles = fanout::troubles(&app).await;
    Ok(Json(queries::explain::run(&app.handle, &run, &attempts, &troubles).await?))
}

impl From<RunStateError> for ApiError {
    fn from(error: RunStateError) -> Self {
        Self::unavailable(error.to_string())
    }
}
