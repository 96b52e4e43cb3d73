//! The versions of a job over HTTP, and how an earlier one is declared again: `/api/v1/jobs/{name}/versions` and
//! `/api/v1/jobs/{name}/rollback`.

use evenkeel_client::requests::{JobVersionListQuery, JobVersionQuery, RollbackBody};
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use evenkeel::{Job, JobChange, JobFile};
use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::input::{Answer, Command, Declaration, Refusal};
use evenkeel_core::principal::Role;

use super::audited::AuditedRequest;
use super::demand::on_declared;
use super::error::{done, read_body};
use super::known_caller::KnownCaller;
use super::row_limit::row_limit;
use super::{ApiError, App, fanout, jobs};
use crate::queries::{self, ListedVersion, PlanRequest, PresentVersion};
use crate::text_input::{self, InputError, ReadTarget};
use evenkeel_client::types::{JobVersionDetail, JobVersionPage, RollbackAnswer};

/// The default and the maximum number of rows of a page.
const PAGE: usize = 50;
const PAGE_MAX: usize = 1_000;
/// How long another node may take to write a version to a shared history that the registry has already.
const SHARED_WRITE: Duration = Duration::from_millis(150);

/// All versions of a job, and the nodes that did not answer.
struct KnownVersions {
    name: JobName,
    /// The latest first.
    versions: Vec<ListedVersion>,
    missing: Vec<String>,
}

impl KnownVersions {
    /// Reads them.
    ///
    /// # Errors
    /// There was never such a job, as far as the histories know that answer; or this node's own cannot be read.
    async fn read(app: &App, name: JobName) -> Result<Self, ApiError> {
        let known = Self::read_once(app, &name).await?;
        // Each node waits for its own writer. In a shared history the one of another node may be about to write it.
        let is_found = known.current().is_some_and(|listed| listed.record.change == JobChange::Found);
        if !is_found || !app.handle.shares_history() {
            return Ok(known);
        }
        tokio::time::sleep(SHARED_WRITE).await;
        Self::read_once(app, &name).await
    }

    async fn read_once(app: &App, name: &JobName) -> Result<Self, ApiError> {
        let (found, missing) = fanout::versions::versions(app, name).await?;
        let present = app.handle.with_node(|node| {
            let spec = node.view().find(name)?.spec()?;
            Some(PresentVersion { version: spec.version, job: spec.declared() })
        });
        let versions = queries::listed_versions(found, present.as_ref());
        let missing = missing.iter().map(ToString::to_string).collect();
        let known = Self { name: name.clone(), versions, missing };
        match known.versions.is_empty() {
            true => {
                let text = jobs::unknown(&app.handle, &known.name).message();
                Err(ApiError::not_found(format!("{text}{}", known.gap())))
            }
            false => Ok(known),
        }
    }

    /// A version, and the one before it.
    fn find(&self, version: u64) -> Result<(&ListedVersion, Option<&ListedVersion>), ApiError> {
        let at = self.versions.iter().position(|listed| listed.record.version == version);
        let at = at.ok_or_else(|| {
            let name = &self.name;
            let gap = self.gap();
            ApiError::not_found(format!(
                "job {name} has no version {version}: see `evenkeel job history {name}`{gap}"
            ))
        })?;
        Ok((&self.versions[at], self.versions.get(at + 1)))
    }

    /// What is declared now.
    fn current(&self) -> Option<&ListedVersion> {
        self.versions.iter().find(|listed| listed.row.current)
    }

    /// Which histories are not known, for a message.
    fn gap(&self) -> String {
        match self.missing.as_slice() {
            [] => String::new(),
            missing => format!("; not asked, since they do not answer: {}", missing.join(", ")),
        }
    }
}

/// `GET /api/v1/jobs/{name}/versions`.
pub(super) async fn list(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
    page: Result<Query<JobVersionListQuery>, QueryRejection>,
) -> Result<Json<JobVersionPage>, ApiError> {
    let (Path(name), Query(page)) = (name?, page?);
    let limit = row_limit("limit", page.limit, (PAGE, PAGE_MAX))?;
    let KnownVersions { versions, missing, .. } = KnownVersions::read(&app, name).await?;
    let mut rest = versions
        .into_iter()
        .map(|listed| listed.row)
        .filter(|row| page.after.is_none_or(|after| row.version < after));
    let versions: Vec<_> = rest.by_ref().take(limit).collect();
    let after = rest.next().and_then(|_| versions.last()).map(|row| row.version);
    Ok(Json(JobVersionPage { versions, after, missing }))
}

/// `GET /api/v1/jobs/{name}/versions/{version}`.
pub(super) async fn show(
    State(app): State<App>,
    path: Result<Path<(JobName, u64)>, PathRejection>,
    asked: Result<Query<JobVersionQuery>, QueryRejection>,
) -> Result<Json<JobVersionDetail>, ApiError> {
    let (Path((name, version)), Query(JobVersionQuery { diff })) = (path?, asked?);
    let known = KnownVersions::read(&app, name).await?;
    let (shown, before) = known.find(version)?;
    let other = match diff {
        Some(other) => Some(known.find(other)?.0),
        None => before,
    };
    Ok(Json(JobVersionDetail {
        row: shown.row.clone(),
        job: shown.record.declared.is_some().then(|| shown.keys.clone()),
        compared_with: other.map(|other| other.record.version),
        changes: other.map_or_else(Vec::new, |other| queries::differences(&other.keys, &shown.keys)),
        missing: known.missing.clone(),
    }))
}

/// `POST /api/v1/jobs/{name}/rollback`: declares what an earlier version declared, by the way of every declaration.
pub(super) async fn rollback(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
    caller: KnownCaller,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<RollbackAnswer>, ApiError> {
    let Path(name) = name?;
    let RollbackBody { version, dry_run } = read_body(&body, ReadTarget::Body)?;
    let known = KnownVersions::read(&app, name).await?;
    let (wanted, _) = known.find(version)?;
    let file = declared(&known.name, wanted)?;
    let current = known.current();
    let none = serde_json::Map::new();
    let changes = queries::differences(current.map_or(&none, |current| &current.keys), &wanted.keys);
    let mut answer = RollbackAnswer {
        name: known.name.to_string(),
        restored: version,
        from: current.map(|current| current.record.version),
        changes,
        applied: None,
        switches: Vec::new(),
        ended: Vec::new(),
        warnings: Vec::new(),
    };
    if dry_run {
        would_be_refused(&app, &caller, &asked, &file)?;
        return Ok(Json(answer));
    }
    let ended = queries::ended_switches(&app.handle, &[Declaration::File(Box::new(file.clone()))]);
    match asked.ask(&app, Command::Rollback(Box::new(file), version)).await {
        Answer::Applied(applied) => {
            let mut became = queries::apply_answer(&app.handle, applied, &ended, &app.notifiers);
            answer.warnings = became.warnings;
            if let Some(row) = became.jobs.pop() {
                (answer.applied, answer.switches, answer.ended) =
                    (Some(row.applied), row.switches, row.ended);
            }
            Ok(Json(answer))
        }
        other => Err(done(other).err().unwrap_or_else(|| ApiError::internal("the node gave another answer"))),
    }
}

/// The declaration of a version, as the present program understands it.
fn declared(name: &JobName, version: &ListedVersion) -> Result<JobFile, ApiError> {
    let number = version.record.version;
    let Some(text) = &version.record.declared else {
        return Err(ApiError::conflict(format!(
            "version {number} deleted job {name}: choose another one, see `evenkeel job history {name}`"
        )));
    };
    let mut file: JobFile = text_input::json(text.as_bytes(), ReadTarget::Job).map_err(
        |InputError { value, text, .. }| {
            let value = if value.is_empty() || value == "." { String::new() } else { format!("{value}, ") };
            ApiError::invalid(format!("version {number} makes no sense to this program: {value}{text}"))
        },
    )?;
    let namespace: Option<Namespace> = name.namespace().parse().ok();
    file.move_into(namespace.as_ref()).map_err(|e| ApiError::invalid(e.to_string()))?;
    match file.name.name() == name {
        true => Ok(file),
        false => Err(ApiError::invalid(format!(
            "version {number} is of job {}: somebody changed the history",
            file.name.name()
        ))),
    }
}

/// Checks what can be checked of a declaration without declaring it.
fn would_be_refused(
    app: &App,
    caller: &KnownCaller,
    asked: &AuditedRequest,
    file: &JobFile,
) -> Result<(), ApiError> {
    let job = Job::parse(file.clone()).map_err(|e| ApiError::invalid(e.to_string()))?;
    on_declared(app, caller, Role::Author, (&job.name, Some(&job.labels)))?;
    let planned = PlanRequest { jobs: vec![job.clone()], ..PlanRequest::default() };
    if let Some(refused) = queries::plan(&app.handle, planned, |_| true).refused.pop() {
        return Err(match refused.code.as_str() {
            "invalid" => ApiError::invalid(refused.detail),
            _ => ApiError::conflict(refused.detail),
        });
    }
    app.handle.with_node(|node| {
        job.suits(node.local().settings().class).map_err(|e| ApiError::invalid(e.to_string()))?;
        let version = node.view().find(&job.name).filter(|it| it.is_live()).map(|it| it.version());
        match asked.precondition() {
            Some(wanted) if !wanted.is_met(version) => {
                let text = format!(
                    "job {} has version {}, and the request is for {wanted}",
                    job.name,
                    version.unwrap_or(0)
                );
                Err((Refusal::Stale(version.unwrap_or(0)), text).into())
            }
            _ => Ok(()),
        }
    })
}
