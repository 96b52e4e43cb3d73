//! Namespaces over HTTP: `/api/v1/namespaces` and below, and the query key `namespace` of lists.

use evenkeel_client::requests::NamespaceBody;
use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use evenkeel_core::ids::Namespace;
use evenkeel_core::input::{Answer, Command};
use evenkeel_core::namespace::NamespaceSettings;
use evenkeel_core::principal::Role;
use evenkeel_core::view::View;
use serde_json::{Value, json};

use super::audited::AuditedRequest;
use super::error::{done, read_body};
use super::known_caller::KnownCaller;
use super::precondition::WithVersion;
use super::{ApiError, App, fanout, running};
use crate::queries;
use crate::text_input::ReadTarget;
use evenkeel_client::types::{NamespacePage, NamespaceRow};

pub(super) async fn list(
    State(app): State<App>,
    caller: KnownCaller,
) -> Result<Json<NamespacePage>, ApiError> {
    let runs = running::all(&app, fanout::PATIENCE).await?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for attempt in &runs.attempts {
        *counts.entry(attempt.job.namespace()).or_default() += 1;
    }
    let rows = app.handle.with_node(|node| {
        let view = node.view();
        let declared = view.namespaces().map(|spec| spec.namespace.name.clone());
        // It always exists, and is declared only where it has a limit or a description.
        let default = Some(Namespace::default()).filter(|default| view.namespace(default).is_none());
        let mut rows: Vec<NamespaceRow> = declared.chain(default).map(|name| row(view, &name)).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    });
    let seen = rows.into_iter().filter(|row| caller.may(Role::Viewer, &row.name));
    let namespaces = seen.map(|row| {
        let running = counts.get(row.name.as_str()).copied().unwrap_or(0);
        NamespaceRow { running, ..row }
    });
    Ok(Json(NamespacePage {
        namespaces: namespaces.collect(),
        missing: runs.missing.iter().map(ToString::to_string).collect(),
    }))
}

pub(super) async fn show(
    State(app): State<App>,
    name: Result<Path<Namespace>, PathRejection>,
) -> Result<WithVersion<NamespaceRow>, ApiError> {
    let Path(name) = name?;
    known(&app, Some(&name))?;
    let runs = running::all(&app, fanout::PATIENCE).await?;
    let running = runs.attempts.iter().filter(|run| run.job.namespace() == name.as_str()).count();
    let row = app.handle.with_node(|node| row(node.view(), &name));
    let version = row.version;
    Ok(WithVersion(NamespaceRow { running, ..row }, version))
}

pub(super) async fn put(
    State(app): State<App>,
    name: Result<Path<Namespace>, PathRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    let NamespaceBody { name: written, description, jobs_max, runs_max } = if body.is_empty() {
        read_body(b"{}", ReadTarget::Namespace)?
    } else {
        read_body(&body, ReadTarget::Namespace)?
    };
    if let Some(written) = written.filter(|written| *written != name) {
        let text = format!("the body is of namespace {written}, the address of {name}: send it there");
        return Err(ApiError::invalid(text));
    }
    let settings = NamespaceSettings { name, description, jobs_max, runs_max };
    match asked.ask(&app, Command::Namespace(Box::new(settings))).await {
        Answer::Namespace(name, applied) => Ok(Json(json!({ "name": name, "applied": applied }))),
        other => done(other),
    }
}

pub(super) async fn delete(
    State(app): State<App>,
    name: Result<Path<Namespace>, PathRejection>,
    asked: AuditedRequest,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    done(asked.ask(&app, Command::DeleteNamespace(name)).await)
}

/// Refuses the name of a namespace that does not exist.
///
/// # Errors
/// It does not: the text has the nearest name.
pub(super) fn known(app: &App, name: Option<&Namespace>) -> Result<(), ApiError> {
    let unknown = |name: &&Namespace| app.handle.with_node(|node| !node.view().has_namespace(name));
    match name.filter(unknown) {
        Some(name) => Err(ApiError::not_found(queries::no_namespace(&app.handle, name))),
        None => Ok(()),
    }
}

/// The row of a namespace, without its running runs.
fn row(view: &View, name: &Namespace) -> NamespaceRow {
    let spec = view.namespace(name);
    NamespaceRow {
        name: name.to_string(),
        jobs: view.jobs_in(name),
        jobs_max: spec.and_then(|spec| spec.namespace.jobs_max),
        runs_max: view.runs_max(name),
        calendars: view.calendars_in(name),
        running: 0,
        version: spec.map_or(0, |spec| spec.version),
        description: spec.map_or_else(String::new, |spec| spec.namespace.description.clone()),
    }
}
