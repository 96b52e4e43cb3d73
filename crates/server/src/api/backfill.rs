//! Backfills over HTTP: `POST /api/v1/jobs/{name}/backfill`, and `DELETE` with an id.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use evenkeel_client::requests::BackfillBody;
use evenkeel_core::ids::{JobName, RequestId, RunId, Shard};
use evenkeel_core::input::{Answer, ApplyResult, BackfillOptions, Command};
use evenkeel_core::record::Backfill;
use evenkeel_core::time::Wall;

use super::audited::AuditedRequest;
use super::error::{done, read_body};
use super::{ApiError, App, fanout, jobs, parameters};
use crate::text_input::ReadTarget;
use crate::{queries, request, zones};
use evenkeel_client::types::{BackfillAnswer, moment};

/// Requests a backfill, or says what it would be.
pub(super) async fn request(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<BackfillAnswer>, ApiError> {
    let Path(name) = name?;
    let BackfillBody { from, to, max_parallel, dry_run, request, parameters } =
        read_body(&body, ReadTarget::Body)?;
    let now = zones::now();
    let when = |key: &str, text: &str| {
        zones::when(text, now).map_err(|wrong| ApiError::invalid(format!("{key}: {wrong}")))
    };
    let to = to.map_or(Ok(now), |to| when("to", &to))?;
    let options = BackfillOptions { from: when("from", &from)?, to, max_parallel, parameters };
    let given = match (request, asked.request_id()?) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("send either request or Idempotency-Key, which names the request"));
        }
        (request, key) => request.or(key),
    };
    let id = match &given {
        Some(id) => id.clone(),
        None => request::fresh()?.parse()?,
    };
    let known = queries::backfill(&app.handle, &name, &id);
    if let Some(known) = known.as_ref().filter(|_| dry_run) {
        return Ok(Json(answer(&name, known, ApplyResult::Unchanged)));
    }
    let mut warnings = Vec::new();
    if known.is_none() {
        parameters::check_names(&app, &name, &options.parameters)?;
        let plan = queries::backfill_plan(&app.handle, &name, &id, &options, now);
        let plan = plan.ok_or_else(|| jobs::unknown(&app.handle, &name))?.map_err(ApiError::from)?;
        warnings.clone_from(&plan.warnings);
        let planned = planned(&name, &plan.dues, plan.max_parallel, plan.warnings);
        if dry_run {
            return Ok(Json(planned));
        }
        if let (Some(_), Some(first)) = (given, plan.dues.first())
            && has_run(&app, &name, &id, *first).await?
        {
            // The registry has forgotten it, and the histories have its runs.
            let (id, applied) = (Some(id.to_string()), Some(ApplyResult::Unchanged));
            asked.mark_noted();
            return Ok(Json(BackfillAnswer { id, applied, claimed: planned.count, ..planned }));
        }
    }
    let applied = if known.is_some() { ApplyResult::Unchanged } else { ApplyResult::Created };
    let command = Command::Backfill(name.clone(), id, options.into());
    let answered = answered(&name, asked.ask(&app, command).await, applied)?;
    Ok(Json(BackfillAnswer { warnings, ..answered }))
}

/// Ends a backfill: no further run begins.
pub(super) async fn cancel(
    State(app): State<App>,
    path: Result<Path<(JobName, RequestId)>, PathRejection>,
    asked: AuditedRequest,
) -> Result<Json<BackfillAnswer>, ApiError> {
    let Path((name, id)) = path?;
    let command = Command::CancelBackfill(name.clone(), id);
    answered(&name, asked.ask(&app, command).await, ApplyResult::Updated).map(Json)
}

/// Whether a history has the first run of a backfill of this id.
async fn has_run(app: &App, job: &JobName, id: &RequestId, first: Wall) -> Result<bool, ApiError> {
    let Some(fire) = Backfill::fire(id, first) else { return Ok(false) };
    let run = RunId { job: job.clone(), fire, shard: Shard(0) };
    Ok(!fanout::attempts(app, &run).await?.is_empty())
}

fn answered(name: &JobName, given: Answer, applied: ApplyResult) -> Result<BackfillAnswer, ApiError> {
    match given {
        Answer::Backfill(backfill) => Ok(answer(name, &backfill, applied)),
        other => Err(done(other).err().unwrap_or_else(|| ApiError::internal("the node gave another answer"))),
    }
}

fn planned(name: &JobName, dues: &[Wall], max_parallel: u32, warnings: Vec<String>) -> BackfillAnswer {
    BackfillAnswer {
        id: None,
        job: name.to_string(),
        applied: None,
        fires: dues.iter().map(|due| moment(*due)).collect(),
        count: dues.len(),
        claimed: 0,
        max_parallel,
        cancelled: None,
        first_run: None,
        warnings,
    }
}

fn answer(name: &JobName, backfill: &Backfill, applied: ApplyResult) -> BackfillAnswer {
    let first = backfill.dues.first().and_then(|due| backfill.fire_of(*due));
    let first = first.map(|fire| RunId { job: name.clone(), fire, shard: Shard(0) }.to_string());
    BackfillAnswer {
        id: Some(backfill.id.to_string()),
        applied: Some(applied),
        claimed: backfill.claimed(),
        cancelled: backfill.cancelled.map(|(at, _)| moment(at)),
        first_run: first,
        ..planned(name, &backfill.dues, backfill.max_parallel, Vec::new())
    }
}
