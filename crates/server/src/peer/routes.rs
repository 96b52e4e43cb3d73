//! What nodes ask each other: what only the one that is asked can know or do. Nothing of it is handed on.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use evenkeel_core::input::{Answer, Command};
use evenkeel_core::node::Node;
use evenkeel_core::words::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{OUTPUT_PATIENCE, gate};
use crate::api::{ApiError, App, done, output};

/// What a node says of its part in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RoleBody {
    /// Who says it.
    pub(super) member: String,
    /// Whether it is the serving leader.
    pub(super) serving: bool,
    /// Of which epoch.
    pub(super) epoch: u64,
}

/// Which piece of an attempt's output.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Piece {
    /// Which attempt.
    pub(crate) attempt: u32,
    /// From which byte on.
    pub(crate) offset: u64,
    /// Whether to wait for some when there is none yet.
    pub(crate) follow: bool,
}

/// Everything that is answered to nodes, and to nobody else.
pub(crate) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/peer/v1/role", get(role))
        .route("/peer/v1/runs/{run}/kill", post(kill))
        .route("/peer/v1/runs/{run}/logs", get(logs).delete(forget))
        .layer(middleware::from_fn_with_state(app.clone(), gate::gate))
}

async fn role(State(app): State<App>) -> Json<RoleBody> {
    let member = app.handle.look(Node::member).map(|member| member.to_string());
    Json(RoleBody { member: member.unwrap_or_default(), serving: false, epoch: 0 })
}

async fn kill(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(run) = run?;
    done(app.handle.ask(Command::Kill(run)).await)
}

/// Removes what this node has of a run's output.
async fn forget(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(run) = run?;
    output::forget(&app, &run).await?;
    done(Answer::Done)
}

/// A piece of output; nothing when there is none yet, and no content when there will be no more.
async fn logs(
    State(app): State<App>,
    run: Result<Path<RunId>, PathRejection>,
    piece: Result<Query<Piece>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (Path(run), Query(piece)) = (run?, piece?);
    let found = output::piece(&app, &run, piece, OUTPUT_PATIENCE).await;
    match found.map_err(|e| ApiError::internal(e.to_string()))? {
        Some(data) => Ok(data.into_response()),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}
