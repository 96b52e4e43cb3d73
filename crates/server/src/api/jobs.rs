//! Jobs over HTTP: `/api/v1/jobs` and below.

use evenkeel_client::requests::{ApplyBody, ClaimQuery, JobListQuery, NextFiresQuery, RunNowBody};
use std::collections::BTreeSet;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use evenkeel::Handle;
use evenkeel_core::ids::{Fire, FireId, JobName, Namespace, NodeName, RequestId, RunId, Shard};
use evenkeel_core::input::{Answer, ApplyResult, Command, CommandKind, Declaration, RunOptions};
use evenkeel_core::job::{JobFile, JobSelector};
use evenkeel_core::principal::Role;
use evenkeel_core::schedule::Schedule;
use evenkeel_core::time::Wall;
use serde_json::{Value, json};

use super::audited::{AuditedRequest, find_verb};
use super::body::EmptyBody;
use super::declared_texts::DeclaredTexts;
use super::demand::on_declared;
use super::error::{done, read_body};
use super::known_caller::KnownCaller;
use super::precondition::WithVersion;
use super::row_limit::row_limit;
use super::{ApiError, App, fanout, job_runs, namespaces, parameters, waiting};
use crate::queries::JobSearch;
use crate::text_input::{self, ReadTarget};
use crate::{queries, request, zones};
use evenkeel_client::types::{
    ApplyAnswer, ClaimAnswer, ClaimReason, JobDetail, JobPage, NextFires, RunAnswer, moment,
};

/// The maximum and the default number of rows of a page.
const PAGE_MAX: usize = 1_000;
const PAGE: usize = 100;
/// The usual number of computed future fires, and the maximum.
const NEXT: usize = 5;
const NEXT_MAX: usize = 1_000;

type JobResult = Result<Json<Value>, ApiError>;

pub(super) async fn list(
    State(app): State<App>,
    page: Result<Query<JobListQuery>, QueryRejection>,
) -> Result<Json<JobPage>, ApiError> {
    let Query(page) = page?;
    let limit = row_limit("limit", page.limit, (PAGE, PAGE_MAX))?;
    namespaces::known(&app, page.namespace.as_ref())?;
    let labels = page.label.as_deref().map(str::parse::<JobSelector>).transpose()?;
    let search = JobSearch { find: &page.find, labels: labels.as_ref(), namespace: page.namespace.as_ref() };
    let sort = page.sort.as_deref().map(|sort| text_input::one_of("sort", sort, &["name", "next"]));
    let with = page.with.as_deref().map(|with| text_input::one_of("with", with, &["runs"]));
    let with = with.transpose().map_err(ApiError::invalid)?;
    let mut found = match sort.transpose().map_err(ApiError::invalid)? {
        Some("next") if page.after.is_some() => {
            return Err(ApiError::invalid("sort=next has one page: leave out after, or raise limit"));
        }
        Some("next") => queries::jobs_by_next(&app.handle, limit, search),
        _ => queries::jobs(&app.handle, page.after.as_ref(), limit, search),
    };
    if with.is_some() {
        job_runs::fill(&app, &mut found).await;
    }
    Ok(Json(found))
}

pub(super) async fn show(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
) -> Result<WithVersion<JobDetail>, ApiError> {
    let Path(name) = name?;
    let job = queries::job(&app.handle, &name).ok_or_else(|| unknown(&app.handle, &name))?;
    let version = job.version;
    Ok(WithVersion(job, version))
}

/// Declares one job, whose name the address has.
pub(super) async fn put(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
    caller: KnownCaller,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<ApplyAnswer>, ApiError> {
    let Path(name) = name?;
    let mut file: JobFile = read_body(&body, ReadTarget::Job)?;
    let namespace: Option<Namespace> = name.namespace().parse().ok();
    file.move_into(namespace.as_ref()).map_err(|e| ApiError::invalid(e.to_string()))?;
    let written = file.name.name();
    if *written != name {
        let text = format!("the body is of job {written}, the address of {name}: send it there");
        return Err(ApiError::invalid(text));
    }
    on_declared(&app, &caller, Role::Author, (&name, Some(&file.labels)))?;
    declare(&app, &asked, [Declaration::File(Box::new(file))].into()).await
}

pub(super) async fn delete(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
    asked: AuditedRequest,
) -> JobResult {
    let Path(name) = name?;
    done(asked.ask(&app, Command::Delete(name)).await)
}

pub(super) async fn next(
    State(app): State<App>,
    name: Result<Path<JobName>, PathRejection>,
    ahead: Result<Query<NextFiresQuery>, QueryRejection>,
) -> Result<Json<NextFires>, ApiError> {
    let (Path(name), Query(ahead)) = (name?, ahead?);
    let schedule = queries::schedule(&app.handle, &name).ok_or_else(|| unknown(&app.handle, &name))?;
    let NextFiresQuery { n, tz, from } = ahead;
    listed(&name, schedule.as_ref(), FireListing { n, tz, from }).map(Json)
}

/// How many fires are listed, from when on, and in which zone as well.
pub(super) struct FireListing {
    pub(super) n: Option<usize>,
    pub(super) tz: Option<String>,
    pub(super) from: Option<String>,
}

/// The next fires of a schedule; none without one.
pub(super) fn listed(
    name: &JobName,
    schedule: Option<&Schedule>,
    ahead: FireListing,
) -> Result<NextFires, ApiError> {
    let n = row_limit("n", ahead.n, (NEXT, NEXT_MAX))?;
    let after = ahead.from.as_deref().map_or_else(|| Ok(zones::now()), zones::just_before)?;
    let following = |after: &Wall| schedule?.next(*after);
    let fires: Vec<Wall> = std::iter::successors(following(&after), following).take(n).collect();
    let notes = |due: &Wall| schedule.map_or_else(Vec::new, |schedule| schedule.notes(*due));
    let notes = fires.iter().map(notes).collect();
    let moments: Vec<String> = fires.into_iter().map(moment).collect();
    let zone = ahead.tz.map(|zone| zones::named(&zone)).transpose()?;
    let local = zone.map(|zone| moments.iter().map(|text| zones::rfc3339(text, &zone)).collect());
    Ok(NextFires { job: name.to_string(), next: moments, notes, local })
}

pub(super) async fn apply(
    State(app): State<App>,
    caller: KnownCaller,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<ApplyAnswer>, ApiError> {
    let known = DeclaredTexts::read(&body);
    let jobs = match known.as_ref().and_then(|texts| app.declared.compare(&app.handle, texts)) {
        Some(jobs) => jobs,
        None => {
            let ApplyBody { jobs } = read_body(&body, ReadTarget::Jobs)?;
            jobs.into_iter().map(|file| Declaration::File(Box::new(file))).collect()
        }
    };
    declared_once(jobs.iter().map(Declaration::name))?;
    for job in &jobs {
        let labels = match job {
            Declaration::File(file) => Some(&file.labels),
            Declaration::Same(_) => None,
        };
        on_declared(&app, &caller, Role::Author, (job.name(), labels))?;
    }
    let answer = declare(&app, &asked, jobs).await?;
    if let Some(texts) = &known {
        app.declared.note_valid(texts);
    }
    Ok(answer)
}

/// Refuses a request that declares a job twice: which of the two was meant is not known.
pub(super) fn declared_once<'a>(mut names: impl Iterator<Item = &'a JobName>) -> Result<(), ApiError> {
    let mut known = BTreeSet::new();
    match names.find(|name| !known.insert(*name)) {
        Some(name) => Err(ApiError::invalid(format!("job {name} is declared twice: once is enough"))),
        None => Ok(()),
    }
}

async fn declare(
    app: &App,
    asked: &AuditedRequest,
    jobs: Vec<Declaration>,
) -> Result<Json<ApplyAnswer>, ApiError> {
    let ended = queries::ended_switches(&app.handle, &jobs);
    match asked.ask(app, Command::Declare(jobs)).await {
        Answer::Applied(applied) => {
            Ok(Json(queries::apply_answer(&app.handle, applied, &ended, &app.notifiers)))
        }
        other => Err(not_expected(other)),
    }
}

pub(super) async fn claim(
    State(app): State<App>,
    asked: AuditedRequest,
    _: EmptyBody,
) -> Result<Json<ClaimAnswer>, ApiError> {
    match asked.ask(&app, Command::Claim).await {
        Answer::Claiming { claims, left } => {
            let all: usize = left.iter().map(|left| left.jobs).sum();
            let reasons = left
                .into_iter()
                .map(|left| ClaimReason { jobs: left.jobs, reason: left.why.clone() })
                .collect();
            Ok(Json(ClaimAnswer { claims, left: all, reasons }))
        }
        other => Err(not_expected(other)),
    }
}

pub(super) async fn switch(
    State(app): State<App>,
    path: Result<Path<(JobName, String)>, PathRejection>,
    place: Result<Query<ClaimQuery>, QueryRejection>,
    asked: AuditedRequest,
    body: Bytes,
) -> JobResult {
    let (Path((name, verb)), Query(ClaimQuery { node })) = (path?, place?);
    if verb == CommandKind::RUN.verb {
        return run(&app, &asked, name, node, &body).await;
    }
    let command = find_verb("job", &verb, Command::on_job(&name, node.as_ref()), &[CommandKind::RUN])?;
    if matches!(command, Command::Shutdown(_)) && queries::job(&app.handle, &name).is_none() {
        return Err(unknown(&app.handle, &name));
    }
    // The node is in the address: a body that names a node would switch all of them.
    EmptyBody::of(&body)?;
    let Json(mut answer) = done(asked.ask(&app, command).await)?;
    answer["warnings"] = queries::remarks(&app.handle, &name, node.as_ref(), &verb).into();
    Ok(Json(answer))
}

async fn run(
    app: &App,
    asked: &AuditedRequest,
    name: JobName,
    place: Option<NodeName>,
    body: &Bytes,
) -> JobResult {
    let RunNowBody { request, node, parameters } =
        if body.is_empty() { RunNowBody::default() } else { read_body(body, ReadTarget::Body)? };
    let request = match (request, asked.request_id()?) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("send either request or Idempotency-Key, which names the request"));
        }
        (request, key) => request.or(key),
    };
    let options = RunOptions { node: node.or(place), parameters };
    let answer = run_once(app, asked, name, options, request).await?;
    Ok(Json(json!(answer)))
}

/// Triggers a job now. A request with an id of the caller's own that the registry or a history knows has no further effect.
pub(super) async fn run_once(
    app: &App,
    asked: &AuditedRequest,
    name: JobName,
    options: RunOptions,
    request: Option<RequestId>,
) -> Result<RunAnswer, ApiError> {
    let Some(request) = request else {
        return run_now(app, asked, name, options, request::fresh()?.parse()?).await;
    };
    match known_run(app, &name, &request).await? {
        Some(answer) => {
            // The entry of the first request is the one of this run.
            asked.mark_noted();
            Ok(answer)
        }
        None => run_now(app, asked, name, options, request).await,
    }
}

/// The answer about a run that was requested under this id before, if a history has it: the registry forgets requests in
/// time, and histories keep their outcomes longer.
async fn known_run(app: &App, job: &JobName, request: &RequestId) -> Result<Option<RunAnswer>, ApiError> {
    let run = RunId { job: job.clone(), fire: Fire::Asked(request.clone()), shard: Shard(0) };
    let known = fanout::attempts(app, &run).await?;
    Ok(known.first().map(|known| {
        let named = match queries::has_shards(&app.handle, &run.job) {
            true => FireId::from(&run).to_string(),
            false => run.to_string(),
        };
        let (asked, applied) = (moment(known.due), ApplyResult::Unchanged);
        RunAnswer { run: named, asked, applied, reason: None, warnings: Vec::new(), shards: None }
    }))
}

/// Triggers a job once, now, under this request id.
pub(super) async fn run_now(
    app: &App,
    asked: &AuditedRequest,
    name: JobName,
    options: RunOptions,
    request: RequestId,
) -> Result<RunAnswer, ApiError> {
    let shards = queries::requested_shards(&app.handle, &name, options.node.as_ref());
    let applied = if queries::is_requested(&app.handle, &name, &request) {
        ApplyResult::Unchanged
    } else {
        parameters::check_names(app, &name, &options.parameters)?;
        ApplyResult::Created
    };
    let command = match options == RunOptions::default() {
        true => Command::RunNow(name, request),
        false => Command::RunWith(name, request, options.into()),
    };
    match asked.ask(app, command).await {
        Answer::Accepted(run, at) => {
            // The fire as a whole: it has ended when all its shards have.
            let named = match queries::has_shards(&app.handle, &run.job) {
                true => FireId::from(&run).to_string(),
                false => run.to_string(),
            };
            // An earlier request with this id may have run.
            let waits = queries::explain::in_the_way(&app.handle, &run.job);
            let waits = waits.filter(|_| applied == ApplyResult::Created);
            let shadow = queries::explain::shadow_warning(&app.handle, &run.job);
            let stuck = waits.iter().map(|why| waiting::stuck(&named, why));
            let warnings: Vec<String> = shadow.into_iter().chain(stuck).collect();
            let (asked, shards) = (moment(at), shards.map(|shards| shards.to_string()));
            Ok(RunAnswer { run: named, asked, applied, reason: waits, warnings, shards })
        }
        other => Err(not_expected(other)),
    }
}

/// The refusal in an answer that is not the one of a success.
fn not_expected(answer: Answer) -> ApiError {
    done(answer).err().unwrap_or_else(|| ApiError::internal("the node gave another answer"))
}

pub(super) fn unknown(handle: &Handle, name: &JobName) -> ApiError {
    ApiError::not_found(queries::no_job(handle, name))
}
