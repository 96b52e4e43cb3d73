//! Runs over HTTP: `/api/v1/runs` and below.

use evenkeel_client::requests::{LogQuery, RunningQuery, WaitQuery};
use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use evenkeel::{AttemptState as RunState, RunRecord};
use evenkeel_core::ids::{RunId, Shard};
use evenkeel_core::input::{Answer, Command, Refusal, RunOptions};
use evenkeel_core::node::Node;

use super::audited::AuditedRequest;
use super::body::EmptyBody;
use super::error::done;
use super::row_limit::row_limit;
use super::run_target::RunTarget;
use super::search::{self, SearchText};
use super::{
    ApiError, App, attempts, fanout, fires, follow, jobs, log_tail, namespaces, output, parameters, relay,
    running, waiting,
};
use crate::client::escape;
use crate::peer::LogPieceQuery;
use crate::{queries, request};
use evenkeel_client::types::{EndedRow, ForgetAnswer, RunAnswer, RunDetail, RunRow, RunningRow, WaitAnswer};

/// The maximum wait in one request.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How often to check whether a run has ended, if no change is reported.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// All running attempts, and their number.
pub(super) async fn running(
    State(app): State<App>,
    page: Result<Query<RunningQuery>, QueryRejection>,
) -> Result<Json<RunningRow>, ApiError> {
    let Query(RunningQuery { namespace }) = page?;
    namespaces::known(&app, namespace.as_ref())?;
    let mut found = running::all(&app, fanout::PATIENCE).await?;
    if let Some(namespace) = namespace {
        found.attempts.retain(|attempt| attempt.job.namespace() == namespace.as_str());
    }
    Ok(Json(RunningRow {
        running: found.attempts.len(),
        runs: found.attempts.iter().map(queries::run_row).collect(),
        missing: found.missing.iter().map(ToString::to_string).collect(),
    }))
}

pub(super) async fn show(
    State(app): State<App>,
    run: Result<Path<RunTarget>, PathRejection>,
) -> Result<Json<RunDetail>, ApiError> {
    let run = match run? {
        Path(RunTarget::Run(run)) => run,
        Path(RunTarget::Fire(fire)) => return fires::show(&app, &fire).await,
    };
    let found = attempts::of_run(&app, &run).await?;
    let rows: Vec<RunRow> = found.iter().map(queries::run_row).collect();
    let waits = rows.is_empty();
    let mut shown = RunDetail {
        run: run.to_string(),
        attempts: rows,
        details: found.iter().map(attempts::detail).collect(),
        parameters: parameters::shown(&app, &run, found.first()),
        ..RunDetail::default()
    };
    if waits {
        shown.state = Some(RunState::Waiting.as_str().to_owned());
        shown.reason = waiting::why(&app, &run).await;
    }
    Ok(Json(shown))
}

pub(super) async fn wait(
    State(app): State<App>,
    run: Result<Path<RunTarget>, PathRejection>,
    wait: Result<Query<WaitQuery>, QueryRejection>,
) -> Result<Json<WaitAnswer>, ApiError> {
    let (Path(named), Query(wait)) = (run?, wait?);
    let bound = wait.timeout.map_or(WAIT_MAX, Duration::from).min(WAIT_MAX);
    let ended = async {
        match &named {
            RunTarget::Run(run) => {
                attempts::of_run(&app, run).await?;
                Ok(EndedRow::Run(queries::run_row(&ended(&app, run).await?)))
            }
            RunTarget::Fire(fire) => Ok::<_, ApiError>(EndedRow::Fire(fires::ended(&app, fire).await?)),
        }
    };
    match tokio::time::timeout(bound, ended).await {
        Ok(last) => Ok(Json(WaitAnswer { done: true, run: Some(last?) })),
        Err(_) => Ok(Json(WaitAnswer { done: false, run: None })),
    }
}

/// Waits for a run's end, whichever history has it.
async fn ended(app: &App, run: &RunId) -> Result<RunRecord, ApiError> {
    let mut changes = app.handle.changes();
    loop {
        if let Some(last) = fanout::attempts(app, run).await?.pop().filter(|last| last.state.is_end())
            && attempts::is_over(app, &last).await
        {
            // Another attempt may have come and gone before the registry was read.
            let last = fanout::attempts(app, run).await?.pop().unwrap_or(last);
            if last.state.is_end() {
                return Ok(last);
            }
        }
        let own = app.handle.shares_history() || app.handle.run(run).await?.iter().any(|a| !a.state.is_end());
        if own {
            let _ = tokio::time::timeout(POLL_INTERVAL, changes.changed()).await;
        } else {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

pub(super) async fn kill(
    State(app): State<App>,
    run: Result<Path<RunTarget>, PathRejection>,
    asked: AuditedRequest,
    _: EmptyBody,
) -> Result<Response, ApiError> {
    let Path(named) = run?;
    // A request that no node has claimed is one run, however many shards the job has.
    let whole = match &named {
        RunTarget::Fire(fire) => Some(fire.run(Shard(0))),
        RunTarget::Run(run) => Some(run.clone()).filter(|run| !queries::has_shards(&app.handle, &run.job)),
    };
    let unclaimed = whole.filter(|run| app.handle.with_node(|node| node.takes_back(run)));
    let run = unclaimed.clone().map_or_else(|| named.one(&app), Ok)?;
    let not_here = || {
        let fix = format!("see `evenkeel explain run {run}`, or pause its job");
        let text = format!("no node runs run {run}, nor has claimed it: {fix}");
        Answer::Refused(Refusal::NotFound, text)
    };
    let is_here = |node: &Node| node.executes(&run) || node.awaits(&run);
    let answer = match unclaimed.is_some() || app.handle.with_node(is_here) {
        true => asked.ask(&app, Command::Kill(run.clone())).await,
        false => not_here(),
    };
    match answer {
        // A run that waited here may have moved to another node meanwhile, and start there.
        Answer::Refused(kind @ (Refusal::NotFound | Refusal::Conflict), message) => {
            let last = attempts::of_run(&app, &run).await?.pop();
            // An uncertain attempt may be followed by another one.
            let over = |last: &&RunRecord| {
                last.state.is_end() && ![RunState::Lost, RunState::Fenced].contains(&last.state)
            };
            let runs = last.as_ref().filter(|last| last.state == RunState::Running);
            // If no node runs it, the node that has claimed it will start it.
            let whose = match runs {
                Some(last) => Some(last.node.clone()),
                None if last.as_ref().is_some_and(|last| over(&last)) => None,
                None => queries::waits_on(&app.handle, &run).await?.map(|member| member.to_string()),
            };
            if let Some(ended) = last.filter(|last| whose.is_none() && last.state.is_end()) {
                let state = ended.state.as_str();
                return Err((Refusal::Conflict, format!("run {run} has ended already: it is {state}")).into());
            }
            if whose.as_ref().is_some_and(|node| node.split('@').next() == Some(app.handle.name().as_str())) {
                let text =
                    format!("run {run} has just come to this node, or is just starting or ending: try again");
                return Err(ApiError::unavailable(text));
            }
            let other = whose.map(|node| relay::other(&app, &node)).transpose()?.flatten();
            let Some(other) = other else {
                return Err(match queries::is_job(&app.handle, &run.job) {
                    true => (kind, message).into(),
                    false => jobs::unknown(&app.handle, &run.job),
                });
            };
            asked.mark_forwarding();
            let said = other.kill(&run, &asked.asker).await;
            let said = said.inspect_err(|why| {
                if !why.is_unknown() {
                    asked.mark_unsent();
                }
            })?;
            asked.mark_forwarded();
            Ok(said)
        }
        answer => done(answer).map(IntoResponse::into_response),
    }
}

/// Deletes a run's output on every node that made an attempt of it.
pub(super) async fn forget(
    State(app): State<App>,
    run: Result<Path<RunTarget>, PathRejection>,
    asked: AuditedRequest,
) -> Result<Json<ForgetAnswer>, ApiError> {
    let Path(run) = run?;
    let run = run.one(&app)?;
    let attempts = attempts::of_run(&app, &run).await?;
    let own = app.handle.name().as_str();
    let names = attempts.iter().filter_map(|attempt| attempt.node.split('@').next());
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty() && *name != own).collect();
    // All nodes are looked up before anything is deleted: else a refusal could come after part of it is gone.
    let others = names.into_iter().map(|name| {
        relay::other(&app, name)?.ok_or_else(|| {
            let why =
                format!("node {name} has output of run {run} and is no member: start it, then try again");
            ApiError::unavailable(why)
        })
    });
    let others = others.collect::<Result<Vec<_>, ApiError>>()?;
    asked.mark_partial();
    let mut removed = output::forget(&app, &run).await?;
    for other in others {
        removed += other.forget(&run).await?;
    }
    asked.mark_done();
    Ok(Json(ForgetAnswer { done: true, removed }))
}

/// Triggers the job of an ended run once more. The request id comes from the run, so a repeated restart has no effect.
pub(super) async fn restart(
    State(app): State<App>,
    run: Result<Path<RunTarget>, PathRejection>,
    asked: AuditedRequest,
    _: EmptyBody,
) -> Result<Json<RunAnswer>, ApiError> {
    let Path(run) = run?;
    // All shards of a fire are restarted together, whichever run names the fire.
    let run = run.first();
    let attempts = attempts::of_run(&app, &run).await?;
    let Some(last) = attempts.last().filter(|last| last.state.is_end()) else {
        let fix = format!("wait for its end, or end it with `evenkeel run kill {run}`");
        return Err(ApiError::conflict(format!("run {run} has not ended yet: {fix}")));
    };
    let request = request::named_after(&run)?;
    // Those of the first attempt are those of all, whatever the job declares now.
    let options = RunOptions { parameters: last.parameters.clone(), ..RunOptions::default() };
    jobs::run_once(&app, &asked, last.job.clone(), options, Some(request)).await.map(Json)
}

pub(super) async fn logs(
    State(app): State<App>,
    run: Result<Path<RunTarget>, PathRejection>,
    asked: Result<Query<LogQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (Path(run), Query(asked)) = (run?, asked?);
    let run = run.one(&app)?;
    let text = asked.grep.as_deref().map(SearchText::of).transpose()?;
    let tail = tail_of(&asked)?;
    let attempts = attempts::of_run(&app, &run).await?;
    let wanted = match asked.attempt {
        // The next attempt may wait for its moment.
        None => attempts.iter().rfind(|a| a.started.is_some()).or(attempts.last()),
        Some(n) => Some(attempts.iter().find(|a| a.attempt == n).ok_or_else(|| {
            ApiError::not_found(format!("run {run} has no attempt {n}: see `evenkeel run show {run}`"))
        })?),
    };
    let attempt = wanted.map_or(1, |a| a.attempt);
    let started = wanted.filter(|a| a.started.is_some());
    let offset = match (tail, started) {
        (Some(lines), Some(record)) => log_tail::begin(&app, record, lines).await?,
        _ => asked.offset.unwrap_or(0),
    };
    let piece = LogPieceQuery { attempt, offset, follow: asked.follow };
    let begun = match started {
        Some(record) => Some(attempts::output_of(&app, &record.node, &run, piece).await?),
        None if asked.follow => None,
        None => return Err(has_no_output(&run, wanted)),
    };
    if let Some(record) = wanted
        && is_gone(&app, record).await?
    {
        let text = format!("the output of attempt {attempt} of run {run} is no longer kept");
        return Err(ApiError::not_found(format!("{text}: it was deleted, or is older than what is kept")));
    }
    let body = match begun {
        Some(body) if !asked.follow || asked.attempt.is_some() => body,
        begun => follow::from(app.clone(), run.clone(), piece, begun),
    };
    let body = match text {
        Some(text) => search::lines(body, text),
        None => body,
    };
    let disposition = match asked.download {
        true => format!("attachment; filename=\"{}\"", file_name(&run, attempt)),
        false => "inline".to_owned(),
    };
    let kind = "text/plain; charset=utf-8".to_owned();
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, disposition)];
    Ok((headers, body).into_response())
}

/// How many of the last lines are wanted; all if none are named.
///
/// # Errors
/// It is a number that is not allowed, or an offset is named, too.
fn tail_of(asked: &LogQuery) -> Result<Option<u32>, ApiError> {
    if asked.tail.is_some() && asked.offset.is_some() {
        return Err(ApiError::invalid("tail and offset exclude each other: leave out one of them"));
    }
    let lines = |tail| row_limit("tail", Some(tail), (0, log_tail::LINES_MAX));
    asked.tail.map(lines).transpose()
}

fn has_no_output(run: &RunId, last: Option<&RunRecord>) -> ApiError {
    let Some(last) = last.filter(|last| last.state.is_end()) else {
        let fix = format!("follow it with `evenkeel run logs -f {run}`");
        return ApiError::conflict(format!("run {run} has not started yet, so it has no output: {fix}"));
    };
    let (state, reason) = (last.state.as_str(), &last.reason);
    ApiError::conflict(format!("run {run} never started, so it has no output: it is {state}: {reason}"))
}

/// Whether an attempt has written output that its node no longer has.
async fn is_gone(app: &App, record: &RunRecord) -> Result<bool, ApiError> {
    if record.output == 0 || !record.state.is_end() {
        return Ok(false);
    }
    let piece = LogPieceQuery { attempt: record.attempt, offset: 0, follow: false };
    Ok(match relay::other(app, &record.node)? {
        Some(other) => other.piece(&escape(&record.run.to_string()), piece).await?.is_none(),
        None => {
            let own = app.handle.log(&record.run, record.attempt, 0, 1).await;
            own.is_ok_and(|chunk| chunk.data.is_empty())
        }
    })
}

/// The file name of an attempt's output, valid on any system.
fn file_name(run: &RunId, attempt: u32) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    format!("{}.{attempt}.log", run.to_string().chars().map(plain).collect::<String>())
}
