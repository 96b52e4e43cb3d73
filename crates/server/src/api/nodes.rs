//! Nodes over HTTP: `/api/v1/nodes` and below.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use evenkeel_core::input::Command;
use evenkeel_core::words::NodeName;
use serde_json::{Value, json};

use super::error::done;
use super::{ApiError, App};
use crate::board;
use crate::rows::ServiceRow;

pub(super) async fn list(State(app): State<App>) -> Json<Value> {
    Json(json!({ "nodes": board::nodes(&app.handle), "closed": board::is_closed(&app.handle) }))
}

/// Where interactive work is done best: on the online node with the lowest score (S0-54).
pub(super) async fn idlest(State(app): State<App>) -> Result<Json<ServiceRow>, ApiError> {
    let idlest = board::idlest(&app.handle).map(Json);
    idlest.ok_or_else(|| ApiError::unavailable("no node is online just now: try again"))
}

pub(super) async fn switch(
    State(app): State<App>,
    path: Result<Path<(NodeName, String)>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path((name, verb)) = path?;
    if !board::is_known(&app.handle, &name) {
        return Err(ApiError::not_found(format!("no node is called {name}: see `evenkeel node list`")));
    }
    let command = match verb.as_str() {
        "drain" => Command::Drain(name),
        "undrain" => Command::Undrain(name),
        _ => return Err(ApiError::not_found(format!("a node knows no {verb:?}: use drain or undrain"))),
    };
    done(app.handle.ask(command).await)
}
