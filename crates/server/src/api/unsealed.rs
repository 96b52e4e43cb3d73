//! Entries of the registry without a valid seal: what they say, and how a job is made of one.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use evenkeel_client::requests::AcceptJobBody;
use evenkeel_core::ids::JobName;
use evenkeel_core::input::Command;
use evenkeel_core::registry::Revision;
use serde_json::Value;

use super::audited::AuditedRequest;
use super::error::{done, read_body};
use super::{ApiError, App};
use crate::text_input::ReadTarget;
use evenkeel_client::types::{UnsealedJobRow, UnsealedPage};

/// `GET /api/v1/unsealed`: all entries without a valid seal.
pub(super) async fn list(State(app): State<App>) -> Json<UnsealedPage> {
    Json(app.handle.with_node(|node| {
        let view = node.view();
        let mut jobs: Vec<UnsealedJobRow> = view
            .unsealed()
            .map(|(name, spec, written)| UnsealedJobRow {
                name: name.to_string(),
                job: spec.declared(),
                version: spec.version,
                revision: written.0,
            })
            .collect();
        jobs.sort_by(|one, other| one.name.cmp(&other.name));
        let principals = view.unsealed_principals();
        let principals = principals.map(|(kind, name)| format!("{} {name}", kind.as_str())).collect();
        UnsealedPage { jobs, principals }
    }))
}

/// `POST /api/v1/jobs/{name}/accept`: makes a job of an entry, as it was at the revision that the caller has looked at.
pub(super) async fn accept(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name?;
    let AcceptJobBody { revision } = read_body(&body, ReadTarget::Body)?;
    done(asked.ask(&app, Command::Accept(name, Revision(revision))).await)
}
