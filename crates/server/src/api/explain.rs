//! Why: `/api/v1/jobs/{name}/explain` and `/api/v1/runs/{run}/explain`.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use evenkeel::LanesError;
use evenkeel_core::words::JobName;

use super::jobs::unknown;
use super::named::Named;
use super::runs::attempts;
use super::{ApiError, App, elsewhere};
use crate::board;
use crate::rows::Explained;

pub(super) async fn job(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
) -> Result<Json<Explained>, ApiError> {
    let Path(name) = name?;
    let troubles = elsewhere::troubles(&app).await;
    let told = board::explain::job(&app.handle, &name, &troubles).await?;
    told.map(Json).ok_or_else(|| unknown(&app.handle, &name))
}

pub(super) async fn run(
    State(app): State<App>,
    run: Result<Path<Named>, PathRejection>,
) -> Result<Json<Explained>, ApiError> {
    let Path(run) = run?;
    let run = run.one(&app)?;
    let attempts = attempts(&app, &run).await?;
    let troubles = elsewhere::troubles(&app).await;
    Ok(Json(board::explain::run(&app.handle, &run, &attempts, &troubles).await?))
}

impl From<LanesError> for ApiError {
    fn from(error: LanesError) -> Self {
        Self::unavailable(error.to_string())
    }
}
