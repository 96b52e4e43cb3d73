//! Nodes over HTTP: `/api/v1/nodes` and below.

use evenkeel_client::requests::{DrainBody, NodeLoadQuery, UpgradeBody, WhatIfQuery};
use std::collections::BTreeSet;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use evenkeel::EventFilter;
use evenkeel_core::capacity::WhatIf;
use evenkeel_core::ids::NodeName;
use evenkeel_core::input::{Answer, ApplyResult, Command, CommandKind};
use evenkeel_core::time::{Millis, TimeSpan};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::audited::{AuditedRequest, find_verb};
use super::body::EmptyBody;
use super::error::{done, read_body};
use super::events::when;
use super::row_limit::row_limit;
use super::{ApiError, App, fanout};
use crate::record_rows;
use crate::text_input::ReadTarget;
use crate::upgrade::{WAIT, WAIT_LIMITS};
use crate::{queries, zones};
use evenkeel_client::types::{BalanceReport, LoadPage, NodePage, ServiceRow, UpgradeAnswer};

/// The default span and number of load points.
const DAY: Millis = Millis::secs(86_400);
const POINTS: u32 = 60;
/// The maximum number of load points in one response: a week by the minute.
const POINTS_MAX: u32 = 10_000;

/// The maximum number of departures to read.
const LEFT_MAX: u32 = 1_000;

/// Lists the online nodes, and those that left within the last day.
pub(super) async fn list(State(app): State<App>) -> Result<Json<NodePage>, ApiError> {
    let closed = queries::is_closed(&app.handle);
    let (kind, since) = (Some("node.left".to_owned()), Some(zones::now() - DAY));
    let filter = EventFilter { kind, since, limit: LEFT_MAX, ..EventFilter::default() };
    // If the history cannot be read, the list has no departed nodes.
    let (told, troubles) = tokio::join!(fanout::events(&app, filter, None), fanout::troubles(&app));
    let told = told.map(|page| page.rows).unwrap_or_default();
    let nodes = queries::nodes_with_times(&app.handle, &troubles).await;
    let gone = queries::gone(&app.handle, &told);
    let mut warnings = queries::few(nodes.len());
    warnings.extend(nodes.iter().filter_map(|node| {
        let why = node.history.as_ref()?;
        Some(format!("node {} starts nothing and refuses changes: {why}", node.name))
    }));
    Ok(Json(NodePage { warnings, total: nodes.len(), nodes, gone, closed }))
}

/// The load of a node, the latest first, as far as this node's history has it (S0-56).
pub(super) async fn load(
    State(app): State<App>,
    path: Result<Path<NodeName>, PathRejection>,
    past: Result<Query<NodeLoadQuery>, QueryRejection>,
) -> Result<Json<LoadPage>, ApiError> {
    let (Path(name), Query(past)) = (path?, past?);
    let now = zones::now();
    let since = past.since.as_deref().map(|text| when("since", text, now)).transpose()?;
    let limit = row_limit("limit", past.limit, (POINTS, POINTS_MAX))?;
    let points = app.handle.loads(&name, since.unwrap_or(now - DAY), limit).await?;
    if points.is_empty() && !queries::is_known(&app.handle, &name) {
        return Err(ApiError::not_found(queries::no_node(&app.handle, &name)));
    }
    Ok(Json(LoadPage { load: points.iter().map(record_rows::load_row).collect() }))
}

pub(super) async fn balance(
    State(app): State<App>,
    simulated: Result<Query<WhatIfQuery>, QueryRejection>,
) -> Result<Json<BalanceReport>, ApiError> {
    let Query(WhatIfQuery { kill, drain }) = simulated?;
    let what_if = WhatIf { lost: names(&app, &kill)?, drained: names(&app, &drain)? };
    Ok(Json(queries::balance(&app.handle, &what_if).await))
}

fn names(app: &App, list: &str) -> Result<BTreeSet<NodeName>, ApiError> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let living = queries::living_names(&app.handle);
    names
        .map(|name| match living.iter().any(|living| living.as_str() == name) {
            true => Ok(name.parse()?),
            false => {
                let names = living.iter().map(NodeName::as_str);
                Err(ApiError::not_found(queries::no_living(name, names)))
            }
        })
        .collect()
}

/// The online node with the lowest load score, which suits interactive work best (S0-54).
pub(super) async fn least_loaded(State(app): State<App>) -> Result<Json<ServiceRow>, ApiError> {
    let least_loaded = queries::least_loaded(&app.handle).await.map(Json);
    least_loaded.ok_or_else(|| ApiError::unavailable("no node is online just now: try again"))
}

pub(super) async fn switch(
    State(app): State<App>,
    path: Result<Path<(NodeName, String)>, PathRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let Path((name, verb)) = path?;
    if !queries::is_known(&app.handle, &name) {
        return Err(ApiError::not_found(queries::no_node(&app.handle, &name)));
    }
    if verb == CommandKind::UPGRADE.verb {
        return upgrade(&app, &name, &body).await;
    }
    let command = find_verb("node", &verb, Command::on_node(&name), &[CommandKind::UPGRADE])?;
    let mut warnings = Vec::new();
    if matches!(command, Command::Drain(_)) {
        check_drain(&app, &name, &body)?;
        warnings = queries::drain_warnings(&app.handle, &name);
    } else {
        EmptyBody::of(&body)?;
    }
    let answer = asked.ask(&app, command).await;
    let applied = match answer {
        Answer::Unchanged => ApplyResult::Unchanged,
        _ => ApplyResult::Updated,
    };
    let Json(mut body) = done(answer)?;
    (body["applied"], body["warnings"]) = (json!(applied), warnings.into());
    Ok(Json(body))
}

/// Refuses to drain a node, unless forced, if jobs would have no room.
fn check_drain(app: &App, name: &NodeName, body: &Bytes) -> Result<(), ApiError> {
    let DrainBody { force } =
        if body.is_empty() { DrainBody::default() } else { read_body(body, ReadTarget::Body)? };
    let why = queries::cannot_drain(&app.handle, name)
        .filter(|_| !force && !queries::is_draining(&app.handle, name));
    why.map_or(Ok(()), |why| Err(ApiError::new(StatusCode::CONFLICT, "conflict", why)))
}

/// The schema of what the verbs take: `drain`, `upgrade`, and the others nothing.
pub(super) fn verb_body(make: &mut SchemaGenerator) -> Schema {
    let (drain, upgrade) = (make.subschema_for::<DrainBody>(), make.subschema_for::<UpgradeBody>());
    schemars::json_schema!({ "anyOf": [drain, upgrade] })
}

/// Starts an upgrade and returns the version of the new program; the events report the outcome.
async fn upgrade(app: &App, name: &NodeName, body: &Bytes) -> Result<Json<Value>, ApiError> {
    let UpgradeBody { wait } =
        if body.is_empty() { UpgradeBody::default() } else { read_body(body, ReadTarget::Body)? };
    let wait = match wait {
        Some(text) => {
            TimeSpan::parse("wait", &text, WAIT_LIMITS).map_err(|e| ApiError::invalid(e.to_string()))?.into()
        }
        None => WAIT,
    };
    if name != app.handle.name() {
        let text = format!("only node {name} itself can go on in another program: ask it, with --server");
        return Err(ApiError::conflict(text));
    }
    let since = jiff::Timestamp::from_millisecond(zones::now().0);
    let since = since.map(|at| at.to_string()).map_err(|e| ApiError::internal(e.to_string()))?;
    let version = app.upgrades.check().await.map_err(ApiError::conflict)?;
    app.upgrades.begin(wait);
    Ok(Json(json!(UpgradeAnswer { version, since })))
}
