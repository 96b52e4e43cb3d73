//! Nodes over HTTP: `/api/v1/nodes` and below.

use std::collections::BTreeSet;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use evenkeel_core::capacity::WhatIf;
use evenkeel_core::input::Command;
use evenkeel_core::words::NodeName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::done;
use super::{ApiError, App};
use crate::board;
use crate::rows::{Balance, ServiceRow};

pub(super) async fn list(State(app): State<App>) -> Json<Value> {
    let (nodes, closed) = (board::nodes_with_times(&app.handle).await, board::is_closed(&app.handle));
    Json(json!({ "warnings": board::few(nodes.len()), "nodes": nodes, "closed": closed }))
}

/// What if: names of nodes, with commas between them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Simulated {
    #[serde(default)]
    kill: String,
    #[serde(default)]
    drain: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Insisting {
    /// Whether the node drains even if the others have no room for its jobs.
    #[serde(default)]
    force: bool,
}

pub(super) async fn balance(
    State(app): State<App>,
    simulated: Result<Query<Simulated>, QueryRejection>,
) -> Result<Json<Balance>, ApiError> {
    let Query(Simulated { kill, drain }) = simulated?;
    let what_if = WhatIf { lost: names(&app, &kill)?, drained: names(&app, &drain)? };
    Ok(Json(board::balance(&app.handle, &what_if)))
}

fn names(app: &App, list: &str) -> Result<BTreeSet<NodeName>, ApiError> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let living = board::nodes(&app.handle);
    names
        .map(|name| match living.iter().any(|node| node.name == name) {
            true => Ok(name.parse()?),
            false => {
                Err(ApiError::not_found(format!("no living node is called {name}: see `evenkeel node list`")))
            }
        })
        .collect()
}

/// Where interactive work is done best: on the online node with the lowest score (S0-54).
pub(super) async fn idlest(State(app): State<App>) -> Result<Json<ServiceRow>, ApiError> {
    let idlest = board::idlest(&app.handle).map(Json);
    idlest.ok_or_else(|| ApiError::unavailable("no node is online just now: try again"))
}

pub(super) async fn switch(
    State(app): State<App>,
    path: Result<Path<(NodeName, String)>, PathRejection>,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let Path((name, verb)) = path?;
    if !board::is_known(&app.handle, &name) {
        return Err(ApiError::not_found(format!("no node is called {name}: see `evenkeel node list`")));
    }
    match verb.as_str() {
        "drain" => drain(&app, name, &body).await,
        "undrain" => done(app.handle.ask(Command::Undrain(name)).await),
        "activate" => done(app.handle.ask(Command::Activate(name)).await),
        _ => Err(ApiError::not_found(format!("a node knows no {verb:?}: use drain, undrain or activate"))),
    }
}

/// Refuses what would leave jobs without room, unless somebody insists; says what else to think of.
async fn drain(app: &App, name: NodeName, body: &Bytes) -> Result<Json<Value>, ApiError> {
    let Insisting { force } =
        if body.is_empty() { Insisting::default() } else { serde_json::from_slice(body)? };
    let why =
        board::cannot_drain(&app.handle, &name).filter(|_| !force && !board::is_draining(&app.handle, &name));
    if let Some(why) = why {
        return Err(ApiError::new(StatusCode::CONFLICT, "conflict", why));
    }
    let warnings = board::drain_warnings(&app.handle, &name);
    let Json(mut answer) = done(app.handle.ask(Command::Drain(name)).await)?;
    answer["warnings"] = warnings.into();
    Ok(Json(answer))
}
