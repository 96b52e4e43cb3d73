//! Shards over HTTP: `/api/v1/jobs/{name}/shards` and below.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use evenkeel_client::requests::ShardListQuery;
use evenkeel_core::ids::JobName;
use evenkeel_core::input::Command;
use evenkeel_core::shards::ShardSet;
use serde_json::Value;

use super::audited::{AuditedRequest, find_verb};
use super::body::EmptyBody;
use super::error::done;
use super::jobs::unknown;
use super::{ApiError, App};
use crate::queries;

pub(super) async fn list(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
    wanted: Result<Query<ShardListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (Path(name), Query(wanted)) = (name?, wanted?);
    let page = queries::shards(&app.handle, &name).await.map_err(ApiError::unavailable)?;
    match (page, wanted.fold) {
        (Some(page), false) => Ok(Json(page).into_response()),
        (Some(page), true) => Ok(Json(queries::folded(page)).into_response()),
        (None, _) if queries::job(&app.handle, &name).is_none() => Err(unknown(&app.handle, &name)),
        (None, _) => {
            Err(ApiError::invalid(format!("job {name} is not sharded: it has one owner and no shards")))
        }
    }
}

pub(super) async fn switch(
    State(app): State<App>,
    path: Result<Path<(JobName, String, String)>, PathRejection>,
    asked: AuditedRequest,
    _: EmptyBody,
) -> Result<Json<Value>, ApiError> {
    let Path((name, set, verb)) = path?;
    let set: ShardSet = set.parse()?;
    if set.is_empty() {
        return Err(ApiError::invalid("no shard is named: write them as 0,2 or 0-3,7"));
    }
    let command = find_verb("shard", &verb, Command::on_shards(&name, &set), &[])?;
    done(asked.ask(&app, command).await)
}
